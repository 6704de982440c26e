//! Inputs and outputs of a core while it runs.

use crate::egress::{Departure, Egress};
use crate::energy::AwakeLog;
use crate::reorder::Watch;
use crate::service::ServiceTime;
use crate::states::StateSpan;
use std::num::NonZeroU32;
use wattline_policy::Latency;
use wattline_policy::{AskAgain, Streaks, Trigger};

/// Number of latencies that are recorded together.
const TOGETHER: usize = 32;

/// Output of the cores while they run.
#[derive(Debug)]
pub struct Sink {
    /// Latencies of forwarded packets.
    pub latency: Latency,
    /// Latencies since the policy was last asked; `None` if the policy does not use them.
    pub asked: Option<Latency>,
    /// Log of the times at which cores are awake.
    pub awake: AwakeLog,
    /// Packets that are held back to keep flows in order.
    pub watch: Watch,
    /// Output links; `None` if they are not modelled.
    pub egress: Option<Box<Egress>>,
    /// Log of every state of every core; `None` unless asked for.
    pub states: Option<Vec<StateSpan>>,
    /// Time in picoseconds that every packet spends outside queue and core.
    pub pass_through: u64,
    /// Latencies that are recorded together.
    latencies: [u64; TOGETHER],
}

impl Sink {
    /// Creates a sink for this many cores; `pass_through` is the time in picoseconds that every
    /// packet spends outside queue and core.
    pub fn new(cores: usize, pass_through: u64) -> Self {
        Self {
            latency: Latency::new(),
            asked: None,
            awake: AwakeLog::new(cores),
            watch: Watch::default(),
            egress: None,
            states: None,
            pass_through,
            latencies: [0; TOGETHER],
        }
    }

    /// Returns the recorder for packets that a core is about to finish.
    #[inline]
    pub(crate) fn batch(&mut self) -> Leaving<'_> {
        let at_once = self.egress.is_none() && self.watch.moved_at().is_none();
        Leaving { sink: self, at_once, count: 0 }
    }

    /// Records the departure of a packet that need not be held back.
    fn leave(&mut self, departure: Departure) {
        match &mut self.egress {
            None => self.record(&mut [departure.done - departure.arrival]),
            Some(egress) => egress.push(departure),
        }
    }

    /// Records these times in queue and core, in picoseconds.
    fn record(&mut self, latencies: &mut [u64]) {
        record(latencies, &mut self.latency, &mut self.asked, self.pass_through);
    }

    /// Releases the packets that were held back, after the packets that waited when the indirection
    /// table changed have left.
    pub fn end_watch(&mut self) {
        let mut watch = std::mem::take(&mut self.watch);
        watch.end(|departure| self.leave(departure));
        self.watch = watch;
    }

    /// Sends finished packets over the output links up to `now`, which all cores have reached.
    /// Nothing is sent while packets are held back, since these may go first.
    pub fn carry(&mut self, now: u64) {
        if self.watch.moved_at().is_none()
            && let Some(mut egress) = self.egress.take()
        {
            egress.carry(now, |arrival, exit| self.record(&mut [exit - arrival]));
            self.egress = Some(egress);
        }
    }
}

/// See [`Sink::record`].
fn record(
    latencies: &mut [u64],
    latency: &mut Latency,
    asked: &mut Option<Latency>,
    pass_through: u64,
) {
    latencies.iter_mut().for_each(|picos| *picos += pass_through);
    latency.record_all(latencies);
    if let Some(asked) = asked {
        asked.record_all(latencies);
    }
}

/// Recorder of packets that a core finishes. If all leave at once, their latencies are recorded
/// together, which is faster than one at a time.
#[derive(Debug)]
pub(crate) struct Leaving<'a> {
    sink: &'a mut Sink,
    /// True if the packets leave at once: none is held back, and no output link is modelled.
    at_once: bool,
    /// Number of latencies in the sink that are not recorded yet.
    count: usize,
}

impl Leaving<'_> {
    /// Records that the core has finished a packet.
    #[inline]
    pub fn finished(&mut self, departure: Departure) {
        if !self.at_once {
            if self.sink.watch.done(departure) {
                self.sink.leave(departure);
            }
            return;
        }
        if self.count == TOGETHER {
            self.record();
        }
        self.sink.latencies[self.count] = departure.done - departure.arrival;
        self.count += 1;
    }

    /// Records the remaining latencies, after the last packet.
    #[inline]
    pub fn record(&mut self) {
        let Sink { latencies, latency, asked, pass_through, .. } = &mut *self.sink;
        record(&mut latencies[..self.count], latency, asked, *pass_through);
        self.count = 0;
    }
}

/// Costs of a core at one frequency, in picoseconds.
#[derive(Debug, Clone)]
pub struct Costs {
    /// Index of the frequency.
    pub frequency: usize,
    /// Time to serve a packet.
    pub service: ServiceTime,
    /// Time from the waking interrupt to the first poll.
    pub wake_up: u64,
    /// Time of one poll that finds nothing.
    pub empty_poll: u64,
    /// Time of an interrupt that reaches the core while it is awake.
    pub interrupt: u64,
}

/// Reason why a core stopped before the end of its time span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The core is about to take a batch from the ring of this port.
    Batch {
        /// Time in picoseconds.
        at: u64,
        /// Number of the port.
        port: usize,
        /// Number of packets in the batch.
        taken: u32,
        /// True if the ring has reached the fill level that the policy asked for.
        full: bool,
    },
    /// The core has found its rings empty as often as the policy asked for.
    EmptyPolls {
        /// Time in picoseconds.
        at: u64,
    },
    /// Its estimator has counted a streak at the ring of this port.
    Streak {
        /// Time in picoseconds.
        at: u64,
        /// Number of the port.
        port: usize,
        /// True if it was above the upper level.
        above: bool,
    },
    /// Its estimator has had no sample for the time of the policy's rule.
    Silence {
        /// Time in picoseconds.
        at: u64,
    },
}

impl Stop {
    /// Returns the trigger for the policy on a machine with `cores` cores. The queue of port p and
    /// core c has the number p × cores + c. If the policy asked for both the batch and the fill
    /// level, the trigger is the fill level, which is more specific.
    pub fn trigger(&self, core: usize, cores: usize) -> Trigger {
        match *self {
            Self::Batch { port, full: true, .. } => Trigger::Fill { queue: port * cores + core },
            Self::Batch { port, taken, .. } => {
                Trigger::Batch { queue: port * cores + core, taken, batches: 1 }
            }
            Self::EmptyPolls { .. } => Trigger::EmptyPolls { core },
            Self::Streak { port, above, .. } => {
                Trigger::Streak { queue: port * cores + core, above }
            }
            Self::Silence { .. } => Trigger::Silence { core },
        }
    }

    /// Time of the stop in picoseconds.
    pub fn at(&self) -> u64 {
        match *self {
            Self::Batch { at, .. }
            | Self::EmptyPolls { at }
            | Self::Streak { at, .. }
            | Self::Silence { at } => at,
        }
    }
}

/// Conditions on which a core stops for the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watched {
    /// True to stop at every batch.
    pub batches: bool,
    /// Number of consecutive empty polls after which to stop.
    pub empty_polls: Option<u32>,
    /// Number of packets in a ring at which to stop.
    pub fill: Option<u32>,
    /// Streaks that the core counts, with the kinds at which to stop.
    pub streaks: Option<Streaks>,
}

impl Watched {
    /// No condition.
    pub const NOT: Self = Self { batches: false, empty_polls: None, fill: None, streaks: None };

    /// Conditions for core number `core` that follow from the policy's request.
    pub fn by(ask: &AskAgain, core: usize) -> Self {
        let batches = ask.on_batch.contains(core);
        Self {
            batches,
            empty_polls: ask.after_empty_polls.filter(|_| batches).map(NonZeroU32::get),
            fill: ask.on_fill.cores.contains(core).then_some(ask.on_fill.packets),
            streaks: ask.on_streak.cores.contains(core).then_some(ask.on_streak),
        }
    }
}

/// Cumulative counts of one core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets served.
    pub packets: u64,
    /// Bytes of the served packets.
    pub bytes: u64,
    /// Sum of the departure times, modulo 2^64.
    pub departure_sum: u64,
    /// Number of times that the core fell asleep.
    pub sleeps: u64,
    /// Number of interrupts. Only those of NAPI reach a core that is awake.
    pub interrupts: u64,
    /// Number of polls, empty ones included.
    pub polls: u64,
    /// Number of overloads: from a ring that holds more than a batch until all rings are empty.
    pub overloads: u64,
    /// Total duration of the overloads in picoseconds.
    pub overload_picos: u64,
    /// Longest overload in picoseconds.
    pub overload_longest: u64,
}
