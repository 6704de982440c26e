//! Statistics of a router, in the form of the control socket: from counters of workers and XDP
//! programs and from the governor's figures.

use wattline_dataplane::counters::{self, NodeSnapshot, Snapshot};
use wattline_status::PortCounters;
use wattline_xdp::Verdict;

pub use wattline_status::{
    KernelStats, NodeStats, NotStarted, PortState, PortStats, Power as PowerStats, Prefixes,
    RouterStats as Stats, TakeoverStats, WorkerStats, XdpTraffic,
};

/// Counts of removed ports in the sums of the router.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Departed {
    /// Frames that they sent.
    pub transmitted: u64,
    /// Frames that their interfaces refused.
    pub refused: u64,
    /// Frames that they received and that had no egress port.
    pub no_egress_port: u64,
}

fn node_stats(node: &NodeSnapshot) -> NodeStats {
    let mut stats = NodeStats {
        name: node.name.to_owned(),
        packets: node.frames,
        batches: node.batches,
        ..NodeStats::default()
    };
    stats.set_timed(node.timed_frames, node.cycles);
    stats
}

/// Returns the statistics of a worker, from its counters.
pub(crate) fn worker_stats(snapshot: &Snapshot, active: bool) -> WorkerStats {
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

fn port_counters(counters: &counters::PortCounters) -> PortCounters {
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

/// Returns statistics from the sum of all workers; only the control thread knows the rest.
pub(crate) fn sum_stats(sum: &Snapshot, port_names: &[String]) -> Stats {
    let owned = |(name, count): (&&'static str, &u64)| ((*name).to_owned(), *count);
    let not_sent = [
        ("rate-limited", sum.icmp_rate_limited),
        ("not-allowed", sum.icmp_not_allowed),
        ("impossible", sum.icmp_impossible),
    ];
    let ports = port_names.iter().enumerate().map(|(number, name)| {
        let counters = sum.ports.get(number).map(port_counters).unwrap_or_default();
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
        nodes: sum.nodes.iter().map(node_stats).collect(),
        ..Stats::default()
    }
}

/// Adds the frames that XDP programs forwarded by themselves, by port, and those of removed ports
/// to the sums. The ports' verdicts must have been added before.
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
    fn counters_of_a_port_are_keys_next_to_its_name() {
        let counters =
            counters::PortCounters { received_packets: 3, waiting: 9, ..Default::default() };
        let counters = port_counters(&counters);
        let port = PortStats { name: "a".to_owned(), counters, ..PortStats::default() };
        let json = serde_json::to_value(&port).unwrap();
        assert_eq!(
            (json["name"].as_str(), json["received_packets"].as_u64()),
            (Some("a"), Some(3))
        );
        assert!(json.get("waiting").is_none() && json.get("counters").is_none(), "{json}");
    }
}
