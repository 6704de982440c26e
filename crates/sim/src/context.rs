//! What a core is given, and what it leaves behind.

use crate::energy::AwakeLog;
use crate::latency::Latency;
use crate::reorder::Watch;
use crate::service::ServiceTime;
use crate::states::StateSpan;

/// What cores write to while they run.
#[derive(Debug)]
pub struct Sink {
    /// Latencies of forwarded packets.
    pub latency: Latency,
    /// The same since the policy was asked last, where it looks at it.
    pub(crate) asked: Option<Latency>,
    /// When cores are awake.
    pub awake: AwakeLog,
    pub(crate) watch: Watch,
    /// Every state of every core, where asked for.
    pub states: Option<Vec<StateSpan>>,
    /// Time that every packet spends outside queue and core.
    pub pass_through: u64,
}

impl Sink {
    /// For so many cores; `pass_through` is the time in picoseconds that every packet spends
    /// outside queue and core.
    pub fn new(cores: usize, pass_through: u64) -> Self {
        Self {
            latency: Latency::new(),
            asked: None,
            awake: AwakeLog::new(cores),
            watch: Watch::default(),
            states: None,
            pass_through,
        }
    }

    /// A core is done with a packet that nothing holds back.
    #[inline]
    pub(crate) fn leave(&mut self, arrival: u64, done: u64) {
        let latency = done - arrival + self.pass_through;
        self.latency.record(latency);
        if let Some(asked) = &mut self.asked {
            asked.record(latency);
        }
    }

    /// Whoever waited when the redirect table moved has left: books what was held back for it.
    pub(crate) fn end_watch(&mut self) {
        let Self { watch, latency, asked, pass_through, .. } = self;
        watch.end(|arrival, departure| {
            let picos = departure - arrival + *pass_through;
            latency.record(picos);
            if let Some(asked) = asked {
                asked.record(picos);
            }
        });
    }
}

/// What a core costs at one frequency, in picoseconds.
#[derive(Debug, Clone)]
pub struct Costs {
    /// Index of the frequency.
    pub frequency: usize,
    /// Serving a packet.
    pub service: ServiceTime,
    /// Work from the waking interrupt until the first poll.
    pub wake_up: u64,
    /// One poll that finds nothing.
    pub empty_poll: u64,
}

/// Why a core stopped before the time that it was to run to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It is about to take a batch from the ring of this port.
    Batch {
        /// When, in picoseconds.
        at: u64,
        /// Which port.
        port: usize,
        /// Packets of the batch.
        taken: u32,
    },
    /// It has found its rings empty as often as was asked for.
    EmptyPolls {
        /// When, in picoseconds.
        at: u64,
    },
}

impl Stop {
    /// When, in picoseconds.
    pub fn at(&self) -> u64 {
        match *self {
            Self::Batch { at, .. } | Self::EmptyPolls { at } => at,
        }
    }
}

/// When a core stops for the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// At every batch.
    pub batches: bool,
    /// After so many polls in a row that found nothing.
    pub empty_polls: Option<u32>,
}

impl Watched {
    /// Not at all.
    pub const NOT: Self = Self { batches: false, empty_polls: None };
}

/// Cumulative counts of one core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets served.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Sum of the departure times, modulo 2^64.
    pub(crate) departure_sum: u64,
    /// Times that it fell asleep.
    pub sleeps: u64,
    /// Times that an interrupt woke it.
    pub interrupts: u64,
    /// Polls, empty ones included.
    pub polls: u64,
    /// Times that a ring held more than a batch, until the core had emptied its rings.
    pub overloads: u64,
    /// Time from then until it had emptied them.
    pub overload_picos: u64,
    /// Longest such time.
    pub overload_longest: u64,
}
