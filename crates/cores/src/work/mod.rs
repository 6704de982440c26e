//! One core: it polls its rings and serves their packets in batches. Module `idle` has its
//! behaviour without packets, module `napi` the polls of the kernel.

mod estimate;
mod idle;
mod napi;
mod polls;

use crate::context::{Costs, Counts, Sink, Stop, Watched};
use crate::egress::Departure;
use crate::fixed::CoreFixed;
use crate::ring::Ring;
use crate::service::Variation;
use crate::states::Spent;
use estimate::Estimate;
use polls::Napi;
use wattline_policy::{CoreSetting, CoreView, MAX_IDLE_STATES};
use wattline_units::{Hertz, Span};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Serves a batch, or is about to poll at `Core::at`.
    Serving,
    /// Polls empty rings without sleeping.
    Spinning,
    /// In an idle state until an interrupt or until `wake_at`. `from` is the state that it was in
    /// at `since`.
    Idle { since: u64, from: usize, wake_at: Option<u64> },
    /// Leaves an idle state; the first poll is at `Core::at`.
    Waking,
}

/// A core in virtual time. The simulator drives it from event to event, the platform `scale` by a
/// clock.
#[derive(Debug)]
pub struct Core {
    /// Number of the core.
    pub number: usize,
    /// One ring for every port.
    pub rings: Vec<Ring>,
    /// Cumulative counts.
    pub counts: Counts,
    /// Time in each state, as far as accounted.
    pub spent: Spent,
    /// Costs at the present frequency.
    pub costs: Costs,
    state: State,
    /// Time that the core has reached: it then serves the next packet, or polls.
    at: u64,
    /// End of the last time span; earlier times cannot be asked for.
    reached: u64,
    /// Time up to which time is accounted to states.
    booked: u64,
    setting: CoreSetting,
    active: bool,
    batch: u32,
    moderation: Vec<u64>,
    /// Port of the present batch.
    port: usize,
    /// Flow of the packet served last.
    flow: u32,
    next_port: usize,
    /// True if the policy has seen the batch that is about to be taken.
    seen: bool,
    estimate: Estimate,
    empty_polls: u64,
    overloaded_since: Option<u64>,
    /// Residency after which a nap continues in the idle state of this index, and the time to leave
    /// that state beyond the wake-up work.
    target_residency: Vec<u64>,
    extra_exit: Vec<u64>,
    /// Time from raising an interrupt to its arrival at the core.
    delivery: u64,
    variation: Variation,
    /// The polls of NAPI, unless workers poll.
    napi: Option<Napi>,
}

impl Core {
    /// A core asleep in the lightest idle state.
    pub(crate) fn new(
        number: usize,
        make: &CoreFixed,
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
            reached: 0,
            booked: 0,
            setting,
            active: true,
            batch: 1,
            moderation: vec![0; make.ports],
            port: 0,
            flow: 0,
            next_port: 0,
            seen: false,
            estimate: Estimate::new(make.ports),
            empty_polls: 0,
            overloaded_since: None,
            target_residency: make.target_residency.clone(),
            extra_exit: make.extra_exit.clone(),
            delivery: make.delivery,
            variation,
            napi: make.poll_budget.map(|budget| Napi::new(budget, make.ports)),
        }
    }

    /// Runs everything that begins before `until`. Stops earlier if the policy has to be asked; the
    /// next call continues from there.
    pub fn advance(&mut self, until: u64, watched: Watched, sink: &mut Sink) -> Option<Stop> {
        self.estimate.follow(watched.streaks.as_ref(), self.reached);
        loop {
            let stage = until.min(self.silence_due(&watched).unwrap_or(u64::MAX));
            let stop = self.run(stage, watched, sink);
            // Batches may have ended the silence meanwhile.
            let silent = self.silence_due(&watched).is_some_and(|due| due <= stage);
            let stop = stop.or_else(|| silent.then_some(Stop::Silence { at: stage }));
            self.reached = self.reached.max(stop.map_or(stage, |stop| stop.at()));
            if stop.is_some() || stage == until {
                return stop;
            }
        }
    }

    fn run(&mut self, until: u64, watched: Watched, sink: &mut Sink) -> Option<Stop> {
        loop {
            match self.state {
                State::Serving => {
                    self.serve(until, sink);
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
                    let due = watched.empty_polls.and_then(|after| self.empty_polls_due(after));
                    if let Some(at) = due.filter(|due| *due < arrival.min(until)) {
                        return Some(Stop::EmptyPolls { at });
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

    /// Time of the next known event in picoseconds: the end of a batch (by the mean service time),
    /// the end of a wake-up, or a coming packet that is polled or interrupts. `None` if no event is
    /// known.
    pub fn next_event(&self) -> Option<u64> {
        match self.state {
            State::Serving => {
                let batch = self.rings[self.port].batch().iter();
                let picos = batch.map(|packet| self.costs.service.picos(packet.length));
                Some(self.at + picos.sum::<u64>())
            }
            State::Waking => Some(self.at),
            State::Spinning => self.next_arrival().map(|time| time.max(self.at)),
            State::Idle { wake_at, .. } => wake_at.or_else(|| self.next_interrupt()),
        }
    }

    /// Returns true if the core polls empty rings.
    pub fn is_spinning(&self) -> bool {
        matches!(self.state, State::Spinning)
    }

    /// Returns true if the core waits for packets and will react to the next one.
    pub fn awaits_packets(&self) -> bool {
        matches!(self.state, State::Spinning | State::Idle { wake_at: None, .. })
    }

    /// Returns the time at which the core has found its rings empty `after` times in a row, if no
    /// packet arrives. If it already has, that is at once.
    pub fn empty_polls_due(&self, after: u32) -> Option<u64> {
        let wanted = u64::from(after).saturating_sub(self.empty_polls).max(1);
        let due = self.at + wanted * self.costs.empty_poll;
        matches!(self.state, State::Spinning).then(|| due.max(self.reached))
    }

    /// Returns the time at which to stop because the estimator has had no sample.
    pub fn silence_due(&self, watched: &Watched) -> Option<u64> {
        let asks = watched.streaks.is_some_and(|streaks| streaks.at_silence);
        asks.then(|| self.estimate.silent_at().max(self.reached))
    }

    /// Serves the packets of the batch that begin before `until`. Each begins when the one before
    /// is finished, and not before its own arrival: a caller with a clock may have polled the rings
    /// at a later time.
    #[inline]
    fn serve(&mut self, until: u64, sink: &mut Sink) {
        let ring = &mut self.rings[self.port];
        let batch = ring.batch();
        // Local copies: the compiler cannot know that writes to `sink` do not change the counts.
        let (mut at, mut counts, mut served) = (self.at, self.counts, 0);
        let mut leaving = sink.batch();
        for packet in batch {
            if at >= until {
                break;
            }
            let arrival = packet.picos;
            let service = self.variation.apply(self.costs.service.picos(packet.length));
            at = at.max(arrival) + service;
            let departure = Departure {
                arrival,
                done: at,
                flow: packet.flow,
                length: packet.length,
                port: self.port as u8,
                core: self.number as u8,
            };
            leaving.finished(departure);
            served += 1;
            counts.bytes += u64::from(packet.length);
            counts.departure_sum = counts.departure_sum.wrapping_add(at);
        }
        leaving.record();
        counts.packets += served as u64;
        (self.at, self.counts) = (at, counts);
        self.flow = batch[..served].last().map_or(self.flow, |packet| packet.flow);
        ring.served(served);
    }

    /// Port, flow and end of the packet in service at `now`.
    pub fn in_service(&self, now: u64) -> Option<(usize, u32, u64)> {
        let serves = matches!(self.state, State::Serving) && self.at > now;
        serves.then_some((self.port, self.flow, self.at))
    }

    /// Polls the rings in turn for a batch.
    fn poll(&mut self, watched: Watched) -> Polled {
        if self.napi.is_some() {
            return self.napi_poll(&watched);
        }
        for _ in 0..self.rings.len() {
            let port = self.next_port;
            let ring = &mut self.rings[port];
            ring.admit(self.at);
            let fill = ring.fill();
            if fill > 0 {
                let taken = self.batch.min(fill.min(u32::MAX as usize) as u32);
                let full = watched.fill.is_some_and(|level| fill >= level as usize);
                if let Some(streaks) = &watched.streaks
                    && let Some(above) = self.estimate.batch(self.at, port, fill, taken)
                    && streaks.asks(above)
                    && !self.seen
                {
                    return Polled::Stop(Stop::Streak { at: self.at, port, above });
                }
                if (watched.batches || full) && !self.seen {
                    return Polled::Stop(Stop::Batch { at: self.at, port, taken, full });
                }
                self.estimate.batch_begins();
                if fill > self.batch as usize && self.overloaded_since.is_none() {
                    self.overloaded_since = Some(self.at);
                }
                self.seen = false;
                self.empty_polls = 0;
                self.counts.polls += 1;
                ring.begin_batch(taken);
                self.port = port;
                self.next_port = if port + 1 == self.rings.len() { 0 } else { port + 1 };
                return Polled::Batch;
            }
            self.next_port = if port + 1 == self.rings.len() { 0 } else { port + 1 };
        }
        if let Some(streaks) = &watched.streaks
            && let Some((port, above)) = self.estimate.empty_pass(self.at, streaks)
        {
            return Polled::Stop(Stop::Streak { at: self.at, port, above });
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
        self.estimate.pass_ends();
        Polled::Nothing
    }

    /// Records that the policy has been asked at this stop, so that the core may continue.
    pub fn asked(&mut self, stop: Stop) {
        match (stop, self.state) {
            (Stop::EmptyPolls { at }, State::Spinning) => {
                self.counts.polls += (at - self.at) / self.costs.empty_poll.max(1);
                self.empty_polls = 0;
                self.at = at;
            }
            (Stop::Silence { at }, _) => self.estimate.restart(at),
            // The policy is asked separately for each further streak of this pass and for the pass
            // itself.
            (Stop::Streak { .. }, _) if self.estimate.is_in_empty_pass() => {}
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

    /// Changes the costs from the accounted time on; the packet in service ends as it began.
    pub fn set_costs(&mut self, costs: Costs) {
        self.costs = costs;
    }

    /// State of the core as policies see it, after [`Self::book`] up to `now`; `frequencies` are
    /// those of the platform.
    pub fn view(&self, now: u64, frequencies: &[Hertz]) -> CoreView {
        let spent = &self.spent;
        let mut residency = [Span::ZERO; MAX_IDLE_STATES];
        for (shown, picos) in residency.iter_mut().zip(&spent.idle) {
            *shown = Span::from_picos(*picos);
        }
        CoreView {
            useful: Span::from_picos(spent.totals.useful),
            empty: Span::from_picos(spent.totals.empty),
            asleep: Span::from_picos(spent.totals.idle),
            sleeps: self.counts.sleeps,
            packets: self.counts.packets,
            idle_state: self.idle_state(now),
            frequency: frequencies.get(self.costs.frequency).copied(),
            residency: Some(residency),
            softirq: None,
        }
    }

    /// Admits the packets that have arrived at the rings.
    pub fn admit(&mut self, now: u64) {
        self.rings.iter_mut().for_each(|ring| ring.admit(now));
    }

    /// Duration so far of the present overload, in picoseconds.
    pub fn open_overload(&self, now: u64) -> u64 {
        self.overloaded_since.map_or(0, |since| now.saturating_sub(since))
    }
}

enum Polled {
    Batch,
    Nothing,
    Stop(Stop),
}
