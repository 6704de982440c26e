//! What a policy sees when it is asked.

use crate::Platform;
use serde::{Deserialize, Serialize};
use wattline_units::{Hertz, PacketsPerSecond, Provenance, Span, Watts};

/// Idle states of which residency is told: as many as Linux knows (`CPUIDLE_STATE_MAX`).
pub const MAX_IDLE_STATES: usize = 10;

/// Why a policy is being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The run begins.
    Start,
    /// The time that it asked for has come.
    Timer,
    /// A core takes a batch from this queue.
    Batch {
        /// Number of the queue.
        queue: usize,
        /// Packets in the batch, at least one.
        taken: u32,
        /// Batches that this one stands for: 1 where the platform asks at each of them, more
        /// where it samples ([`crate::Timing::Sampled`]).
        batches: u32,
    },
    /// A core that looks at this queue finds at least as many packets as
    /// [`crate::AskAgain::on_fill`] said.
    Fill {
        /// Number of the queue.
        queue: usize,
    },
    /// A core has found all its queues empty as often as [`crate::AskAgain`] said.
    EmptyPolls {
        /// Number of the core.
        core: usize,
    },
}

/// A receive queue at the time of asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueView {
    /// Packets that wait in the ring. At [`Trigger::Batch`] those of the batch are
    /// still counted: it is what the core found, as a read of the NIC's register would give.
    pub fill: u32,
    /// Packets that arrived since the start, dropped ones included.
    pub arrivals: u64,
    /// Packets dropped since the start because the ring was full.
    pub drops: u64,
    /// Bytes of the packets that arrived since the start; `None` where nobody counts them.
    pub bytes: Option<u64>,
    /// How long the oldest waiting packet has waited; `None` when none waits or nobody knows.
    pub oldest: Option<Span>,
}

/// A core at the time of asking; all spans count from the start and add up to the time
/// passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreView {
    /// Time awake with work: packets, and what it takes to wake up for them.
    pub useful: Span,
    /// Time awake without work: polling empty queues.
    pub empty: Span,
    /// Time in an idle state.
    pub asleep: Span,
    /// How often it fell asleep.
    pub sleeps: u64,
    /// Packets that it served.
    pub packets: u64,
    /// The idle state that it is in; awake without one.
    pub idle_state: Option<usize>,
    /// The frequency that it really runs at, which may differ from what was asked for: a change
    /// takes time, and hardware may refuse it. `None` where nobody knows.
    pub frequency: Option<Hertz>,
    /// Time in each idle state, by its index; they add up to `asleep`. `None` where only the
    /// sum is known.
    pub residency: Option<[Span; MAX_IDLE_STATES]>,
    /// Time in soft interrupts; `None` where nobody measures it.
    pub softirq: Option<Span>,
}

/// Latency of the packets that left since the policy was asked last, or of the last while that a
/// source with a window of its own looks back. Without a packet (`samples` is 0) all spans are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyView {
    /// Packets that were measured.
    pub samples: u64,
    /// Packets of those later than the bound that the policy named ([`crate::Looks::late_after`]).
    pub late: u64,
    /// Mean.
    pub mean: Span,
    /// 95th percentile.
    pub p95: Span,
    /// 99th percentile; an hour where it is later than all that the source can tell.
    pub p99: Span,
    /// The time since the newest sample, where they come from a slower source; else zero. A
    /// view that has been seen before is older and otherwise the same.
    pub age: Span,
}

/// Power over the time since the policy was asked last, or over the last period of a slower
/// meter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PowerView {
    /// Mean power of the whole machine.
    pub watts: Watts,
    /// The time that the mean is taken over.
    pub over: Span,
    /// Where the figure comes from and how accurate it is.
    pub provenance: Provenance,
}

/// All that a policy sees. The present operating point comes beside it.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The machine.
    pub platform: &'a Platform,
    /// Why it is asked.
    pub trigger: Trigger,
    /// By number of the queue.
    pub queues: &'a [QueueView],
    /// By number of the core.
    pub cores: &'a [CoreView],
    /// Latency, where it is measured and the policy looks at it ([`crate::Looks::latency`]).
    /// `None` means that nobody measures; that no packet left is a view without samples.
    pub latency: Option<LatencyView>,
    /// Power, where it is known and the policy looks at it ([`crate::Looks::power`]).
    pub power: Option<PowerView>,
    /// Packets that arrived since the start by entry of the redirect table, port after port,
    /// where they are counted and the policy looks at them ([`crate::Looks::entries`]); else
    /// empty.
    pub entries: &'a [u64],
    /// The rate offered now. Clairvoyant policies alone are shown it ([`crate::Looks::offered`]),
    /// and only by a simulator.
    pub offered: Option<PacketsPerSecond>,
}

impl Observation<'_> {
    /// Packets that arrived at all queues since the start.
    pub fn arrivals(&self) -> u64 {
        self.queues.iter().map(|queue| queue.arrivals).sum()
    }
}
