//! A policy's observation when it is asked.

use crate::Platform;
use serde::{Deserialize, Serialize};
use wattline_units::{Hertz, PacketsPerSecond, Provenance, Span, Time, Watts};

/// Maximum number of idle states with a residency: the limit of Linux (`CPUIDLE_STATE_MAX`).
pub const MAX_IDLE_STATES: usize = 10;

/// Event at which a policy is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trigger {
    /// The run begins.
    Start,
    /// The time that the policy asked for has come.
    Timer,
    /// A core takes a batch from this queue.
    Batch {
        /// Number of the queue.
        queue: usize,
        /// Packets in the batch, at least one.
        taken: u32,
        /// Number of batches that this trigger stands for: 1 if the platform asks at each batch,
        /// more if it samples ([`crate::Timing::Sampled`]).
        batches: u32,
    },
    /// A core finds this queue at or above the fill level in [`crate::AskAgain::on_fill`].
    Fill {
        /// Number of the queue.
        queue: usize,
    },
    /// A core has found all its queues empty several times in a row; the number is
    /// [`crate::AskAgain::after_empty_polls`].
    EmptyPolls {
        /// Number of the core.
        core: usize,
    },
    /// More samples in a row than [`crate::AskAgain::on_streak`] allows found this queue too full
    /// or nearly empty.
    Streak {
        /// Number of the queue.
        queue: usize,
        /// True if it was too full.
        above: bool,
    },
    /// A core that counts streaks has had no sample for [`crate::StreakRule::silence`].
    Silence {
        /// Number of the core.
        core: usize,
    },
}

/// A receive queue at the time of asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueView {
    /// Packets waiting in the ring. At [`Trigger::Batch`] this includes the packets of the batch:
    /// it is the fill level that the core found.
    pub fill: u32,
    /// Packets that arrived since the start, dropped ones included.
    pub arrivals: u64,
    /// Packets dropped since the start because the ring was full.
    pub drops: u64,
    /// Bytes of the packets that arrived since the start; `None` if they are not counted.
    pub bytes: Option<u64>,
    /// Time that the oldest waiting packet has waited; `None` if none waits or it is not measured.
    pub oldest: Option<Span>,
    /// Age of the counts: zero if the data path itself counts, more if a card is read only now and
    /// then.
    #[serde(default)]
    pub age: Span,
}

/// A core at the time of asking; all spans count from the start and add up to the time passed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreView {
    /// Time awake with work: serving packets, and waking up for them.
    pub useful: Span,
    /// Time awake without work: polling empty queues.
    pub empty: Span,
    /// Time in an idle state.
    pub asleep: Span,
    /// Number of times that the core went to sleep.
    pub sleeps: u64,
    /// Packets served.
    pub packets: u64,
    /// Its present idle state; `None` while it is awake.
    pub idle_state: Option<usize>,
    /// Real frequency. It may differ from the requested one, since a change takes time and hardware
    /// may refuse it. `None` if it is not known.
    pub frequency: Option<Hertz>,
    /// Time in each idle state, by its index. In a model they add up to `asleep`. On a machine they
    /// are the kernel's counts for the CPU, including all other tasks there. `None` if only the sum
    /// is known.
    pub residency: Option<[Span; MAX_IDLE_STATES]>,
    /// Time in soft interrupts; `None` if it is not measured.
    pub softirq: Option<Span>,
}

/// Latency of the packets that left since the policy was last asked; for a source with its own time
/// window, of the packets in that window. Without packets (`samples` is 0) all spans are zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyView {
    /// Packets that were measured.
    pub samples: u64,
    /// Number of packets that took longer than the policy's bound ([`crate::Looks::late_after`]).
    pub late: u64,
    /// Mean.
    pub mean: Span,
    /// 95th percentile.
    pub p95: Span,
    /// 99th percentile; an hour if it is beyond the range of the source.
    pub p99: Span,
    /// Time since the newest sample, for a source that reports infrequently; zero for other
    /// sources. If the same view is shown again, only its age has grown.
    pub age: Span,
    /// Length of the source's time window: samples may be this much older than the newest one. Zero
    /// if all samples are from the time since the policy was last asked.
    pub window: Span,
    /// True if the samples cover only a part of the service, such as TCP's round trips. They must
    /// not be compared with a target for whole requests.
    pub part: bool,
}

impl LatencyView {
    /// Returns the earliest possible time of a sample; `None` if all samples are from the time
    /// since the policy was last asked.
    pub fn since(&self, now: Time) -> Option<Time> {
        let back = self.age + self.window;
        (back > Span::ZERO).then(|| Time::ZERO + (now.since(Time::ZERO) - back))
    }
}

/// Power over the time since the policy was last asked, or over the last period of a slower meter.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PowerView {
    /// Mean power of the whole machine.
    pub watts: Watts,
    /// The time that the mean covers.
    pub over: Span,
    /// Source of the figure and its accuracy.
    pub provenance: Provenance,
}

/// All inputs of a policy except the present operating point.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The time, counted from the start of the run.
    pub now: Time,
    /// The machine.
    pub platform: &'a Platform,
    /// Event at which the policy is asked.
    pub trigger: Trigger,
    /// By queue number.
    pub queues: &'a [QueueView],
    /// By core number.
    pub cores: &'a [CoreView],
    /// Latency, if it is measured and the policy uses it ([`crate::Looks::latency`]). `None` means
    /// that it is not measured; if no packet left, the view has no samples.
    pub latency: Option<LatencyView>,
    /// Power, if it is known and the policy uses it ([`crate::Looks::power`]).
    pub power: Option<PowerView>,
    /// Packets that arrived since the start, by entry of the indirection table, port after port.
    /// Empty unless they are counted and the policy uses them ([`crate::Looks::entries`]).
    pub entries: &'a [u64],
    /// The present offered rate. Only clairvoyant policies see it ([`crate::Looks::offered`]), and
    /// only in a simulator.
    pub offered: Option<PacketsPerSecond>,
}

impl<'a> Observation<'a> {
    /// Creates an observation of queues and cores alone.
    pub fn new(
        now: Time,
        platform: &'a Platform,
        trigger: Trigger,
        queues: &'a [QueueView],
        cores: &'a [CoreView],
    ) -> Self {
        Self {
            now,
            platform,
            trigger,
            queues,
            cores,
            latency: None,
            power: None,
            entries: &[],
            offered: None,
        }
    }
}

impl Observation<'_> {
    /// Returns the number of packets that arrived at all queues since the start.
    pub fn arrivals(&self) -> u64 {
        self.queues.iter().map(|queue| queue.arrivals).sum()
    }
}
