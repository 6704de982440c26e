//! Helpers for the tests of the simulator.

use wattline_policies::POLICIES;
use wattline_policy::{CoreView, LatencyView, Observation, PowerView, QueueView, Trigger};
use wattline_server::{ServerFile, ServerModel};
use wattline_sim::{Report, Scenario, Setting, run};
use wattline_traffic::source::{Content, Poisson, Rate, Source};
use wattline_traffic::{Popularity, Sizes, Spec, Spread};
use wattline_units::{PacketsPerSecond, Span, Time};

/// Returns the policies that this simulator runs: all but the one that emulates the processor of a
/// request server.
pub fn played() -> impl Iterator<Item = &'static str> {
    let played: Vec<&str> =
        POLICIES.iter().map(|info| info.name).filter(|name| *name != "hardware-pstates").collect();
    assert_eq!(played.len() + 1, POLICIES.len());
    played.into_iter()
}

pub fn server(name: &str) -> ServerModel {
    ServerFile::load(name).unwrap().model().unwrap().clone()
}

/// Returns the setting of a run of one second after a warm-up of 0.1 s, with 64-byte IPv4 packets.
pub fn setting<'a>(server: &'a ServerModel, policy: &str) -> Setting<'a> {
    let policy = POLICIES.parse(policy).unwrap();
    Setting {
        warmup: Span::from_millis(100),
        ..Setting::new(server, policy, Span::from_millis(1_000))
    }
}

/// Returns a Poisson stream of packets of one size. Its flows are spread evenly over ports and
/// table entries.
pub fn poisson(server: &ServerModel, rate: f64, bytes: u16, seed: u64) -> Poisson {
    let ports = server.nic.ports as u8;
    let flows = 128 * 4 * u32::from(ports);
    let content =
        Content::new(Sizes::fixed(bytes), flows, ports, Popularity::Uniform, Spread::Even, seed);
    Poisson::new(Rate::Packets(rate), content, seed)
}

/// Returns interval reports of a short run under `queue-length`, without real time.
pub fn seeded(server: &ServerModel, traffic: &Spec, output_links: bool, seed: u64) -> Vec<Report> {
    let setting = Setting {
        duration: Span::from_millis(5),
        warmup: Span::from_millis(1),
        interval: Some(Span::from_millis(1)),
        output_links,
        seed,
        ..setting(server, "queue-length")
    };
    Scenario { setting, traffic }.run().unwrap().intervals.iter().map(timeless).collect()
}

/// A recorded observation.
#[derive(Debug, Clone)]
pub struct Seen {
    pub now: Time,
    pub trigger: Trigger,
    pub queues: Vec<QueueView>,
    pub cores: Vec<CoreView>,
    pub latency: Option<LatencyView>,
    pub power: Option<PowerView>,
    pub entries: Vec<u64>,
    pub offered: Option<PacketsPerSecond>,
}

impl From<&Observation<'_>> for Seen {
    fn from(seen: &Observation<'_>) -> Self {
        Self {
            now: seen.now,
            trigger: seen.trigger,
            queues: seen.queues.to_vec(),
            cores: seen.cores.to_vec(),
            latency: seen.latency,
            power: seen.power,
            entries: seen.entries.to_vec(),
            offered: seen.offered,
        }
    }
}

/// Returns the report with real time set to zero: the only value that may differ between equal
/// runs.
pub fn timeless(report: &Report) -> Report {
    Report { wall_seconds: 0.0, simulated_packets_per_second: 0.0, ..report.clone() }
}

/// Runs the simulation and checks conservation in its report.
pub fn simulate(setting: &Setting<'_>, source: &mut dyn Source) -> Report {
    let report = run(setting, source).unwrap();
    assert_conserved(&report);
    report
}

/// Checks properties of every report: packets are conserved, each core's time adds up to one, and
/// the power of the components adds up to the total.
pub fn assert_conserved(report: &Report) {
    assert_eq!(
        report.offered_packets + report.waiting_at_start_packets,
        report.forwarded_packets + report.dropped_packets + report.waiting_at_end_packets,
    );
    for core in &report.residency.cores {
        let sum = core.useful + core.empty + core.idle.iter().sum::<f64>();
        assert!((sum - 1.0).abs() < 1e-9, "core {} spent {sum}", core.core);
    }
    let parts = report.power_by_component_watts.total().0;
    assert!((parts - report.power_watts).abs() < 1e-9 * report.power_watts.max(1.0));
    for interval in &report.intervals {
        assert_conserved(interval);
    }
}
