//! What a core is given, and what it leaves behind.

use crate::egress::{Departure, Egress};
use crate::energy::AwakeLog;
use crate::latency::Latency;
use crate::reorder::Watch;
use crate::service::ServiceTime;
use crate::states::StateSpan;
use std::num::NonZeroU32;
use wattline_policy::{AskAgain, Trigger};

/// What cores write to while they run.
#[derive(Debug)]
pub struct Sink {
    /// Latencies of forwarded packets.
    pub latency: Latency,
    /// The same since the policy was asked last, where it looks at it.
    pub asked: Option<Latency>,
    /// When cores are awake.
    pub awake: AwakeLog,
    /// What is held back to keep flows in order.
    pub watch: Watch,
    /// The output links, where they are modelled.
    pub egress: Option<Box<Egress>>,
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
            egress: None,
            states: None,
            pass_through,
        }
    }

    /// A core is done with a packet that nothing holds back.
    #[inline]
    pub fn leave(&mut self, departure: Departure) {
        match &mut self.egress {
            None => self.record(departure.done - departure.arrival),
            Some(egress) => egress.push(departure),
        }
    }

    #[inline]
    fn record(&mut self, picos: u64) {
        let picos = picos + self.pass_through;
        self.latency.record(picos);
        if let Some(asked) = &mut self.asked {
            asked.record(picos);
        }
    }

    /// Whoever waited when the redirect table moved has left: lets go what was held back for it.
    pub fn end_watch(&mut self) {
        let mut watch = std::mem::take(&mut self.watch);
        watch.end(|departure| self.leave(departure));
        self.watch = watch;
    }

    /// All cores have come to `now`: lets output links carry what was done by then. Not while
    /// packets are held back, which may go before others that are here.
    pub fn carry(&mut self, now: u64) {
        if self.watch.moved_at().is_none()
            && let Some(mut egress) = self.egress.take()
        {
            egress.carry(now, |arrival, exit| self.record(exit - arrival));
            self.egress = Some(egress);
        }
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
        /// The ring is filled up to the level that was asked for.
        full: bool,
    },
    /// It has found its rings empty as often as was asked for.
    EmptyPolls {
        /// When, in picoseconds.
        at: u64,
    },
}

impl Stop {
    /// What the policy is asked, of `cores` cores; the queue of port p and core c has the number
    /// p × cores + c. Where it wants to be asked both at a batch and at a fill level, the level
    /// says more.
    pub fn trigger(&self, core: usize, cores: usize) -> Trigger {
        match *self {
            Self::Batch { port, full: true, .. } => Trigger::Fill { queue: port * cores + core },
            Self::Batch { port, taken, .. } => {
                Trigger::Batch { queue: port * cores + core, taken, batches: 1 }
            }
            Self::EmptyPolls { .. } => Trigger::EmptyPolls { core },
        }
    }

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
    /// Where a ring holds so many packets or more.
    pub fill: Option<u32>,
}

impl Watched {
    /// Not at all.
    pub const NOT: Self = Self { batches: false, empty_polls: None, fill: None };

    /// Where core number `core` stops for what a policy wants to be asked.
    pub fn by(ask: &AskAgain, core: usize) -> Self {
        let batches = ask.on_batch.contains(core);
        Self {
            batches,
            empty_polls: ask.after_empty_polls.filter(|_| batches).map(NonZeroU32::get),
            fill: ask.on_fill.cores.contains(core).then_some(ask.on_fill.packets),
        }
    }
}

/// Cumulative counts of one core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets served.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Sum of the departure times, modulo 2^64.
    pub departure_sum: u64,
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
