//! The demonstration without root: Wattline's graph between two ports in memory, with the same
//! frames as in the namespaces.

use super::live::Live;
use super::namespaces::prepare;
use super::notes::{background, notes};
use super::pass::PassFigures;
use super::report::{Report, Row};
use super::settings::Settings;
use crate::watch::Watch;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use wattline_dataplane::counters::Snapshot;
use wattline_dataplane::forwarding::PortConfig;
use wattline_dataplane::frame::FramePool;
use wattline_dataplane::next_hop::{Adjacency, NextHop};
use wattline_dataplane::nodes::RouterParts;
use wattline_dataplane::port::PortId;
use wattline_dataplane::punt::Discard;
use wattline_dataplane::routes::Routes;
use wattline_dataplane::worker::{Worker, WorkerParts};
use wattline_ports::memory::{WireEnd, wire};
use wattline_testbed::Error;
use wattline_testbed::clock::monotonic_nanos;
use wattline_testbed::cpu::CpuTime;
use wattline_testbed::forwarder::Totals;
use wattline_testbed::raw::Received;
use wattline_testbed::replay::Crossing;
use wattline_testbed::topology::{LEFT, RIGHT, SINK, Station};
use wattline_units::{Span, Time};

/// As tables and displays call it.
const FORWARDER: &str = "wattline in memory";
const CABLE_FRAMES: usize = 1_024;
const CHUNKS: u32 = 4_096;
const CHUNK: u32 = 2_048;
const HEADROOM: u32 = 128;
const LONGEST_FRAME: usize = 1_514;
/// Pause of a thread that has nothing to do.
const PAUSE: Duration = Duration::from_micros(20);
/// Time for which the far end listens after the last frame was sent.
const DRAIN: Duration = Duration::from_millis(50);

pub(super) fn run(settings: &Settings, reason: String, watch: &Watch) -> Result<Report, Error> {
    watch.begin(FORWARDER);
    let mut sets = vec![("mix".to_owned(), super::mix::frames(&settings.load))];
    for path in &settings.captures {
        let replay = prepare(path, settings)?;
        sets.push((replay.name, replay.frames));
    }
    let mut rows = Vec::new();
    let mut all = Totals::default();
    for (traffic, frames) in &sets {
        let background = background()?;
        let before = CpuTime::now()?;
        let (crossing, counted) = cross(traffic, frames, settings.load.rate_pps, watch)?;
        let cpu = CpuTime::now()? - before;
        let figures = PassFigures::frame_counts(frames, &crossing);
        let row = Row::new(FORWARDER, traffic, figures, cpu, background);
        watch.done(row.done());
        rows.push(row);
        add(&mut all, &counted);
    }
    let mut notes = notes(&rows);
    notes.insert(
        0,
        format!(
            "{reason}. So the kernel is not shown, and Wattline forwards between two ports in \
             memory: its own graph, without a system call. Run as root for the comparison."
        ),
    );
    Ok(Report { rows, wattline: Some(all), wattline_xdp: None, notes })
}

fn add(all: &mut Totals, counted: &Snapshot) {
    all.received += counted.received;
    all.forwarded += counted.forwarded;
    all.punted += counted.punted;
    all.generated += counted.generated;
    for (reason, count) in &counted.dropped {
        *all.dropped.entry((*reason).to_string()).or_default() += count;
    }
}

/// A worker between two cables, and the far ends of the cables.
fn router() -> Result<(Worker, Routes, WireEnd, WireEnd), Error> {
    let failed = |reason: String| Error::Router { what: reason, log: String::new() };
    let mut routes = Routes::new([LEFT, RIGHT].map(port).into());
    let to_sink = NextHop::Forward(Adjacency {
        port: PortId(1),
        mtu: 1500,
        link_mtu: 1500,
        destination_mac: SINK.mac,
        source_mac: RIGHT.mac,
        vlan: None,
        gateway: None,
        source: None,
    });
    for family in [IpAddr::V4([0; 4].into()), IpAddr::V6([0; 16].into())] {
        let everything = ipnet::IpNet::new_assert(family, 0);
        routes.route(everything, &to_sink).map_err(|error| failed(error.to_string()))?;
    }
    routes.publish().map_err(|errors| failed(format!("{errors:?}")))?;

    let (left, left_port) = wire(CABLE_FRAMES, LONGEST_FRAME);
    let (right, right_port) = wire(CABLE_FRAMES, LONGEST_FRAME);
    let (neighbours, _) = sync_channel(1);
    let worker = Worker::new(WorkerParts {
        ports: vec![
            Box::new(left_port.into_queue(PortId(0))),
            Box::new(right_port.into_queue(PortId(1))),
        ],
        pool: FramePool::zeroed(CHUNKS, CHUNK, HEADROOM),
        routes: routes.reader(),
        router: RouterParts { punt: Box::new(Discard), neighbours, icmp_rate: 100, icmp_burst: 10 },
    })
    .map_err(|errors| failed(format!("{errors:?}")))?;
    Ok((worker, routes, left, right))
}

fn port(station: Station) -> PortConfig {
    let address = |ip: IpAddr, prefix| ipnet::IpNet::new_assert(ip, prefix);
    PortConfig {
        mac: station.mac,
        addresses: vec![address(station.v4.into(), 24), address(station.v6.into(), 64)],
        ..PortConfig::default()
    }
}

/// Sends frames through a router in memory at a given rate. A frame that does not fit into the
/// cable is lost, as on a card.
fn cross(
    traffic: &str,
    frames: &[Vec<u8>],
    rate_pps: f64,
    watch: &Watch,
) -> Result<(Crossing, Snapshot), Error> {
    let (mut worker, routes, mut near, mut far) = router()?;
    let counters = worker.counters();
    let live = Live::new(FORWARDER, traffic, frames.len() as u64, watch);
    let over = AtomicBool::new(false);
    let crossing = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Acquire) {
                let now = Time::ZERO + Span::from_nanos(monotonic_nanos());
                if worker.step(now) == 0 {
                    std::thread::sleep(PAUSE);
                }
            }
        });
        let listener = scope.spawn(|| listen(&mut far, &over));
        let sent_nanos = send(&mut near, frames, rate_pps, |sent| {
            live.show(sent, counters.snapshot().forwarded);
        });
        std::thread::sleep(DRAIN);
        over.store(true, Ordering::Release);
        let to_sink = listener.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Crossing { sent_nanos, to_sink, to_source: Vec::new() }
    });
    drop(routes);
    Ok((crossing, counters.snapshot()))
}

fn send(
    near: &mut WireEnd,
    frames: &[Vec<u8>],
    rate_pps: f64,
    show: impl Fn(u64),
) -> Vec<Option<u64>> {
    let start = monotonic_nanos();
    let mut sent = Vec::with_capacity(frames.len());
    for (index, frame) in frames.iter().enumerate() {
        let due = start + (index as f64 / rate_pps * 1e9) as u64;
        let ahead = Duration::from_nanos(due.saturating_sub(monotonic_nanos()));
        if ahead > PAUSE {
            std::thread::sleep(ahead);
        }
        // A frame counts as offered even if the cable is full; it is then lost.
        sent.push(Some(monotonic_nanos()));
        near.send(frame);
        if index % 4_096 == 0 {
            show(index as u64);
        }
    }
    sent
}

fn listen(far: &mut WireEnd, over: &AtomicBool) -> Vec<Received> {
    let mut received = Vec::new();
    loop {
        match far.receive() {
            Some(frame) => received.push(Received { nanos: monotonic_nanos(), frame }),
            None if over.load(Ordering::Acquire) => return received,
            None => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_testbed::forwarder::Mode;
    use wattline_testbed::probe::Load;

    #[test]
    fn the_mix_passes_through_memory_and_adds_up() {
        let load = Load {
            rate_pps: 20_000.0,
            duration: Duration::from_millis(100),
            flows: 8,
            ..Load::default()
        };
        let settings =
            Settings { load, captures: vec![], mode: Mode::Adaptive, binary: "not used".into() };
        let watch = Watch::new(1);
        let report = run(&settings, "because this is a test".to_owned(), &watch).unwrap();
        let told = serde_json::to_value(watch.stats().unwrap()).unwrap();
        assert_eq!(told["stages"]["done"][0]["stage"], "wattline in memory: mix");
        assert_eq!(told["stages"]["done"][0]["offered_packets"], 2_000);
        let row = &report.rows[0];
        assert_eq!(row.offered_packets, 2_000);
        assert_eq!(row.forwarded_packets + row.lost_packets, 2_000);
        assert!(row.forwarded_packets > 0);
        let totals = report.wattline.unwrap();
        assert!(totals.balance(), "{totals:?}");
        assert_eq!(totals.forwarded, row.forwarded_packets);
        assert!(report.notes[0].contains("because this is a test"));
    }
}
