//! One core: it polls its rings and serves their packets by the batch; how it waits when
//! there are none is in `idle`.

mod idle;

use crate::energy::AwakeLog;
use crate::latency::Latency;
use crate::reorder::Watch;
use crate::ring::Ring;
use crate::service::{ServiceTime, Variation};
use crate::states::{Spent, StateSpan};
use wattline_policy::CoreSetting;

/// What cores write to while they run.
pub(crate) struct Sink {
    pub latency: Latency,
    /// The same since the policy was asked last, where it looks at it.
    pub asked: Option<Latency>,
    pub awake: AwakeLog,
    pub watch: Watch,
    pub states: Option<Vec<StateSpan>>,
    /// Time that every packet spends outside queue and core.
    pub pass_through: u64,
}

/// What a core costs at one frequency, in picoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Costs {
    pub frequency: usize,
    pub service: ServiceTime,
    /// Work from the waking interrupt until the first poll.
    pub wake_up: u64,
    /// One poll that finds nothing.
    pub empty_poll: u64,
}

/// Why a core stopped before the time that it was to run to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// It is about to take a batch from the ring of this port.
    Batch { at: u64, port: usize, taken: u32 },
    /// It has found its rings empty as often as was asked for.
    EmptyPolls { at: u64 },
}

impl Stop {
    pub fn at(&self) -> u64 {
        match *self {
            Self::Batch { at, .. } | Self::EmptyPolls { at } => at,
        }
    }
}

/// When a core stops for the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Watched {
    pub batches: bool,
    pub empty_polls: Option<u32>,
}

impl Watched {
    pub const NOT: Self = Self { batches: false, empty_polls: None };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Serving a batch, or about to poll at `Core::at`.
    Serving,
    /// Polling empty rings without sleeping.
    Spinning,
    /// In an idle state until an interrupt or until `wake_at`; `from` is the state that it
    /// was in at `since`.
    Idle { since: u64, from: usize, wake_at: Option<u64> },
    /// On the way from an idle state to its first poll, at `Core::at`.
    Waking,
}

/// Cumulative counts of one core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub packets: u64,
    pub bytes: u64,
    /// Sum of the departure times, modulo 2^64 (see [`crate::totals`]).
    pub departure_sum: u64,
    pub sleeps: u64,
    pub interrupts: u64,
    pub polls: u64,
    /// Times that a ring held more than a batch, until the core had emptied its rings.
    pub overloads: u64,
    pub overload_picos: u64,
    pub overload_longest: u64,
}

/// A core in virtual time.
pub(crate) struct Core {
    pub number: usize,
    pub rings: Vec<Ring>,
    pub counts: Counts,
    pub spent: Spent,
    pub costs: Costs,
    state: State,
    /// The time that it has come to: when it serves the next packet, or polls.
    at: u64,
    /// What was spent is booked up to here.
    booked: u64,
    setting: CoreSetting,
    active: bool,
    batch: u32,
    moderation: Vec<u64>,
    /// Packets left of the batch, and the port that they come from.
    left: u32,
    port: usize,
    next_port: usize,
    /// The policy has seen the batch that is about to be taken.
    seen: bool,
    empty_polls: u64,
    overloaded_since: Option<u64>,
    /// Residency after which a nap goes on in the idle state of this index, and what
    /// leaving it takes beyond the wake-up work.
    target_residency: Vec<u64>,
    extra_exit: Vec<u64>,
    /// How long an interrupt is under way to the core.
    delivery: u64,
    variation: Variation,
}

/// Fixed properties of a core.
pub(crate) struct CoreMake {
    pub ports: usize,
    pub ring: Option<usize>,
    pub frequencies: usize,
    pub target_residency: Vec<u64>,
    pub extra_exit: Vec<u64>,
    pub delivery: u64,
}

impl Core {
    /// A core that sleeps in the lightest idle state.
    pub fn new(
        number: usize,
        make: &CoreMake,
        costs: Costs,
        setting: CoreSetting,
        variation: Variation,
    ) -> Self {
        Self {
            number,
            rings: (0..make.ports).map(|_| Ring::new(make.ring)).collect(),
            counts: Counts::default(),
            spent: Spent::new(make.frequencies, make.extra_exit.len()),
            costs,
            state: State::Idle { since: 0, from: 0, wake_at: None },
            at: 0,
            booked: 0,
            setting,
            active: true,
            batch: 1,
            moderation: vec![0; make.ports],
            left: 0,
            port: 0,
            next_port: 0,
            seen: false,
            empty_polls: 0,
            overloaded_since: None,
            target_residency: make.target_residency.clone(),
            extra_exit: make.extra_exit.clone(),
            delivery: make.delivery,
            variation,
        }
    }

    /// Runs it through everything that begins before `until`. Stops earlier where the
    /// policy wants to be asked; the next call goes on from there.
    pub fn advance(&mut self, until: u64, watched: Watched, sink: &mut Sink) -> Option<Stop> {
        loop {
            match self.state {
                State::Serving => {
                    while self.left > 0 && self.at < until {
                        self.serve(sink);
                    }
                    if self.at >= until {
                        return None;
                    }
                    match self.poll(watched) {
                        Polled::Batch => {}
                        Polled::Stop(stop) => return Some(stop),
                        Polled::Nothing => self.rest(sink),
                    }
                }
                State::Waking => {
                    if self.at >= until {
                        return None;
                    }
                    self.state = State::Serving;
                }
                State::Spinning => {
                    let arrival = self.next_arrival().map_or(u64::MAX, |time| time.max(self.at));
                    if let Some(after) = watched.empty_polls {
                        let wanted = u64::from(after).saturating_sub(self.empty_polls).max(1);
                        let due = self.at + wanted * self.costs.empty_poll;
                        if due < arrival.min(until) {
                            return Some(Stop::EmptyPolls { at: due });
                        }
                    }
                    if arrival >= until {
                        return None;
                    }
                    self.counts.polls += (arrival - self.at) / self.costs.empty_poll.max(1);
                    self.book(arrival, sink);
                    self.at = arrival;
                    self.state = State::Serving;
                }
                State::Idle { wake_at, .. } => {
                    let wake = wake_at.or_else(|| self.next_interrupt()).unwrap_or(u64::MAX);
                    if wake >= until {
                        return None;
                    }
                    self.wake(wake, wake_at.is_none(), sink);
                }
            }
        }
    }

    /// Serves the next packet of the batch; it begins at `at`.
    #[inline]
    fn serve(&mut self, sink: &mut Sink) {
        let packet = self.rings[self.port].take();
        self.left -= 1;
        self.at += self.variation.apply(self.costs.service.picos(packet.length));
        let arrival = packet.time.as_picos();
        let latency = self.at - arrival + sink.pass_through;
        sink.latency.record(latency);
        if let Some(asked) = &mut sink.asked {
            asked.record(latency);
        }
        self.counts.packets += 1;
        self.counts.bytes += u64::from(packet.length);
        self.counts.departure_sum = self.counts.departure_sum.wrapping_add(self.at);
        sink.watch.departed(packet.flow, arrival, self.at);
    }

    /// Looks at the rings in turn for a batch.
    fn poll(&mut self, watched: Watched) -> Polled {
        for _ in 0..self.rings.len() {
            let port = self.next_port;
            let ring = &mut self.rings[port];
            ring.admit(self.at);
            let fill = ring.fill();
            if fill > 0 {
                let taken = self.batch.min(fill.min(u32::MAX as usize) as u32);
                if watched.batches && !self.seen {
                    return Polled::Stop(Stop::Batch { at: self.at, port, taken });
                }
                if fill > self.batch as usize && self.overloaded_since.is_none() {
                    self.overloaded_since = Some(self.at);
                }
                self.seen = false;
                self.empty_polls = 0;
                self.counts.polls += 1;
                ring.begin_batch(taken);
                (self.left, self.port) = (taken, port);
                self.next_port = if port + 1 == self.rings.len() { 0 } else { port + 1 };
                return Polled::Batch;
            }
            self.next_port = if port + 1 == self.rings.len() { 0 } else { port + 1 };
        }
        if let Some(after) = watched.empty_polls
            && self.empty_polls + 1 >= u64::from(after)
            && !self.seen
        {
            return Polled::Stop(Stop::EmptyPolls { at: self.at });
        }
        self.counts.polls += 1;
        self.empty_polls = if self.seen { 0 } else { self.empty_polls + 1 };
        self.seen = false;
        Polled::Nothing
    }

    /// The policy has been asked at this stop: the core may go on.
    pub fn asked(&mut self, stop: Stop) {
        match (stop, self.state) {
            (Stop::EmptyPolls { at }, State::Spinning) => {
                self.counts.polls += (at - self.at) / self.costs.empty_poll.max(1);
                self.empty_polls = 0;
                self.at = at;
            }
            _ => self.seen = true,
        }
    }

    fn end_overload(&mut self) {
        if let Some(since) = self.overloaded_since.take() {
            let picos = self.at - since;
            self.counts.overloads += 1;
            self.counts.overload_picos += picos;
            self.counts.overload_longest = self.counts.overload_longest.max(picos);
        }
    }

    fn next_arrival(&self) -> Option<u64> {
        self.rings.iter().filter_map(Ring::earliest).min()
    }

    /// Changes what it costs, from the time on that is booked; a packet in service ends as
    /// it began.
    pub fn set_costs(&mut self, costs: Costs) {
        self.costs = costs;
    }

    /// Admits what has arrived at its rings.
    pub fn admit(&mut self, now: u64) {
        self.rings.iter_mut().for_each(|ring| ring.admit(now));
    }

    /// Time in an overload that has not ended yet.
    pub fn open_overload(&self, now: u64) -> u64 {
        self.overloaded_since.map_or(0, |since| now.saturating_sub(since))
    }
}

enum Polled {
    Batch,
    Nothing,
    Stop(Stop),
}
