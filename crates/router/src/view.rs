//! Counters and states of a running router, read only.

use super::Router;
use super::port::is_without;
use super::programs::UNFINISHED;
use super::takeover;
use crate::config::PortSettings;
use crate::stats::{self, NotStarted, Prefixes, Stats, TakeoverStats, WorkerStats};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::time::Instant;
use wattline_dataplane::counters::Snapshot;
use wattline_dataplane::port::PortId;
use wattline_status::Graph;
use wattline_status::PortState::{Left, Up};

impl Router {
    /// Returns all present counts.
    pub(crate) fn stats(&self) -> Stats {
        let snapshots = self.snapshots();
        let mut sum = Snapshot::default();
        snapshots.iter().for_each(|(snapshot, _)| sum.merge(snapshot));
        let names: Vec<String> = self.map_ports(|_, port| port.name.clone());
        let mut stats = stats::sum_stats(&sum, &names);
        stats.uptime_seconds = self.started.elapsed().as_secs_f64();
        stats.log_lines_lost = wattline_daemon::logging::lines_lost();
        stats.needs_restart = self.configured.pending();
        let (ipv4, ipv6) = self.routes.len();
        stats.routes = Prefixes { ipv4, ipv6 };
        stats.workers = snapshots
            .iter()
            .enumerate()
            .map(|(number, (snapshot, active))| WorkerStats {
                hangs: self.workers.hangs(number),
                ..stats::worker_stats(snapshot, *active)
            })
            .collect();
        stats.workers_not_started = self
            .surplus
            .as_ref()
            .map(|surplus| NotStarted { count: surplus.count(), because: surplus.because.clone() });
        self.add_ports(&mut stats);
        if let Some(kernel) = &self.kernel
            && kernel.programs.any_forward()
        {
            let counts = &kernel.programs;
            let traffic = counts.xdp_traffic(self.configured.config.ports.len());
            let traffic = self.map_ports(|number, _| traffic[usize::from(number.0)]);
            stats::add_xdp(&mut stats, traffic, counts.departed());
        }
        stats.takeover = self.monitor.as_ref().map(|monitor| TakeoverStats {
            choice: self.configured.config.router.takeover,
            passed_by: monitor.bypassed(&self.configured.config),
        });
        if let Some(kernel) = &self.kernel {
            let verdicts = kernel.programs.all_verdicts();
            stats.xdp_passed = verdicts.passed();
            stats.xdp_dropped = verdicts.dropped();
        }
        self.rates.add_to(&mut stats, Instant::now());
        stats.losses = (self.applications.iter())
            .flat_map(|application| application.losses())
            .map(|(kind, count)| (kind.to_owned(), count))
            .collect();
        self.applications.iter().for_each(|application| application.stats(&mut stats.applications));
        stats.power = self.power.as_ref().map(|power| power.stats());
        stats.kernel = self.kernel.as_ref().map(|kernel| {
            let mut stats = kernel.stats();
            stats.refused_updates = self.refused;
            if let Some(audit) = &self.audit {
                stats.audited_addresses = audit.checked;
                stats.audit_mismatches = audit.mismatches;
                stats.audit_left_prefixes = audit.left().count() as u64;
            }
            stats.neighbour_requests_dropped += sum.neighbour_requests_lost;
            stats
        });
        stats
    }

    /// Adds state and mode of each port.
    fn add_ports(&self, stats: &mut Stats) {
        for ((number, _), port) in self.configured.config.present_ports().zip(&mut stats.ports) {
            self.ports.mode(number).clone_into(&mut port.mode);
            let state = self.ports.state(number);
            let shown = state.as_ref().map(|(shown, _)| *shown);
            if let Some((state, reason)) = state {
                let of_packets = self.left_alone(usize::from(number.0));
                let reason = match (state, reason, of_packets) {
                    (Up, Some(of_port), Some(of_packets)) => {
                        Some(format!("{of_port}; {of_packets}"))
                    }
                    (_, of_port, of_packets) => of_port.or(of_packets),
                };
                (port.state, port.reason) = (Some(state), reason);
                if let (Left, Some(reason), Some(flows)) =
                    (state, &mut port.reason, self.flows_of(number))
                {
                    *reason += &format!("; {flows}");
                }
            }
            if let Some(kernel) = &self.kernel {
                let programs = &kernel.programs;
                port.verdicts = programs.verdicts(number);
                if programs.egress.forwards_to(number) {
                    port.mode += ", xdp forward";
                }
                // Frames of unserved ports are forwarded by the kernel, if at all.
                let is_served = !shown.is_some_and(is_without);
                let why = programs.closed_egress(number).filter(|_| is_served);
                port.xdp_closed_because = why.map(str::to_owned);
            }
        }
    }

    /// Describes the flowtable of a port that is left to the kernel, or how to add one.
    fn flows_of(&self, port: PortId) -> Option<String> {
        Some(match self.monitor.as_ref()?.flows(port)? {
            Ok(flowtable) => match self.kernel.as_ref()?.programs.flows.state(port) {
                Some(Ok(())) => {
                    format!("XDP programs forward the established flows of {flowtable}")
                }
                Some(Err(error)) => {
                    format!("the kernel forwards the flows of {flowtable}: {error}")
                }
                None => format!(
                    "the kernel forwards the flows of {flowtable}; [router] xdp_forward = \"on\" lets XDP \
                     programs do so"
                ),
            },
            Err(why) => why.clone(),
        })
    }

    /// Calls a function for each present port, and returns the results.
    fn map_ports<T>(&self, each: impl Fn(PortId, &PortSettings) -> T) -> Vec<T> {
        self.configured.config.present_ports().map(|(number, port)| each(number, port)).collect()
    }

    /// Returns each worker's counts for present ports, and whether it is active.
    pub(crate) fn snapshots(&self) -> Vec<(Snapshot, bool)> {
        let mut snapshots = self.workers.snapshots();
        for (snapshot, _) in &mut snapshots {
            let counted = |number: PortId| snapshot.ports.get(usize::from(number.0)).copied();
            snapshot.ports = self.map_ports(|number, _| counted(number).unwrap_or_default());
        }
        snapshots
    }

    /// Describes the packets of a port that are left to the kernel, if any.
    pub(crate) fn left_alone(&self, port: usize) -> Option<String> {
        let port = PortId(port as u16);
        let left = self.monitor.as_ref().and_then(|monitor| monitor.left_prefixes(port));
        let prefixes: BTreeSet<_> = left.into_iter().flatten().collect();
        // Whole families are named with their reason.
        let families: Vec<&str> =
            self.monitor.iter().flat_map(|monitor| monitor.left_families(port)).collect();
        let is_part = |prefix: &&&IpNet| families.is_empty() || prefix.prefix_len() > 0;
        let prefixes: Vec<_> = prefixes.iter().filter(is_part).collect();
        let some: Vec<String> = prefixes.iter().take(5).map(ToString::to_string).collect();
        let more = match prefixes.len().saturating_sub(some.len()) {
            0 => String::new(),
            more => format!(" and {more} more prefixes"),
        };
        let guarded = self.monitor.as_ref().is_some_and(|monitor| monitor.is_guarded(port));
        let mut because = self.monitor.as_ref().map_or(Vec::new(), |it| it.prefixes_because(port));
        because.retain(|reason| !families.contains(&reason.as_str()));
        let some = (!some.is_empty()).then(|| match guarded {
            false => format!(
                "the kernel forwards packets from and to {}{more}: {}",
                some.join(", "),
                because.join(", ")
            ),
            true => format!(
                "packets from and to {}{more} are dropped: {}",
                some.join(", "),
                takeover::UNJUDGED
            ),
        });
        let audited: Vec<String> = self
            .audit
            .iter()
            .flat_map(|audit| audit.left())
            .map(|prefix| prefix.to_string())
            .collect();
        let audited = (!audited.is_empty()).then(|| {
            format!("the kernel decides differently from Wattline about {}", audited.join(", "))
        });
        let sees_unfinished =
            self.kernel.as_ref().is_some_and(|kernel| kernel.programs.sees_unfinished(port));
        let unfinished = sees_unfinished.then(|| UNFINISHED.to_owned());
        let all: Vec<String> = families
            .into_iter()
            .map(str::to_owned)
            .chain(some)
            .chain(audited)
            .chain(unfinished)
            .collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns counts since they were cleared.
    pub(crate) fn shown_stats(&self) -> Stats {
        let stats = self.stats();
        match &self.cleared {
            Some(cleared) => cleared.since(stats),
            None => stats,
        }
    }

    pub(crate) fn graph(&self) -> Graph {
        let stats = self.shown_stats();
        let edges = self.workers.edges().iter();
        Graph {
            nodes: stats.nodes,
            edges: edges.map(|(from, to)| [(*from).to_owned(), (*to).to_owned()]).collect(),
            dropped: stats.dropped,
            xdp_forwarded: stats.xdp_forwarded,
            ports: stats.ports.into_iter().map(|port| port.name).collect(),
            ..Graph::default()
        }
    }
}
