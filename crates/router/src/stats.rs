//! What a router says about itself, as it goes over the control socket.

use crate::config::{PowerPlatform, Takeover};
use crate::platform::Seen;
use serde::Serialize;
use std::collections::BTreeMap;
use wattline_dataplane::counters::{NodeSnapshot, PortCounters, Snapshot};
use wattline_governor::account::{Interval, LatencySummary, Totals};
use wattline_governor::decisions::Decision;
use wattline_governor::ledger::Entry;
use wattline_units::{Accuracy, Provenance, Source};
use wattline_xdp::Verdict;

/// A router's counters, all since it was started.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Stats {
    /// How long it has run.
    pub uptime_seconds: f64,
    /// How long ago counters were cleared, if they were: all but those of applications and of the
    /// governor count from then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleared_seconds_ago: Option<f64>,
    /// Frames taken from ports.
    pub received: u64,
    /// Frames that ports took.
    pub forwarded: u64,
    /// Of both, frames that XDP programs forwarded by themselves: no worker saw them.
    pub xdp_forwarded: u64,
    /// Frames left to the kernel by the workers.
    pub punted: u64,
    /// Frames that the router made itself: ICMP errors and further fragments.
    pub generated: u64,
    /// Frames that wait for a neighbour now.
    pub held: u64,
    /// Chunks of frame memory that were freed though they were free already, or not of that memory:
    /// a defect of Wattline.
    pub frees_refused: u64,
    /// Parts of the configuration, as last read, that are not in force before a restart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub needs_restart: Vec<&'static str>,
    /// Lines of the log that could not be written.
    pub log_lines_lost: u64,
    /// Frames dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// ICMP errors that were not sent, by reason.
    pub icmp_not_sent: BTreeMap<String, u64>,
    /// Prefixes in the tables.
    pub routes: Prefixes,
    /// By port.
    pub ports: Vec<PortStats>,
    /// By worker.
    pub workers: Vec<WorkerStats>,
    /// Workers of the configuration that were not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers_not_started: Option<NotStarted>,
    /// By node, all workers together.
    pub nodes: Vec<NodeStats>,
    /// What applications counted, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub applications: BTreeMap<String, serde_json::Value>,
    /// What the kernel does with packets beside routing them, where ports have interfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover: Option<TakeoverStats>,
    /// What the governor did, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<PowerStats>,
    /// What the kernel's state was followed with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelStats>,
}

/// What the kernel does with packets beside routing them, and what becomes of their ports.
#[derive(Debug, Clone, Serialize)]
pub struct TakeoverStats {
    /// What the configuration asks for.
    pub choice: Takeover,
    /// What would be passed by, or is: ports that are left to the kernel for it have the state `left`.
    pub passed_by: Vec<String>,
}

/// What the governor did, and what power came of it.
#[derive(Debug, Clone, Serialize)]
pub struct PowerStats {
    /// What is governed.
    pub platform: PowerPlatform,
    /// Name of the policy.
    pub policy: &'static str,
    /// Name or file of the server model.
    pub server: String,
    /// What the model is said to do with each packet.
    pub application: &'static str,
    /// How many times as long everything lasts, on platform `scale`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// How power and energy were come by.
    pub source: Source,
    /// How accurate they are.
    pub accuracy: Accuracy,
    /// Mean power of the last five seconds, of the whole run once it is over; absent where
    /// unknown.
    pub power_watts: Option<f64>,
    /// The same by component.
    pub power_by_component_watts: BTreeMap<&'static str, f64>,
    /// What no component accounts for.
    pub power_rest_watts: Option<f64>,
    /// Latency in model time over the same stretch, on platform `scale`; absent where nothing was
    /// forwarded in it. Frames of interfaces carry no time stamp: there it begins when
    /// a worker looks.
    #[serde(flatten)]
    pub latency: Option<LatencySummary>,
    /// The same since the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_histogram: Option<LatencyHistogram>,
    /// Energy since the start; absent where unknown.
    pub energy_joules: Option<f64>,
    /// The same by component.
    pub energy_by_component_joules: BTreeMap<&'static str, f64>,
    /// Of the time since the meters' first figure, how long no figure covers: a meter was rejected
    /// or did not answer, or nobody governed, as ports changed. What was drawn then is not in `energy_joules`.
    pub energy_unmetered_seconds: f64,
    /// Model time since the start, on platform `scale`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_seconds: Option<f64>,
    /// Packets that arrived, dropped ones included.
    pub offered_packets: u64,
    /// Packets that were served.
    pub forwarded_packets: u64,
    /// Packets that found their ring full.
    pub dropped_packets: u64,
    /// Cores that can forward.
    pub cores: usize,
    /// Cores that packets are sent to.
    pub cores_active: usize,
    /// By core.
    pub frequency_hertz: Vec<f64>,
    /// Changes of the operating point: `core_changes` and `frequency_changes`.
    pub transitions: u64,
    /// Changes of the set of active cores.
    pub core_changes: u64,
    /// Changes of frequencies.
    pub frequency_changes: u64,
    /// How often the policy was asked.
    pub decisions: u64,
    /// Why the operating point is what it is: the policy's reason for its last change, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The last changes that the policy asked for, with their reasons, the oldest first.
    pub last_changes: Vec<Decision>,
    /// Entries of indirection tables that were moved.
    pub entries_moved: u64,
    /// Steps taken.
    pub steps: u64,
    /// Steps of which the machine made something else.
    pub steps_altered: u64,
    /// Steps that failed, or were left because somebody else holds the knob.
    pub steps_failed: u64,
    /// What became of the steps, by knob.
    pub knobs: Vec<Entry>,
    /// Why nobody governs now, where ports have changed since and the governor could not begin anew:
    /// counts and energy above are of before, and of the present nothing is known but that all cores
    /// serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_because: Option<String>,
    /// What one platform alone has to tell, by name. On `scale`: `disturbance`, how far threads
    /// lagged behind the model, and `holds`, what was held back to keep flows in order while tables
    /// were rewritten. On `host`: `host`, what this machine has to tell of its knobs.
    #[serde(flatten)]
    pub details: serde_json::Map<String, serde_json::Value>,
}

impl Default for PowerStats {
    /// Nothing known yet.
    fn default() -> Self {
        let Provenance { source, accuracy } = Provenance::UNAVAILABLE;
        Self {
            platform: PowerPlatform::None,
            policy: "",
            server: String::new(),
            application: "",
            scale: None,
            source,
            accuracy,
            power_watts: None,
            power_by_component_watts: BTreeMap::new(),
            power_rest_watts: None,
            latency: None,
            latency_histogram: None,
            energy_joules: None,
            energy_by_component_joules: BTreeMap::new(),
            energy_unmetered_seconds: 0.0,
            model_seconds: None,
            offered_packets: 0,
            forwarded_packets: 0,
            dropped_packets: 0,
            cores: 0,
            cores_active: 0,
            frequency_hertz: Vec::new(),
            transitions: 0,
            core_changes: 0,
            frequency_changes: 0,
            decisions: 0,
            reason: None,
            last_changes: Vec::new(),
            entries_moved: 0,
            steps: 0,
            steps_altered: 0,
            steps_failed: 0,
            knobs: Vec::new(),
            waits_because: None,
            details: serde_json::Map::new(),
        }
    }
}

impl PowerStats {
    /// Takes what was counted, and means of a stretch of it.
    pub(crate) fn count(&mut self, totals: &Totals, recent: &Interval) {
        let Totals { at, own, machine } = totals;
        let energy = &machine.energy;
        (self.source, self.accuracy) = (energy.source, energy.accuracy);
        self.power_watts = recent.power_watts;
        self.power_by_component_watts.clone_from(&recent.power_by_component_watts);
        self.power_rest_watts = recent.power_rest_watts;
        self.latency = recent.latency;
        self.energy_joules = energy.whole.map(|whole| whole.0);
        self.energy_by_component_joules =
            energy.parts.iter().map(|(name, part)| (*name, part.0)).collect();
        self.energy_unmetered_seconds = energy.unmetered.as_seconds();
        self.model_seconds = self.scale.map(|_| at.as_seconds());
        self.offered_packets = machine.offered;
        self.forwarded_packets = machine.forwarded;
        self.dropped_packets = machine.dropped;
        self.entries_moved = machine.entries_moved;
        self.transitions = own.core_changes + own.frequency_changes;
        self.core_changes = own.core_changes;
        self.frequency_changes = own.frequency_changes;
        self.decisions = own.decisions;
        self.steps = own.steps;
        self.steps_altered = own.altered;
        self.steps_failed = own.failed;
    }

    /// Takes how the platform runs now.
    pub(crate) fn show(&mut self, seen: Seen) {
        let Seen { point, platform, knobs, decisions } = seen;
        let hertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |hertz| hertz.0);
        self.cores = platform.cores;
        self.cores_active = point.active.len();
        self.frequency_hertz = point.frequencies(&platform).map(hertz).collect();
        self.reason = decisions.last().map(|last| last.reason.clone());
        self.last_changes = decisions;
        self.knobs = knobs;
    }

    /// Nobody governs now: of the present no figure is left, of the past all.
    pub(crate) fn end_of_governor(&mut self) {
        self.power_watts = None;
        self.power_by_component_watts.clear();
        self.power_rest_watts = None;
        self.latency = None;
        self.frequency_hertz.clear();
        // The router sends to all of them.
        self.cores_active = self.cores;
        self.reason = None;
        self.details.clear();
    }
}

/// Workers that would have no queue of some port.
#[derive(Debug, Clone, Serialize)]
pub struct NotStarted {
    /// Their number.
    pub count: u16,
    /// Which port has too few queues, and what to do.
    pub because: String,
}

/// Latencies since the start, in model time.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyHistogram {
    /// Packets.
    pub packets: u64,
    /// Sum of their latencies.
    pub sum_seconds: f64,
    /// Upper ends in seconds, ascending, with the packets that took at most so long.
    pub buckets: Vec<(f64, u64)>,
}

/// Numbers of prefixes.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Prefixes {
    /// IPv4.
    pub ipv4: usize,
    /// IPv6.
    pub ipv6: usize,
}

/// What one port counted.
#[derive(Debug, Clone, Default, Serialize)]
pub struct PortStats {
    /// Its name.
    pub name: String,
    /// How it is served: `capture`, how AF_XDP runs on it, or `kernel`, `blocked` or `not attached`,
    /// as its state says.
    pub mode: String,
    /// Its interface: `up`; `down` while an administrator has set it down; `no-carrier` while it is
    /// set up and its cable or the far end is not; `absent` while there is none of its name, `failed`
    /// while that cannot be taken over, `left` while it is left to the kernel, which would do more
    /// with its packets than to route them, `blocked` where it would be and its packets are judged,
    /// `attaching` while workers take it; none for a capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// Why it is not `up`, or what else is not as configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What workers and XDP programs received and sent, and what was lost before a worker. Bytes
    /// sent include frames that XDP programs sent and the interface refused.
    #[serde(flatten)]
    pub counters: PortCounters,
    /// Of all that, what XDP programs forwarded by themselves, where they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xdp: Option<XdpTraffic>,
    /// Why workers forward and XDP programs send nothing out of it now: something in the configuration
    /// needs workers, it is down, or its interface has refused their frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xdp_closed_because: Option<String>,
    /// What the XDP program did with frames, by verdict.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<String, u64>,
}

/// What XDP programs forwarded by themselves in and out of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct XdpTraffic {
    /// Frames that came in by it.
    pub received_packets: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Frames that went out by it.
    pub transmitted_packets: u64,
    /// Bytes of those, and of refused ones.
    pub transmitted_bytes: u64,
    /// Frames that its interface refused, its ring being full or itself down.
    pub refused_packets: u64,
}

/// What ports that were removed leave in the sums of the router.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Departed {
    /// Frames that went out by them.
    pub transmitted: u64,
    /// Frames that their interfaces refused.
    pub refused: u64,
    /// Frames that came in by them and had no egress port.
    pub no_egress_port: u64,
}

/// What one worker did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WorkerStats {
    /// Whether traffic is meant for it.
    pub active: bool,
    /// Whether it has made no round for seconds.
    pub hangs: bool,
    /// Frames that it took.
    pub received: u64,
    /// Frames that it sent.
    pub forwarded: u64,
    /// Rounds that found frames, and that found none.
    pub useful_iterations: u64,
    /// Rounds that found none.
    pub empty_iterations: u64,
    /// Time-stamp counter cycles of rounds that found frames.
    pub useful_cycles: u64,
    /// Time-stamp counter cycles of rounds that found none.
    pub empty_cycles: u64,
    /// Time-stamp counter cycles that passed while it blocked.
    pub sleeping_cycles: u64,
    /// Times that it blocked.
    pub sleeps: u64,
}

/// What one node did.
#[derive(Debug, Clone, Default, Serialize)]
pub struct NodeStats {
    /// Its name.
    pub name: String,
    /// Frames that it processed.
    pub packets: u64,
    /// Batches in which they came.
    pub batches: u64,
    /// Time-stamp counter cycles per packet, of the runs in which it was timed.
    pub cycles_per_packet: f64,
    /// Packets and cycles of these runs.
    #[serde(skip)]
    pub(crate) timed: (u64, u64),
}

/// How well the kernel could be followed.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct KernelStats {
    /// Complete dumps: one at start, more after overruns and silent changes.
    pub dumps: u64,
    /// Messages that could not be understood.
    pub unreadable: u64,
    /// Times that a neighbour was asked for.
    pub neighbour_requests: u64,
    /// Requests for neighbours that found no room in the kernel's table of neighbours.
    pub neighbour_requests_refused: u64,
    /// Requests for neighbours that were left out because there were too many at once.
    pub neighbour_requests_dropped: u64,
    /// Updates of the tables that were refused.
    pub refused_updates: u64,
}

impl From<&NodeSnapshot> for NodeStats {
    fn from(node: &NodeSnapshot) -> Self {
        let mut stats = Self {
            name: node.name.to_owned(),
            packets: node.frames,
            batches: node.batches,
            ..Self::default()
        };
        stats.set_timed(node.timed_frames, node.cycles);
        stats
    }
}

impl NodeStats {
    /// Sets the packets and cycles of the runs in which it was timed.
    pub(crate) fn set_timed(&mut self, packets: u64, cycles: u64) {
        self.timed = (packets, cycles);
        self.cycles_per_packet = cycles as f64 / packets.max(1) as f64;
    }
}

impl WorkerStats {
    /// From a worker's counters.
    pub(crate) fn new(snapshot: &Snapshot, active: bool) -> Self {
        Self {
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
}

impl Stats {
    /// Everything but what only the control thread knows, from the sum of all workers.
    pub(crate) fn from_sum(sum: &Snapshot, port_names: &[String]) -> Self {
        let owned = |(name, count): (&&'static str, &u64)| ((*name).to_owned(), *count);
        let not_sent = [
            ("rate-limited", sum.icmp_rate_limited),
            ("not-allowed", sum.icmp_not_allowed),
            ("impossible", sum.icmp_impossible),
        ];
        let ports = port_names.iter().enumerate().map(|(number, name)| {
            let counters = sum.ports.get(number).copied().unwrap_or_default();
            PortStats { name: name.clone(), counters, ..PortStats::default() }
        });
        Self {
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
            nodes: sum.nodes.iter().map(NodeStats::from).collect(),
            ..Self::default()
        }
    }

    /// Adds what XDP programs forwarded by themselves, by port, to what workers did, and to the sums
    /// what they did for ports that are gone. The verdicts of the ports have to be there.
    pub(crate) fn add_xdp(&mut self, traffic: Vec<XdpTraffic>, departed: Departed) {
        let Departed { transmitted, refused, no_egress_port } = departed;
        self.sum_xdp(transmitted, refused, no_egress_port);
        let gone = |port: &PortStats| port.verdicts.get(Verdict::NoEgressPort.name()).copied();
        let gone: Vec<u64> = self.ports.iter().map(|port| gone(port).unwrap_or(0)).collect();
        for (xdp, gone) in traffic.iter().zip(&gone) {
            self.sum_xdp(xdp.transmitted_packets, xdp.refused_packets, *gone);
        }
        for ((port, xdp), gone) in self.ports.iter_mut().zip(traffic).zip(gone) {
            port.counters.received_packets += xdp.received_packets + gone;
            port.counters.received_bytes += xdp.received_bytes;
            port.counters.transmitted_packets += xdp.transmitted_packets;
            port.counters.transmitted_bytes += xdp.transmitted_bytes;
            port.xdp = Some(xdp);
        }
    }

    fn sum_xdp(&mut self, transmitted: u64, refused: u64, no_egress_port: u64) {
        for (reason, count) in [("xdp-no-egress-port", no_egress_port), ("xdp-refused", refused)] {
            if count > 0 {
                *self.dropped.entry(reason.to_owned()).or_default() += count;
            }
        }
        self.received += transmitted + no_egress_port + refused;
        self.forwarded += transmitted;
        self.xdp_forwarded += transmitted;
    }

    /// Frames dropped for whatever reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_port_are_keys_beside_its_name() {
        let counters = PortCounters { received_packets: 3, waiting: 9, ..PortCounters::default() };
        let port = PortStats { name: "a".to_owned(), counters, ..PortStats::default() };
        let json = serde_json::to_value(&port).unwrap();
        assert_eq!(
            (json["name"].as_str(), json["received_packets"].as_u64()),
            (Some("a"), Some(3))
        );
        assert!(json.get("waiting").is_none() && json.get("counters").is_none(), "{json}");
    }
}
