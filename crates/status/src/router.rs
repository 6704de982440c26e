//! Statistics of a router.

use crate::applications::ApplicationStats;
use crate::contract::Contract;
use crate::power::Power;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattline_units::{Build, named};

/// Statistics of a router, all since it was started.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct RouterStats {
    /// Number of the contract that this document follows.
    pub contract: Contract,
    /// Build of the daemon.
    pub build: Build,
    /// Time since the router was started.
    pub uptime_seconds: f64,
    /// Time since counters were cleared, if they were: all except those of applications and of the
    /// governor count from then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleared_seconds_ago: Option<f64>,
    /// Frames taken from ports.
    pub received: u64,
    /// Frames that ports took.
    pub forwarded: u64,
    /// Frames that XDP programs forwarded by themselves, part of `received` and `forwarded`: no
    /// worker saw them.
    pub xdp_forwarded: u64,
    /// Frames that workers left to the kernel.
    pub punted: u64,
    /// Frames that XDP programs left to the kernel before a worker saw them, not part of
    /// `received`: packets for the router itself, ARP, routing protocols and others by verdict.
    #[serde(default)]
    pub xdp_passed: u64,
    /// Frames that the router made itself: ICMP errors and further fragments.
    pub generated: u64,
    /// Frames waiting for a neighbour now.
    pub held: u64,
    /// Chunks of frame memory that were freed twice, or belong to other memory: a defect of
    /// Wattline.
    pub frees_refused: u64,
    /// Parts of the configuration, as last read, that are not in force before a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_restart: Vec<String>,
    /// Lines of the log that could not be written.
    pub log_lines_lost: u64,
    /// Frames dropped, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Frames dropped by XDP programs before a worker saw them, by reason: not part of `received`
    /// and `dropped`.
    #[serde(default)]
    pub xdp_dropped: BTreeMap<String, u64>,
    /// ICMP errors that were not sent, by reason.
    pub icmp_not_sent: BTreeMap<String, u64>,
    /// Prefixes in the tables.
    pub routes: Prefixes,
    /// Ports.
    pub ports: Vec<PortStats>,
    /// Workers.
    pub workers: Vec<WorkerStats>,
    /// Configured workers that were not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers_not_started: Option<NotStarted>,
    /// Nodes, all workers together.
    pub nodes: Vec<NodeStats>,
    /// Losses of applications by overload other than frames, by kind: `flow-records-overload` for
    /// records that found no room on their way to the collectors, `flow-records-collector` for
    /// those that a collector did not take.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub losses: BTreeMap<String, u64>,
    /// Counters of the applications that run.
    #[serde(default, skip_serializing_if = "ApplicationStats::is_empty")]
    pub applications: ApplicationStats,
    /// Functions of the kernel other than routing, if ports have interfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takeover: Option<TakeoverStats>,
    /// The governor's figures, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<Power>,
    /// Success in following the kernel's state, if it is followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelStats>,
}

/// Functions of the kernel other than routing, and the ports that have them.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct TakeoverStats {
    /// Configured choice.
    pub choice: TakeoverChoice,
    /// Work of the kernel that is bypassed, or would be: ports left to the kernel for it have the
    /// state `left`.
    pub passed_by: Vec<String>,
}

/// Treatment of ports for whose packets the kernel does more than routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TakeoverChoice {
    /// The router does not start. A running one treats them as with `narrow`.
    Strict,
    /// They are left to the kernel.
    Narrow,
    /// They are forwarded nonetheless.
    Force,
}

/// Workers without a queue at some port.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct NotStarted {
    /// Their number.
    pub count: u16,
    /// The port that has too few queues, and the remedy.
    pub because: String,
}

/// Numbers of prefixes.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
pub struct Prefixes {
    /// IPv4.
    pub ipv4: usize,
    /// IPv6.
    pub ipv6: usize,
}

/// Statistics of a port.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct PortStats {
    /// Its name.
    pub name: String,
    /// Mode in which it is served: `capture`, the mode of AF_XDP, or `kernel`, `blocked` or `not
    /// attached`, depending on its state.
    pub mode: String,
    /// State of its interface; absent for a capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<PortState>,
    /// Reason why it is not `up`, or another difference from the configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Frames of workers and XDP programs, and losses before a worker.
    #[serde(flatten)]
    pub counters: PortCounters,
    /// Received bits per second, with link header and without checksum and preamble: the mean of
    /// the last five to ten seconds, or since the start.
    #[serde(default)]
    pub received_bits_per_second: Option<f64>,
    /// Transmitted bits per second.
    #[serde(default)]
    pub transmitted_bits_per_second: Option<f64>,
    /// Frames that XDP programs forwarded by themselves, part of the counters above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xdp: Option<XdpTraffic>,
    /// Reason why workers forward and XDP programs send nothing out of it now: something in the
    /// configuration needs workers, it is down, or its interface has refused their frames.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xdp_closed_because: Option<String>,
    /// Incoming frames by verdict of its XDP program.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<String, u64>,
}

named! {
    /// State of a port that an interface serves, or is to serve.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum PortState {
        /// Packets pass.
        Up = "up",
        /// An administrator has set its interface down.
        Down = "down",
        /// Its interface is set up, but its cable or the far end is not.
        NoCarrier = "no-carrier",
        /// Its sockets are cut off.
        Gone = "gone",
        /// Workers take its interface.
        Attaching = "attaching",
        /// No interface has its name.
        Absent = "absent",
        /// Its interface cannot be taken over.
        Failed = "failed",
        /// The kernel forwards, since it does more with the packets than routing.
        Left = "left",
        /// The port would be left to the kernel, but its packets are judged: none passes.
        Blocked = "blocked",
    }
}

/// Counters of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortCounters {
    /// Frames handed to workers and frames that XDP programs forwarded or dropped.
    pub received_packets: u64,
    /// Bytes of them.
    pub received_bytes: u64,
    /// Frames accepted for transmission.
    pub transmitted_packets: u64,
    /// Bytes of them.
    pub transmitted_bytes: u64,
    /// Frames lost before the worker because the receive ring was full.
    pub receive_ring_full: u64,
    /// Frames lost before the worker because the fill ring had no free chunk.
    pub fill_ring_empty: u64,
    /// Frames rejected by the port because they were malformed or too long for a chunk.
    pub receive_invalid: u64,
}

impl PortCounters {
    /// Returns losses before a worker, by reason as in `top` and metrics.
    pub fn losses(&self) -> [(&'static str, u64); 3] {
        [
            ("receive-ring-full", self.receive_ring_full),
            ("fill-ring-empty", self.fill_ring_empty),
            ("receive-invalid", self.receive_invalid),
        ]
    }

    /// Returns the total of losses before a worker.
    pub fn lost(&self) -> u64 {
        self.losses().into_iter().map(|(_, count)| count).sum()
    }

    /// Returns the counts since an earlier reading.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let less = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before));
        Self {
            received_packets: less(|it| it.received_packets),
            received_bytes: less(|it| it.received_bytes),
            transmitted_packets: less(|it| it.transmitted_packets),
            transmitted_bytes: less(|it| it.transmitted_bytes),
            receive_ring_full: less(|it| it.receive_ring_full),
            fill_ring_empty: less(|it| it.fill_ring_empty),
            receive_invalid: less(|it| it.receive_invalid),
        }
    }
}

/// Frames that XDP programs forwarded by themselves in and out of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct XdpTraffic {
    /// Frames that came in by it.
    pub received_packets: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Frames that went out by it.
    pub transmitted_packets: u64,
    /// Bytes of those. The kernel counts refused frames without their bytes: they count with the
    /// mean length of frames at that time.
    pub transmitted_bytes: u64,
    /// Frames that its interface refused because its ring was full or the interface down.
    pub refused_packets: u64,
}

/// Statistics of a worker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerStats {
    /// True if traffic is meant for it.
    pub active: bool,
    /// True if it has made no round for seconds.
    pub hangs: bool,
    /// Frames that it took.
    pub received: u64,
    /// Frames that it sent.
    pub forwarded: u64,
    /// Rounds that found frames.
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

/// Statistics of a node.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct NodeStats {
    /// Its name.
    pub name: String,
    /// Frames that it processed.
    pub packets: u64,
    /// Number of batches.
    pub batches: u64,
    /// Time-stamp counter cycles per packet, over the timed runs.
    pub cycles_per_packet: f64,
    /// Packets and cycles of the timed runs; not part of the document.
    #[serde(skip)]
    pub timed: (u64, u64),
}

impl NodeStats {
    /// Sets the packets and cycles of the timed runs.
    pub fn set_timed(&mut self, packets: u64, cycles: u64) {
        self.timed = (packets, cycles);
        self.cycles_per_packet = cycles as f64 / packets.max(1) as f64;
    }
}

/// Success in following the kernel's state.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
pub struct KernelStats {
    /// Complete dumps: one at start, more after overruns and silent changes.
    pub dumps: u64,
    /// Unintelligible messages.
    pub unreadable: u64,
    /// Requests to the kernel to resolve or confirm a neighbour.
    pub neighbour_requests: u64,
    /// Requests for neighbours that found no room in the kernel's neighbour table.
    pub neighbour_requests_refused: u64,
    /// Requests for neighbours skipped because there were too many at once.
    pub neighbour_requests_dropped: u64,
    /// Updates of the tables that were refused.
    pub refused_updates: u64,
    /// Addresses for which the router's decision was compared with the kernel's.
    pub audited_addresses: u64,
    /// Persistent differences between both.
    pub audit_mismatches: u64,
    /// Prefixes left to the kernel for such a difference.
    pub audit_left_prefixes: u64,
}
