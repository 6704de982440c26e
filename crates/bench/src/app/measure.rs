//! Repeats of one workload: plain forwarding and every application take turns.

use super::application::{Application, Make};
use super::args::Args;
use super::report::{Added, Cost, Node, Order, Row};
use super::traffic::{FlowTraffic, Replay};
use crate::memory_router::{Error, MemoryRouter, PACKETS, Repeat, Traffic};
use crate::sample::Sample;
use ipnet::IpNet;
use quanta::Clock;
use wattline_traffic::Sizes;

/// A workload: its name, and a source that yields the same packets each time.
pub(super) struct Workload {
    name: String,
    make: Box<dyn Fn() -> Box<dyn Traffic>>,
    /// Number of untimed repeats, enough to send a packet of every flow.
    warm_up: usize,
}

pub(super) fn workloads(args: &Args) -> Result<Vec<Workload>, Error> {
    let flows = args.flows;
    let of = |name: String, lengths: Vec<usize>| Workload {
        name,
        make: Box::new(move || Box::new(FlowTraffic::new(flows, &lengths))),
        warm_up: flows.div_ceil(PACKETS),
    };
    let mut list: Vec<Workload> =
        [64, 512, 1420].into_iter().map(|size| of(format!("{size} B"), vec![size - 4])).collect();
    let imix = Sizes::IMIX.iter();
    // Frames in memory have no check sequence.
    let imix = imix.flat_map(|(bytes, count)| vec![usize::from(*bytes) - 4; *count as usize]);
    list.push(of("imix".to_owned(), imix.collect()));
    for file in &args.captures {
        let replay = Replay::load(file)?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let warm_up = replay.len().div_ceil(PACKETS);
        list.push(Workload { name, make: Box::new(move || Box::new(replay.clone())), warm_up });
    }
    Ok(list)
}

/// A router under measurement and its source of packets.
struct DeviceUnderTest {
    router: MemoryRouter,
    traffic: Box<dyn Traffic>,
    repeats: Vec<Repeat>,
}

impl DeviceUnderTest {
    fn repeat(&mut self, clock: &Clock, timed: bool) -> Result<(), Error> {
        let repeat = self.router.repeat(clock, &mut *self.traffic)?;
        self.repeats.extend(timed.then_some(repeat));
        Ok(())
    }

    fn cost(&self, bytes: f64, clock_hertz: f64) -> Option<Cost> {
        let cycles = Sample::summarise(self.repeats.iter().map(|repeat| repeat.typical).collect())?;
        let nanoseconds_per_packet = cycles.median / clock_hertz * 1e9;
        Some(Cost {
            cycles_per_packet: cycles,
            cycles_per_byte: cycles.median / bytes,
            nanoseconds_per_packet,
            rate_gbps: bytes * 8.0 / nanoseconds_per_packet,
        })
    }
}

/// The timed repeats of one workload.
pub(super) struct Measured {
    name: String,
    plain: DeviceUnderTest,
    others: Vec<(DeviceUnderTest, Box<dyn Application>)>,
}

impl Measured {
    pub fn new(
        args: &Args,
        make: Make,
        prefixes: &[IpNet],
        clock: &Clock,
        workload: Workload,
    ) -> Result<Self, Error> {
        let device = |features, traffic| {
            let router = MemoryRouter::new(prefixes, features, args.batch)?;
            Ok(DeviceUnderTest { router, traffic, repeats: Vec::with_capacity(args.repeats) })
        };
        let mut plain = device(Vec::new(), (workload.make)())?;
        let with = |mut application: Box<dyn Application>| {
            let traffic = application.traffic((workload.make)());
            let device = device(application.features(), traffic)?;
            application.watch(&device.router.tap_slots(), device.router.chunks())?;
            Ok::<_, Error>((device, application))
        };
        let mut others = make(args)?.into_iter().map(with).collect::<Result<Vec<_>, _>>()?;
        for round in 0..workload.warm_up + 1 + args.repeats {
            let timed = round > workload.warm_up;
            plain.repeat(clock, timed)?;
            for (device, application) in &mut others {
                device.repeat(clock, timed)?;
                application.settle()?;
            }
        }
        Ok(Self { name: workload.name, plain, others })
    }

    /// Summary of the repeats; `None` if there were none.
    pub fn into_row(self, clock_hertz: f64) -> Option<Row> {
        let bytes = self.plain.repeats.iter().map(|repeat| repeat.bytes).sum::<f64>();
        let packet_size_bytes = bytes / self.plain.repeats.len() as f64;
        let ipv4 = self.plain.cost(packet_size_bytes, clock_hertz)?;
        let known = self.plain.router.names();
        let added = |(device, application): &(DeviceUnderTest, Box<dyn Application>)| {
            let pairs = device.repeats.iter().zip(&self.plain.repeats);
            let added = Sample::summarise(
                pairs.map(|(with, plain)| with.typical - plain.typical).collect(),
            )?;
            let names = device.router.names().into_iter().enumerate();
            let node = |(number, name): (usize, &'static str)| {
                let cycles = device.repeats.iter().map(|repeat| repeat.nodes[number]).collect();
                Some(Node { name, cycles_per_packet: Sample::summarise(cycles)? })
            };
            let cost = device.cost(packet_size_bytes, clock_hertz)?;
            let counted = application.counted(&cost);
            Some(Added {
                name: application.name(),
                cost,
                added_cycles_per_packet: added,
                added_nanoseconds_per_packet: added.median / clock_hertz * 1e9,
                nodes: names.filter(|(_, name)| !known.contains(name)).filter_map(node).collect(),
                counted,
            })
        };
        let applications: Vec<Added> = self.others.iter().filter_map(added).collect();
        let order = Order::compare(&ipv4, &applications);
        Some(Row { name: self.name, packet_size_bytes, ipv4, applications, order })
    }
}

#[cfg(test)]
mod tests {
    use wattline_testbed::packets::Sizes as Frames;
    use wattline_traffic::Sizes;

    #[test]
    fn imix_is_the_same_mix_in_model_and_measurement() {
        let total: f64 = Sizes::IMIX.iter().map(|(_, weight)| weight).sum();
        let mean =
            Sizes::IMIX.iter().map(|(bytes, weight)| f64::from(*bytes) * weight).sum::<f64>();
        assert_eq!(mean / total, Frames::imix().mean());
        assert_eq!(Sizes::IMIX[0].0, 64);
    }
}
