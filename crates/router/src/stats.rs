//! Statistics of a router, as they go over the control socket: built from counters of workers and XDP
//! programs and from the governor's figures.

use crate::platform::Seen;
use wattline_dataplane::counters::{self, NodeSnapshot, Snapshot};
use wattline_governor::account::{Interval, Totals};
use wattline_status::{Details, Latency, PortCounters};
use wattline_xdp::Verdict;

pub use wattline_status::{
    KernelStats, LatencyHistogram, NodeStats, NotStarted, PortState, PortStats, Power as PowerStats,
    Prefixes, RouterStats as Stats, TakeoverStats, WorkerStats, XdpTraffic,
};

/// Takes the counters, and means of a recent interval.
pub(crate) fn count(to: &mut PowerStats, totals: &Totals, recent: &Interval) {
    let Totals { at, own, machine } = totals;
    let energy = &machine.energy;
    (to.source, to.accuracy) = (energy.source, energy.accuracy);
    to.power_watts = recent.power_watts;
    to.power_by_component_watts = by_component(&recent.power_by_component_watts, |watts| *watts);
    to.power_rest_watts = recent.power_rest_watts;
    to.latency = recent.latency.map(Latency::from).unwrap_or_default();
    to.energy_joules = energy.whole.map(|whole| whole.0);
    to.energy_by_component_joules = by_component(&energy.parts, |part| part.0);
    to.energy_unmetered_seconds = energy.unmetered.as_seconds();
    to.model_seconds = to.scale.map(|_| at.as_seconds());
    to.offered_packets = machine.offered;
    to.forwarded_packets = machine.forwarded;
    to.dropped_packets = machine.dropped;
    to.entries_moved = machine.entries_moved;
    to.transitions = own.core_changes + own.frequency_changes;
    to.core_changes = own.core_changes;
    to.frequency_changes = own.frequency_changes;
    to.decisions = own.decisions;
    to.steps = own.steps;
    to.steps_altered = own.altered;
    to.steps_failed = own.failed;
}

fn by_component<'a, T: 'a>(
    parts: impl IntoIterator<Item = (&'a &'static str, &'a T)>,
    figure: fn(&T) -> f64,
) -> std::collections::BTreeMap<String, f64> {
    parts.into_iter().map(|(name, part)| ((*name).to_owned(), figure(part))).collect()
}

/// Takes the operating point and the decisions that led to it.
pub(crate) fn show(to: &mut PowerStats, seen: Seen) {
    let Seen { point, platform, knobs, decisions } = seen;
    let hertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |hertz| hertz.0);
    to.cores = platform.cores;
    to.cores_active = point.active.len();
    to.frequency_hertz = point.frequencies(&platform).map(hertz).collect();
    to.reason = decisions.last().map(|last| last.reason.clone());
    to.last_changes = decisions;
    to.knobs = knobs.to_vec();
}

/// Clears the figures of the present, as nobody governs now; those of the past stay.
pub(crate) fn end_of_governor(to: &mut PowerStats) {
    to.power_watts = None;
    to.power_by_component_watts.clear();
    to.power_rest_watts = None;
    to.latency = Latency::default();
    to.frequency_hertz.clear();
    // The router sends to all of them.
    to.cores_active = to.cores;
    to.reason = None;
    to.details = Details::default();
}

/// Counts that removed ports leave in the sums of the router.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Departed {
    /// Frames that went out by them.
    pub transmitted: u64,
    /// Frames that their interfaces refused.
    pub refused: u64,
    /// Frames that came in by them and had no egress port.
    pub no_egress_port: u64,
}

fn of_node(node: &NodeSnapshot) -> NodeStats {
    let mut stats = NodeStats {
        name: node.name.to_owned(),
        packets: node.frames,
        batches: node.batches,
        ..NodeStats::default()
    };
    stats.set_timed(node.timed_frames, node.cycles);
    stats
}

/// Statistics of a worker, from its counters.
pub(crate) fn of_worker(snapshot: &Snapshot, active: bool) -> WorkerStats {
    WorkerStats {
        active,
        hangs: false,
        received: snapshot.received,
        forwarded: snapshot.forwarded,
        useful_iterations: snapshot.useful_iterations,
        empty_iterations: snapshot.empty_iterations,
        useful_cycles: snapshot.useful_cycles,
        empty_cycles: snapshot.empty_cycles,
        sleeping_cycles: snapshot.sleeping_cycles,
        sleeps: snapshot.sleeps,
    }
}

fn of_port(counters: &counters::PortCounters) -> PortCounters {
    let counters::PortCounters {
        received_packets,
        received_bytes,
        transmitted_packets,
        transmitted_bytes,
        receive_ring_full,
        fill_ring_empty,
        receive_invalid,
        waiting: _,
    } = *counters;
    PortCounters {
        received_packets,
        received_bytes,
        transmitted_packets,
        transmitted_bytes,
        receive_ring_full,
        fill_ring_empty,
        receive_invalid,
    }
}

/// Statistics from the sum of all workers; only the control thread knows the rest.
pub(crate) fn of_sum(sum: &Snapshot, port_names: &[String]) -> Stats {
    let owned = |(name, count): (&&'static str, &u64)| ((*name).to_owned(), *count);
    let not_sent = [
        ("rate-limited", sum.icmp_rate_limited),
        ("not-allowed", sum.icmp_not_allowed),
        ("impossible", sum.icmp_impossible),
    ];
    let ports = port_names.iter().enumerate().map(|(number, name)| {
        let counters = sum.ports.get(number).map(of_port).unwrap_or_default();
        PortStats { name: name.clone(), counters, ..PortStats::default() }
    });
    Stats {
        received: sum.received,
        forwarded: sum.forwarded,
        punted: sum.punted,
        generated: sum.generated,
        held: sum.held,
        frees_refused: sum.frees_refused,
        dropped: sum.dropped.iter().map(owned).collect(),
        icmp_not_sent: not_sent
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
        ports: ports.collect(),
        nodes: sum.nodes.iter().map(of_node).collect(),
        ..Stats::default()
    }
}

/// Adds the frames that XDP programs forwarded by themselves, by port, and to the sums those of ports
/// that are gone. The verdicts of the ports have to be there.
pub(crate) fn add_xdp(stats: &mut Stats, traffic: Vec<XdpTraffic>, departed: Departed) {
    let Departed { transmitted, refused, no_egress_port } = departed;
    sum_xdp(stats, transmitted, refused, no_egress_port);
    let gone = |port: &PortStats| port.verdicts.get(Verdict::NoEgressPort.name()).copied();
    let gone: Vec<u64> = stats.ports.iter().map(|port| gone(port).unwrap_or(0)).collect();
    for (xdp, gone) in traffic.iter().zip(&gone) {
        sum_xdp(stats, xdp.transmitted_packets, xdp.refused_packets, *gone);
    }
    for ((port, xdp), gone) in stats.ports.iter_mut().zip(traffic).zip(gone) {
        port.counters.received_packets += xdp.received_packets + gone;
        port.counters.received_bytes += xdp.received_bytes;
        port.counters.transmitted_packets += xdp.transmitted_packets;
        port.counters.transmitted_bytes += xdp.transmitted_bytes;
        port.xdp = Some(xdp);
    }
}

fn sum_xdp(stats: &mut Stats, transmitted: u64, refused: u64, no_egress_port: u64) {
    for (reason, count) in [("xdp-no-egress-port", no_egress_port), ("xdp-refused", refused)] {
        if count > 0 {
            *stats.dropped.entry(reason.to_owned()).or_default() += count;
        }
    }
    stats.received += transmitted + no_egress_port + refused;
    stats.forwarded += transmitted;
    stats.xdp_forwarded += transmitted;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_port_are_keys_beside_its_name() {
        let counters =
            counters::PortCounters { received_packets: 3, waiting: 9, ..Default::default() };
        let counters = of_port(&counters);
        let port = PortStats { name: "a".to_owned(), counters, ..PortStats::default() };
        let json = serde_json::to_value(&port).unwrap();
        assert_eq!(
            (json["name"].as_str(), json["received_packets"].as_u64()),
            (Some("a"), Some(3))
        );
        assert!(json.get("waiting").is_none() && json.get("counters").is_none(), "{json}");
    }
}
