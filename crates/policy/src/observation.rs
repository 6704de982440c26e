//! What a policy sees when it is asked.

use crate::Platform;
use serde::{Deserialize, Serialize};
use wattline_units::{PacketsPerSecond, Span};

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
}

/// A core at the time of asking; all spans count from the start and add up to the time
/// passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// Latency over the time since the policy was asked last, where someone measures it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyView {
    /// Mean.
    pub mean: Span,
    /// 95th percentile.
    pub p95: Span,
    /// 99th percentile.
    pub p99: Span,
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
    /// Latency, where it is measured, the policy looks at it ([`crate::Looks::latency`])
    /// and packets have left.
    pub latency: Option<LatencyView>,
    /// The rate offered now, where it is known beforehand: only a simulator can tell.
    pub offered: Option<PacketsPerSecond>,
}

impl Observation<'_> {
    /// Packets that arrived at all queues since the start.
    pub fn arrivals(&self) -> u64 {
        self.queues.iter().map(|queue| queue.arrivals).sum()
    }
}
