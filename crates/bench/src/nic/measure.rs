//! Throughput between two cards and its cost: processor time and, where the machine has meters,
//! power (the two metrics of Sohan et al.: Gbit/s per watt of the card, and of the server).

use crate::breakdown::{ComponentPower, MeterPower, Meters, components};
use serde::Serialize;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use wattline_linux::sysfs::Tree;
use wattline_testbed::Error;
use wattline_testbed::cpu::CpuTime;
use wattline_testbed::packets::{Addresses, End, Load, Sizes, Tester, Ways, anywhere, plain_link};

/// Options of the measurement.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The interface that sends, as `[NAMESPACE/]INTERFACE`.
    pub from: String,
    /// The interface that receives, joined to it by a cable.
    pub to: String,
    /// Queues of each.
    pub queues: u32,
    /// Lengths of frames.
    pub sizes: Vec<Sizes>,
    /// Sending time of each length, and duration of the power reading without data.
    pub duration: Duration,
}

/// One length, as fast as it goes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Carried {
    /// Length or mix.
    pub frames: String,
    /// Packets received per second.
    pub rate_pps: f64,
    /// Bits per second of frames received, with frame check sequence, preamble and gap.
    pub wire_rate_bps: f64,
    /// Packets that were sent and not received.
    pub lost_packets: u64,
    /// Busy time of all processors, in percent of one (as Sohan et al. count it): both ends, and
    /// whatever else ran.
    pub cpu_percent: f64,
    /// Busy time of all processors per packet.
    pub cpu_seconds_per_packet: f64,
    /// Power by component; empty on a machine without meters.
    pub components: Vec<ComponentPower>,
}

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// The sending interface.
    pub from: String,
    /// The receiving interface.
    pub to: String,
    /// Whether frames are sent and received without copies.
    pub zero_copy: bool,
    /// Each length.
    pub carried: Vec<Carried>,
    /// Missing meters with the reason; empty if there are some.
    pub meters_missing: String,
}

/// Measures.
///
/// # Errors
/// As [`Tester::open`] and [`Tester::trial`].
pub fn measure(options: &Options, tell: &mut dyn FnMut(&str)) -> Result<Measured, Error> {
    let mut meters = Meters::of(&Tree::live());
    let (from, to) = (End::from(options.from.as_str()), End::from(options.to.as_str()));
    let idle = without_data(&mut meters, options.duration);
    let mut tester = Tester::open(from, Some(to), options.queues, Ways::SOCKETS)?;
    let linked = without_data(&mut meters, options.duration);
    let addresses = plain_link(&tester.from, &tester.to);
    let mut carried = Vec::new();
    for sizes in &options.sizes {
        tell(&format!("frames of {} bytes", sizes.name()));
        let power = (idle.as_slice(), linked.as_slice());
        carried.push(one(&mut tester, &addresses, options, sizes, &mut meters, power)?);
    }
    Ok(Measured {
        from: tester.from.name.clone(),
        to: tester.to.name.clone(),
        zero_copy: tester.from.zero_copy && tester.to.zero_copy,
        carried,
        meters_missing: meters.missing,
    })
}

fn without_data(meters: &mut Meters, duration: Duration) -> Vec<MeterPower> {
    if !meters.missing.is_empty() {
        return Vec::new();
    }
    meters.during(|| std::thread::sleep(duration)).1
}

fn one(
    tester: &mut Tester,
    addresses: &Addresses,
    options: &Options,
    sizes: &Sizes,
    meters: &mut Meters,
    (idle, linked): (&[MeterPower], &[MeterPower]),
) -> Result<Carried, Error> {
    let load = Load {
        rate_pps: f64::INFINITY,
        duration: options.duration,
        sizes: sizes.clone(),
        flows: 64.max(options.queues),
        ..Load::default()
    };
    let never = AtomicBool::new(false);
    let (before, began) = (CpuTime::now()?, Instant::now());
    let (outcome, loaded) =
        meters.during(|| tester.trial(addresses, &load, &anywhere, &never, &mut |_| ()));
    let outcome = outcome?;
    let (seconds, busy) = (began.elapsed(), CpuTime::now()? - before);
    let received = outcome.received_packets.max(1) as f64;
    let share = outcome.received_packets as f64 / outcome.sent_packets.max(1) as f64;
    Ok(Carried {
        frames: outcome.frames.clone(),
        rate_pps: outcome.received_rate_pps,
        wire_rate_bps: outcome.sent_wire_rate_bps * share,
        lost_packets: outcome.lost_packets + outcome.receiver_overflow_packets,
        cpu_percent: busy.busy_seconds() / seconds.as_secs_f64() * 100.0,
        cpu_seconds_per_packet: busy.busy_seconds() / received,
        components: components(idle, linked, &loaded, outcome.received_rate_pps),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_testbed::leftovers::can_build_namespaces;
    use wattline_testbed::namespace::Namespace;
    use wattline_testbed::topology::{SINK, SOURCE, connect};

    #[test]
    fn a_pair_of_interfaces_is_measured_with_its_processor_time() {
        let test = "a_pair_of_interfaces_is_measured_with_its_processor_time";
        if !can_build_namespaces(test) {
            return;
        }
        let [near, far] = ["near", "far"].map(|role| Namespace::create(role).unwrap());
        connect(&near, SOURCE, &far, SINK, 1500, 1).unwrap();
        let end = |namespace: &Namespace, name: &str| format!("{}/{name}", namespace.name());
        let options = Options {
            from: end(&near, SOURCE.interface),
            to: end(&far, SINK.interface),
            queues: 1,
            sizes: vec![Sizes::fixed(64), Sizes::fixed(1518)],
            duration: Duration::from_millis(300),
        };
        let measured = measure(&options, &mut |_| ()).unwrap();
        let [short, long] = measured.carried.as_slice() else { panic!("{measured:?}") };
        assert!(short.rate_pps > 1_000.0 && short.cpu_seconds_per_packet > 0.0, "{measured:?}");
        assert!(long.wire_rate_bps > short.wire_rate_bps, "{measured:?}");
        let without = !measured.meters_missing.is_empty();
        assert!(measured.carried.iter().all(|it| it.components.is_empty() == without));
    }

    #[test]
    fn an_interface_that_is_not_there_is_named() {
        if !can_build_namespaces("an_interface_that_is_not_there_is_named") {
            return;
        }
        let options = Options {
            from: "nonesuch0".into(),
            to: "nonesuch1".into(),
            queues: 1,
            sizes: vec![Sizes::fixed(64)],
            duration: Duration::from_millis(10),
        };
        let error = measure(&options, &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("nonesuch0"), "{error}");
    }
}
