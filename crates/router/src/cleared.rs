//! Counters that users see after `wattline clear counters`: only events since then. Metrics and the
//! account at the end still count from the start.

use crate::stats::{NodeStats, PortStats, Stats, WorkerStats, XdpTraffic};
use std::collections::BTreeMap;
use std::time::Instant;

/// The counters when they were cleared.
pub(super) struct Cleared {
    at: Instant,
    then: Stats,
}

impl Cleared {
    /// Records the present counters.
    pub fn now(stats: Stats) -> Self {
        Self { at: Instant::now(), then: stats }
    }

    /// Forgets a removed port: a later port of the same name counts from 0.
    pub fn forget_port(&mut self, name: &str) {
        self.then.ports.retain(|port| port.name != name);
    }

    /// Returns counts since then.
    pub fn since(&self, mut now: Stats) -> Stats {
        let then = &self.then;
        now.cleared_seconds_ago = Some(self.at.elapsed().as_secs_f64());
        for (count, old) in [
            (&mut now.received, then.received),
            (&mut now.forwarded, then.forwarded),
            (&mut now.xdp_forwarded, then.xdp_forwarded),
            (&mut now.punted, then.punted),
            (&mut now.xdp_passed, then.xdp_passed),
            (&mut now.generated, then.generated),
            (&mut now.frees_refused, then.frees_refused),
        ] {
            less(count, old);
        }
        less_each(&mut now.dropped, &then.dropped);
        less_each(&mut now.xdp_dropped, &then.xdp_dropped);
        less_each(&mut now.icmp_not_sent, &then.icmp_not_sent);
        for port in &mut now.ports {
            // The port may have been added since.
            if let Some(old) = then.ports.iter().find(|old| old.name == port.name) {
                subtract_port(port, old);
            }
        }
        for (worker, old) in now.workers.iter_mut().zip(&then.workers) {
            subtract_worker(worker, old);
        }
        for (node, old) in now.nodes.iter_mut().zip(&then.nodes) {
            let (packets, cycles) = node.timed;
            node.set_timed(packets.saturating_sub(old.timed.0), cycles.saturating_sub(old.timed.1));
            let NodeStats { packets, batches, .. } = node;
            less(packets, old.packets);
            less(batches, old.batches);
        }
        now
    }
}

fn less(count: &mut u64, old: u64) {
    *count = count.saturating_sub(old);
}

fn less_each(counts: &mut BTreeMap<String, u64>, old: &BTreeMap<String, u64>) {
    for (name, count) in &mut *counts {
        less(count, old.get(name).copied().unwrap_or(0));
    }
    counts.retain(|_, count| *count > 0);
}

fn subtract_port(port: &mut PortStats, old: &PortStats) {
    port.counters = port.counters.since(&old.counters);
    less_each(&mut port.verdicts, &old.verdicts);
    if let (Some(xdp), Some(old)) = (&mut port.xdp, &old.xdp) {
        let XdpTraffic {
            received_packets,
            received_bytes,
            transmitted_packets,
            transmitted_bytes,
            refused_packets,
        } = xdp;
        less(received_packets, old.received_packets);
        less(received_bytes, old.received_bytes);
        less(transmitted_packets, old.transmitted_packets);
        less(transmitted_bytes, old.transmitted_bytes);
        less(refused_packets, old.refused_packets);
    }
}

fn subtract_worker(worker: &mut WorkerStats, old: &WorkerStats) {
    less(&mut worker.received, old.received);
    less(&mut worker.forwarded, old.forwarded);
    less(&mut worker.useful_iterations, old.useful_iterations);
    less(&mut worker.empty_iterations, old.empty_iterations);
    less(&mut worker.useful_cycles, old.useful_cycles);
    less(&mut worker.empty_cycles, old.empty_cycles);
    less(&mut worker.sleeping_cycles, old.sleeping_cycles);
    less(&mut worker.sleeps, old.sleeps);
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_status::PortCounters;

    #[test]
    fn counters_restart_and_levels_are_kept() {
        let stats = |count: u64| {
            let counters = PortCounters { received_packets: count, ..PortCounters::default() };
            let port = PortStats { counters, ..PortStats::default() };
            let worker = WorkerStats { active: true, received: count, ..WorkerStats::default() };
            let mut node = NodeStats { packets: count, ..NodeStats::default() };
            // 20 cycles for each of the first ten, 50 for each later one.
            node.set_timed(count, 200 + 50 * (count - 10));
            let dropped = BTreeMap::from([("old".to_owned(), 3), ("both".to_owned(), count)]);
            Stats {
                received: count,
                held: 7,
                dropped,
                ports: vec![port],
                workers: vec![worker],
                nodes: vec![node],
                ..Stats::default()
            }
        };
        let since = Cleared::now(stats(10)).since(stats(15));
        assert_eq!((since.received, since.held), (5, 7));
        assert_eq!(since.dropped, BTreeMap::from([("both".to_owned(), 5)]));
        assert_eq!((since.ports[0].counters.received_packets, since.workers[0].received), (5, 5));
        assert_eq!((since.nodes[0].packets, since.nodes[0].cycles_per_packet), (5, 50.0));
        assert!(since.workers[0].active && since.cleared_seconds_ago.is_some());
    }
}
