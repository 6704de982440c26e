//! Metrics of a router, for Prometheus.

use crate::application::Application;
use crate::stats::{KernelStats, PortState, Stats, XdpTraffic};
use wattline_daemon::metrics::{Exposition, Kind, build_info, log_lines_lost, write_governor};
use wattline_dataplane::counters::{PortCounters, Snapshot};

/// Label of a port's counter, and its value.
type Column = (&'static str, fn(&PortCounters) -> u64);

const PACKETS: &[Column] =
    &[("receive", |port| port.received_packets), ("transmit", |port| port.transmitted_packets)];
const BYTES: &[Column] =
    &[("receive", |port| port.received_bytes), ("transmit", |port| port.transmitted_bytes)];
const LOSSES: &[Column] = &[
    ("receive-ring-full", |port| port.receive_ring_full),
    ("fill-ring-empty", |port| port.fill_ring_empty),
    ("invalid", |port| port.receive_invalid),
];

/// Writes all metrics of a router. `workers` are its workers' counters; each worker has one queue
/// of each port.
pub(crate) fn render(
    stats: &Stats,
    workers: &[(Snapshot, bool)],
    applications: &[Box<dyn Application>],
) -> String {
    let mut text = Exposition::default();
    let to = &mut text;
    build_info(to, &stats.build);
    let help = "Time since the router was started.";
    to.single_family("wattline_uptime_seconds", Kind::Gauge, help, stats.uptime_seconds);
    log_lines_lost(to, stats.log_lines_lost);
    packets(to, stats, workers);
    work(to, stats, workers);
    if let Some(power) = &stats.power {
        write_governor(to, power);
        let help = "1 while the machine is governed, 0 while the governor waits: it could not begin \
                    anew when ports changed.";
        let governing = f64::from(u8::from(power.waits_because.is_none()));
        to.single_family("wattline_governing", Kind::Gauge, help, governing);
    }
    let routes = [("ipv4", stats.routes.ipv4 as f64), ("ipv6", stats.routes.ipv6 as f64)];
    let help = ("Prefixes in the forwarding tables.", "family");
    to.labelled_family("wattline_routes", Kind::Gauge, help, routes);
    applications.iter().for_each(|application| application.metrics(to));
    text.into_text()
}

fn packets(to: &mut Exposition, stats: &Stats, workers: &[(Snapshot, bool)]) {
    let with_state = || stats.ports.iter().filter_map(|port| Some((&port.name, port.state?)));
    let up = with_state().map(|(port, state)| (port, f64::from(u8::from(state == PortState::Up))));
    let help =
        ("1 while Wattline forwards through the port: its state in `stats` is `up`.", "port");
    to.labelled_family("wattline_port_up", Kind::Gauge, help, up);
    let help = "1 for the state that the port has, as in `stats`.";
    to.family("wattline_port_state", Kind::Gauge, help);
    for (port, state) in with_state() {
        to.sample(&[("port", port), ("state", state.name())], 1.0);
    }
    to.family("wattline_packets_total", Kind::Counter, "Frames by port, queue and direction.");
    by_queue(to, stats, workers, "direction", PACKETS);
    by_xdp(to, stats, |xdp| [xdp.received_packets, xdp.transmitted_packets]);
    to.family("wattline_bytes_total", Kind::Counter, "Bytes by port, queue and direction.");
    by_queue(to, stats, workers, "direction", BYTES);
    by_xdp(to, stats, |xdp| [xdp.received_bytes, xdp.transmitted_bytes]);
    let help = "Frames that a port lost before a worker saw them.";
    to.family("wattline_port_losses_total", Kind::Counter, help);
    by_queue(to, stats, workers, "reason", LOSSES);
    let drops = stats.dropped.iter().chain(&stats.xdp_dropped);
    let drops = drops.map(|(reason, count)| (reason, *count as f64));
    let help = ("Frames that were dropped, by reason.", "reason");
    to.labelled_family("wattline_drops_total", Kind::Counter, help, drops);
    let help = "Frames by port and by verdict of its XDP program.";
    to.family("wattline_xdp_verdicts_total", Kind::Counter, help);
    for port in &stats.ports {
        for (verdict, count) in &port.verdicts {
            to.sample(&[("port", &port.name), ("verdict", verdict)], *count as f64);
        }
    }
    for (name, help, count) in [
        ("wattline_received_packets_total", "Frames taken over from the kernel.", stats.received),
        ("wattline_forwarded_packets_total", "Frames that ports took.", stats.forwarded),
        ("wattline_punted_packets_total", "Frames that were left to the kernel.", stats.punted),
        (
            "wattline_xdp_passed_packets_total",
            "Frames that XDP programs left to the kernel before a worker saw them.",
            stats.xdp_passed,
        ),
        ("wattline_generated_packets_total", "Frames that the router made.", stats.generated),
        (
            "wattline_frees_refused_total",
            "Chunks of frame memory that were freed though they were free or foreign: a defect.",
            stats.frees_refused,
        ),
    ] {
        to.single_family(name, Kind::Counter, help, count as f64);
    }
    let (help, held) = ("Frames that wait for a neighbour.", stats.held as f64);
    to.single_family("wattline_held_packets", Kind::Gauge, help, held);
    if let Some(kernel) = &stats.kernel {
        kernel_side(to, kernel);
    }
}

/// Writes metrics of the audit and of requests for neighbours.
fn kernel_side(to: &mut Exposition, kernel: &KernelStats) {
    let help = "Requests to the kernel to resolve or confirm a neighbour.";
    let requests = kernel.neighbour_requests as f64;
    to.single_family("wattline_neighbour_requests_total", Kind::Counter, help, requests);
    for (name, kind, help, value) in [
        (
            "wattline_audited_addresses_total",
            Kind::Counter,
            "Addresses for which decisions were compared with the kernel's.",
            kernel.audited_addresses,
        ),
        (
            "wattline_audit_mismatches_total",
            Kind::Counter,
            "Addresses for which the kernel decided otherwise.",
            kernel.audit_mismatches,
        ),
        (
            "wattline_audit_left_prefixes",
            Kind::Gauge,
            "Prefixes that are left to the kernel, as it decides otherwise.",
            kernel.audit_left_prefixes,
        ),
    ] {
        to.single_family(name, kind, help, value as f64);
    }
    let help = "Requests for neighbours without effect: too many at once, or no room in the \
                kernel's table.";
    let lost = [
        ("limit", kernel.neighbour_requests_dropped as f64),
        ("table-full", kernel.neighbour_requests_refused as f64),
    ];
    let help = (help, "reason");
    to.labelled_family("wattline_neighbour_requests_lost_total", Kind::Counter, help, lost);
}

fn by_queue(
    to: &mut Exposition,
    stats: &Stats,
    workers: &[(Snapshot, bool)],
    label: &str,
    columns: &[Column],
) {
    for (queue, (snapshot, _)) in workers.iter().enumerate() {
        let queue = queue.to_string();
        for (port, counts) in stats.ports.iter().zip(&snapshot.ports) {
            for (what, count) in columns {
                let labels = [("port", port.name.as_str()), ("queue", &queue), (label, what)];
                to.sample(&labels, count(counts) as f64);
            }
        }
    }
}

/// Writes traffic that no worker saw, as that of a queue `xdp`.
fn by_xdp(to: &mut Exposition, stats: &Stats, counts: fn(&XdpTraffic) -> [u64; 2]) {
    for port in &stats.ports {
        let Some(xdp) = &port.xdp else { continue };
        for (direction, count) in ["receive", "transmit"].into_iter().zip(counts(xdp)) {
            let labels = [("port", port.name.as_str()), ("queue", "xdp"), ("direction", direction)];
            to.sample(&labels, count as f64);
        }
    }
}

fn work(to: &mut Exposition, stats: &Stats, workers: &[(Snapshot, bool)]) {
    let by_worker = |value: fn(&Snapshot, bool) -> f64| {
        let workers = workers.iter().enumerate();
        workers.map(move |(number, (snapshot, active))| (number, value(snapshot, *active)))
    };
    let help = ("1 while traffic is sent to the core's worker.", "core");
    let active = by_worker(|_, active| f64::from(u8::from(active)));
    to.labelled_family("wattline_core_active", Kind::Gauge, help, active);
    let help = ("Times that the core's worker blocked.", "core");
    let sleeps = by_worker(|snapshot, _| snapshot.sleeps as f64);
    to.labelled_family("wattline_core_sleeps_total", Kind::Counter, help, sleeps);
    let help = "Time-stamp counter cycles of rounds that found frames, of those that found none, and of sleep.";
    to.family("wattline_core_cycles_total", Kind::Counter, help);
    for (number, (snapshot, _)) in workers.iter().enumerate() {
        let core = number.to_string();
        for (kind, cycles) in [
            ("useful", snapshot.useful_cycles),
            ("empty", snapshot.empty_cycles),
            ("sleeping", snapshot.sleeping_cycles),
        ] {
            to.sample(&[("core", &core), ("rounds", kind)], cycles as f64);
        }
    }
    let nodes = stats.nodes.iter().map(|node| (&node.name, node.packets as f64));
    let help = ("Frames by node of the graph.", "node");
    to.labelled_family("wattline_node_packets_total", Kind::Counter, help, nodes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_governor::ledger::{Knob, Ledger};
    use wattline_governor::machine::Taken;
    use wattline_status::{Details, HostStatus, LatencyHistogram, Power, Source, Stuck};
    use wattline_units::Time;

    fn text_of(power: &Power) -> String {
        let mut text = Exposition::default();
        write_governor(&mut text, power);
        text.into_text()
    }

    #[test]
    fn governors_figures_carry_their_source_and_add_up() {
        let mut ledger = Ledger::default();
        for _ in 0..3 {
            ledger.note(Time::ZERO, Knob::Frequency, 0, Taken::Done, true);
        }
        let altered = Taken::Altered { found: "2.4 GHz".into() };
        ledger.note(Time::ZERO, Knob::Frequency, 0, altered, false);
        let parts = [("cpu-cores", 4.0), ("memory", 1.0)];
        let sensors = [("rapl:0", true), ("hwmon0/power1", false)];
        let stuck = vec![Stuck { setting: "x".to_owned(), stuck_seconds: 1.0 }];
        let host = HostStatus {
            sensors: sensors.map(|(name, up)| (name.to_owned(), up)).into(),
            stuck,
            ..HostStatus::default()
        };
        let text = text_of(&Power {
            latency_histogram: Some(LatencyHistogram {
                packets: 3,
                sum_seconds: 0.5,
                buckets: vec![(1e-6, 1), (0.2, 2)],
            }),
            source: Source::Emulated,
            power_watts: Some(131.5),
            energy_joules: Some(10.0),
            energy_by_component_joules: parts.map(|(name, part)| (name.to_owned(), part)).into(),
            energy_unmetered_seconds: 2.5,
            frequency_hertz: vec![1.6e9, 3.2e9],
            knobs: ledger.entries().cloned().collect(),
            details: Details { host: Some(host), ..Details::default() },
            ..Power::default()
        });
        for line in [
            "wattline_energy_joules_total{source=\"emulated\",component=\"cpu-cores\"} 4",
            "wattline_energy_joules_total{source=\"emulated\",component=\"rest\"} 5",
            "wattline_energy_unmetered_seconds{source=\"emulated\"} 2.5",
            "wattline_power_watts{source=\"emulated\"} 131.5",
            "wattline_core_frequency_hertz{core=\"1\"} 3200000000",
            "wattline_knob_writes_total{knob=\"frequency\",result=\"done\"} 3",
            "wattline_knob_writes_total{knob=\"frequency\",result=\"altered\"} 1",
            "wattline_knob_writes_total{knob=\"frequency\",result=\"failed\"} 0",
            "wattline_latency_seconds_bucket{le=\"0.000001\"} 1",
            "wattline_latency_seconds_bucket{le=\"+Inf\"} 3",
            "wattline_latency_seconds_sum 0.5",
            "wattline_sensor_up{source=\"rapl:0\"} 1",
            "wattline_sensor_up{source=\"hwmon0/power1\"} 0",
            "wattline_knobs_stuck 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn port_is_up_only_in_state_up_and_a_capture_has_no_state() {
        let port = |name: &str, state| crate::stats::PortStats {
            name: name.to_owned(),
            state,
            ..crate::stats::PortStats::default()
        };
        let ports = vec![
            port("a", Some(PortState::Up)),
            port("b", Some(PortState::NoCarrier)),
            port("c", Some(PortState::Absent)),
            port("d", None),
        ];
        let text = render(&Stats { ports, ..Stats::default() }, &[], &[]);
        let found: Vec<&str> =
            text.lines().filter(|line| line.starts_with("wattline_port_up")).collect();
        let expected = ["{port=\"a\"} 1", "{port=\"b\"} 0", "{port=\"c\"} 0"];
        assert_eq!(found, expected.map(|end| format!("wattline_port_up{end}")), "{text}");
        let states = text.lines().filter(|line| line.starts_with("wattline_port_state"));
        let expected = [
            "port=\"a\",state=\"up\"",
            "port=\"b\",state=\"no-carrier\"",
            "port=\"c\",state=\"absent\"",
        ];
        let expected = expected.map(|labels| format!("wattline_port_state{{{labels}}} 1"));
        assert_eq!(states.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn unknown_power_is_not_zero_watts() {
        assert_eq!(text_of(&Power::default()), "");
    }
}
