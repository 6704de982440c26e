//! An example of statistics, for tests of readers.

use crate::{
    Accuracy, Details, HostStatus, KernelShare, Latency, PortCounters, PortState, PortStats, Power,
    RouterStats, Source, Stats, WorkerStats,
};

/// Returns statistics of a router of two ports and two workers after so many seconds, with so many
/// packets.
pub fn example(uptime_seconds: f64, packets: u64) -> Stats {
    let port = |name: &str, received: u64, lost: u64, transmitted: u64| PortStats {
        name: name.to_owned(),
        state: Some(PortState::Up),
        counters: PortCounters {
            received_packets: received,
            received_bytes: 60 * received,
            receive_ring_full: lost,
            transmitted_packets: transmitted,
            ..PortCounters::default()
        },
        ..PortStats::default()
    };
    let busy = WorkerStats {
        active: true,
        received: packets,
        useful_cycles: 30 * packets,
        empty_cycles: 10 * packets,
        sleeping_cycles: 80 * packets,
        sleeps: packets / 100,
        ..WorkerStats::default()
    };
    let share = KernelShare {
        worker: 1,
        cpu: 3,
        softirq_share: 0.25,
        ksoftirqd_share: 0.1,
        napi_share: 0.05,
    };
    let host = HostStatus { kernel: vec![share], ..HostStatus::default() };
    let latency = Latency {
        latency_p50_seconds: Some(9e-6),
        latency_p99_seconds: Some(5e-5),
        ..Latency::default()
    };
    Stats::Router(Box::new(RouterStats {
        uptime_seconds,
        dropped: [("no-route", packets / 10), ("ttl", 0)]
            .map(|(reason, count)| (reason.to_owned(), count))
            .into(),
        losses: [("flow-records-overload".to_owned(), packets)].into(),
        ports: vec![port("left", packets, 5, 0), port("right", 0, 0, packets / 2)],
        workers: vec![busy, WorkerStats::default()],
        power: Some(Power {
            policy: "queue-length".to_owned(),
            power_watts: Some(131.5),
            source: Source::Emulated,
            accuracy: Accuracy::Static,
            frequency_hertz: vec![1.6e9, 3.3e9],
            cores_active: 1,
            latency,
            details: Details { host: Some(host), ..Details::default() },
            ..Power::default()
        }),
        ..RouterStats::default()
    }))
}
