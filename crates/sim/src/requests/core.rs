//! One core with its queue of the card: interrupts first, then the application, then idling.

use super::costs::Costs;
use super::idle::IdleHistory;
use super::softirqd::Softirqd;
use super::spent::Spent;
use std::collections::VecDeque;
use wattline_policy::Latency;
use wattline_policy::moderation::{Interrupt, Rule};
use wattline_traffic::requests::{Arrivals, Request};
use wattline_units::Time;

/// Payload bytes of a segment: 1500 minus IP and TCP headers with timestamps.
const SEGMENT_BYTES: u32 = 1_448;
/// Bytes of an acknowledgement frame.
const ACKNOWLEDGEMENT_BYTES: u32 = 66;
/// A client acknowledges every second segment (RFC 1122, section 4.2.3.2).
const SEGMENTS_PER_ACKNOWLEDGEMENT: u32 = 2;

/// A request in the server.
#[derive(Debug, Clone, Copy)]
struct Job {
    at: u64,
    response_bytes: u32,
    draw: f32,
}

/// Period between two interrupts: fixed, or chosen by a rule of the driver.
#[derive(Debug, Clone)]
pub(super) enum Moderation {
    /// A fixed period in picoseconds.
    Set(u64),
    /// A period chosen by the rule.
    Driver(Rule),
}

impl Moderation {
    pub fn period(&self) -> u64 {
        match self {
            Self::Set(picos) => *picos,
            Self::Driver(rule) => rule.period().as_picos(),
        }
    }
}

/// Results of the responses.
pub(super) struct Sink {
    /// Latencies for the report.
    pub latency: Latency,
    /// Latencies for the policy; `None` if it does not use them.
    pub asked: Option<Latency>,
    /// Arrival time and latency of each request in picoseconds; `None` unless requested.
    pub trace: Option<Vec<(u64, u64)>>,
}

pub(super) struct Core {
    pub now: u64,
    /// Index of the V/F state.
    pub state: usize,
    /// Deepest idle state that is allowed.
    pub idle_limit: usize,
    pub moderation: Moderation,
    pub spent: Spent,
    /// Periods in force with their durations, both in picoseconds, for a mean over time.
    pub periods: Vec<(u64, u64)>,
    period_since: u64,
    arrivals: Arrivals,
    next: Request,
    /// Requests received by the card and not yet by the kernel.
    ring: VecDeque<Request>,
    completions: VecDeque<(u64, u32)>,
    acknowledgements: VecDeque<(u64, u32)>,
    last_interrupt: u64,
    /// True if the last poll used its whole budget: the next poll follows without an interrupt.
    polling: bool,
    /// Work of the polls since the driver's rule last judged, which it does once all work is done.
    unjudged: Interrupt,
    /// Time until which the kernel works; its results reach the sockets at the end.
    kernel_until: u64,
    /// Start of that work.
    kernel_from: u64,
    softirqd: Softirqd,
    under_way: VecDeque<Job>,
    sockets: VecDeque<Job>,
    current: Option<(Job, u64)>,
    idle: Option<(usize, u64)>,
    history: IdleHistory,
}

impl Core {
    pub fn new(costs: &Costs, mut arrivals: Arrivals, state: usize) -> Self {
        let next = arrivals.next_request();
        Self {
            now: 0,
            state,
            idle_limit: 0,
            moderation: Moderation::Set(0),
            spent: Spent::new(costs.cycle.len(), costs.idle.len()),
            periods: Vec::new(),
            period_since: 0,
            arrivals,
            next,
            ring: VecDeque::new(),
            completions: VecDeque::new(),
            acknowledgements: VecDeque::new(),
            last_interrupt: 0,
            polling: false,
            unjudged: Interrupt::default(),
            kernel_until: 0,
            kernel_from: 0,
            softirqd: Softirqd::new(costs.slice),
            under_way: VecDeque::new(),
            sockets: VecDeque::new(),
            current: None,
            idle: None,
            history: IdleHistory::new(),
        }
    }

    /// Returns the number of requests inside that are not answered.
    pub fn backlog(&self) -> u64 {
        let waiting = self.ring.len() + self.under_way.len() + self.sockets.len();
        waiting as u64 + u64::from(self.current.is_some())
    }

    /// Returns the number of requests in the card's ring.
    pub fn fill(&self) -> u32 {
        self.ring.len() as u32
    }

    pub fn idle_state(&self) -> Option<usize> {
        self.idle.map(|(state, _)| state)
    }

    /// Changes the V/F state; the work in progress continues at the new speed.
    pub fn set_state(&mut self, costs: &Costs, state: usize) {
        if let Some((job, left)) = &mut self.current {
            let before = service(costs, job, self.state).max(1) as f64;
            let after = service(costs, job, state) as f64;
            *left = (*left as f64 * after / before).round() as u64;
        }
        self.state = state;
    }

    /// Accounts the period in force up to now, and changes how it is chosen.
    pub fn set_moderation(&mut self, moderation: Moderation) {
        self.book_period();
        self.moderation = moderation;
    }

    /// Accounts the period in force up to now.
    pub fn book_period(&mut self) {
        let period = self.moderation.period();
        let span = self.now - std::mem::replace(&mut self.period_since, self.now);
        match self.periods.iter_mut().find(|(known, _)| *known == period) {
            Some((_, sum)) => *sum += span,
            None => self.periods.push((period, span)),
        }
    }

    /// Receives the arrivals at the card up to `until`.
    pub fn receive(&mut self, costs: &Costs, until: u64) {
        while self.next.at <= until {
            self.spent.arrivals += 1;
            self.spent.bytes += u64::from(self.next.request_bytes);
            if self.ring.len() < costs.ring {
                self.ring.push_back(self.next);
            } else {
                self.spent.drops += 1;
            }
            self.next = self.arrivals.next_request();
        }
    }

    /// Returns the time of the next interrupt if nothing else happens before.
    fn next_interrupt(&self) -> u64 {
        if self.polling {
            return self.now;
        }
        let mut first = self.ring.front().map_or(self.next.at, |request| request.at);
        if let Some((at, _)) = self.completions.front() {
            first = first.min(*at);
        }
        if let Some((at, _)) = self.acknowledgements.front() {
            first = first.min(*at);
        }
        first.max(self.last_interrupt.saturating_add(self.moderation.period()))
    }

    /// Brings the core to `until`.
    pub fn advance(&mut self, costs: &Costs, until: u64, sink: &mut Sink) {
        while self.now < until {
            if self.kernel_until > self.now {
                let end = self.kernel_until.min(until);
                self.work(end - self.now, false);
                self.now = end;
                if end == self.kernel_until {
                    self.end_poll();
                }
                continue;
            }
            let interrupt = self.next_interrupt();
            let waits = self.softirqd.waits();
            if interrupt <= self.now && !waits {
                self.handle_interrupt(costs, 0);
                continue;
            }
            if let Some((job, left)) = self.current {
                let most = if waits { self.now + self.softirqd.rest() } else { interrupt };
                let end = (self.now + left).min(most).min(until);
                let span = end - self.now;
                self.work(span, true);
                let left = left - span;
                self.now = end;
                self.current = Some((job, left));
                if left == 0 {
                    self.respond(costs, job, sink);
                }
                if waits {
                    let done = self.current.is_none() && self.sockets.is_empty();
                    self.softirqd.served(span, done);
                }
                continue;
            }
            if let Some(job) = self.sockets.pop_front() {
                self.current = Some((job, service(costs, &job, self.state)));
                continue;
            }
            self.idle_until(costs, interrupt, until);
        }
    }

    /// Hands the segments of a poll to the sockets.
    fn end_poll(&mut self) {
        let had_work = self.current.is_some() || !self.sockets.is_empty();
        self.sockets.append(&mut self.under_way);
        let waiting = had_work || !self.sockets.is_empty();
        let pending = self.next_interrupt() <= self.now;
        let states = [pending, waiting, waiting && !had_work];
        self.softirqd.polled(self.now, self.now - self.kernel_from, states);
    }

    fn work(&mut self, picos: u64, application: bool) {
        self.spent.awake[self.state] += picos;
        if application {
            self.spent.application += picos;
        } else {
            self.spent.kernel += picos;
        }
    }

    fn idle_until(&mut self, costs: &Costs, interrupt: u64, until: u64) {
        let (state, since) = match self.idle {
            Some(idle) => idle,
            None => {
                let predicted = self.history.predict();
                let pays = |(index, idle): &(usize, &(u64, u64))| {
                    *index <= self.idle_limit && idle.1 <= predicted
                };
                let deepest = costs.idle.iter().enumerate().rev().find(pays);
                let state = deepest.map_or(0, |(index, _)| index);
                self.spent.sleeps += 1;
                self.idle = Some((state, self.now));
                (state, self.now)
            }
        };
        let end = interrupt.min(until);
        self.spent.idle[self.state * costs.idle.len() + state] += end - self.now;
        self.now = end;
        if end == interrupt {
            self.idle = None;
            self.history.idled(end - since);
            self.handle_interrupt(costs, costs.idle[state].0);
        }
    }

    /// Handles an interrupt after `wake` picoseconds for leaving an idle state.
    fn handle_interrupt(&mut self, costs: &Costs, wake: u64) {
        let cycle = costs.cycle[self.state];
        let mut cost = wake as f64;
        self.softirqd.poll(self.now, self.now > 0 && self.now == self.kernel_until);
        self.kernel_from = self.now;
        if !self.polling {
            self.spent.interrupts += 1;
            self.last_interrupt = self.now;
            cost += costs.interrupt_fixed as f64 + costs.interrupt_cycles * cycle;
        }
        // The poll begins after the handler and also takes the requests that have arrived by then.
        let polled = self.now + cost as u64;
        self.receive(costs, polled);
        let mut seen = Interrupt { at: Time::from_picos(polled), ..Interrupt::default() };
        while seen.received < costs.budget {
            if let Some(request) = self.ring.pop_front() {
                seen.received_bytes += request.request_bytes;
                self.under_way.push_back(Job {
                    at: request.at,
                    response_bytes: request.response_bytes,
                    draw: request.draw,
                });
            } else if take(&mut self.acknowledgements, polled).is_some() {
                seen.received_bytes += ACKNOWLEDGEMENT_BYTES;
            } else {
                break;
            }
            seen.received += 1;
        }
        while let Some(bytes) = take(&mut self.completions, polled) {
            seen.sent += 1;
            seen.sent_bytes += bytes;
        }
        self.spent.segments += u64::from(seen.received);
        self.polling = seen.received == costs.budget;
        let cycles = f64::from(seen.received) * costs.segment_cycles
            + f64::from(seen.sent) * costs.completion_cycles;
        cost += cycles * cycle;
        // At least one picosecond, so that time advances even if all costs are zero.
        self.kernel_until = self.now + (cost as u64).max(1);
        self.unjudged.received += seen.received;
        self.unjudged.received_bytes += seen.received_bytes;
        self.unjudged.sent += seen.sent;
        self.unjudged.sent_bytes += seen.sent_bytes;
        if self.polling {
            return;
        }
        let seen = Interrupt { at: seen.at, ..std::mem::take(&mut self.unjudged) };
        if let Moderation::Driver(rule) = &mut self.moderation {
            let before = rule.period();
            if rule.interrupt(&seen) != before {
                let span = self.now - std::mem::replace(&mut self.period_since, self.now);
                let before = before.as_picos();
                match self.periods.iter_mut().find(|(known, _)| *known == before) {
                    Some((_, sum)) => *sum += span,
                    None => self.periods.push((before, span)),
                }
            }
        }
    }

    fn respond(&mut self, costs: &Costs, job: Job, sink: &mut Sink) {
        self.current = None;
        self.spent.responses += 1;
        let on_link = (f64::from(job.response_bytes) * costs.picos_per_byte) as u64;
        let latency = self.now - job.at + costs.outside + on_link;
        sink.latency.record(latency);
        if let Some(asked) = &mut sink.asked {
            asked.record(latency);
        }
        if let Some(trace) = &mut sink.trace {
            trace.push((job.at, latency));
        }
        self.completions.push_back((self.now + costs.completion_delay, job.response_bytes));
        let segments = job.response_bytes.div_ceil(SEGMENT_BYTES);
        for _ in 0..segments / SEGMENTS_PER_ACKNOWLEDGEMENT {
            self.acknowledgements.push_back((self.now + costs.acknowledgement_delay, 0));
        }
    }
}

/// Takes the first entry of a queue if it is due.
fn take(queue: &mut VecDeque<(u64, u32)>, until: u64) -> Option<u32> {
    let due = queue.front().is_some_and(|(at, _)| *at <= until);
    if due { queue.pop_front().map(|(_, bytes)| bytes) } else { None }
}

/// Returns the time in picoseconds that the application needs for a request in a V/F state.
fn service(costs: &Costs, job: &Job, state: usize) -> u64 {
    let service = &costs.service;
    let varied = 1.0 - service.spread + service.spread * f64::from(job.draw);
    let bytes = service.cycles_per_byte * f64::from(job.response_bytes);
    let cycles = service.cycles * varied + bytes;
    (cycles * costs.cycle[state]) as u64 + service.stall.as_picos()
}
