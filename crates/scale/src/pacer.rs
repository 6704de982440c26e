//! A worker that behaves like one core of a server model.
//!
//! The core itself is the simulator's ([`wattline_cores::Core`]): the same rules determine when it
//! sleeps and wakes, when it takes a batch, and how long that lasts. Here a clock moves it through
//! time instead of a list of packets. The packets are real: at the end of a batch, the packets that
//! the core has served go through the worker's graph and are sent. Model times follow from the
//! model alone, so a thread that wakes late is late once and does not fall behind.

use super::Shared;
use super::frame_queue::FrameQueue;
use super::mailbox::{Accruing, Mailbox, Order, Report, Seen};
use std::sync::Arc;
use std::time::Duration;
use wattline_cores::{Core, Sink, Stop, Watched};
use wattline_dataplane::frame::{BATCH_MAX, Frame};
use wattline_dataplane::port::Waiter;
use wattline_dataplane::worker::{Command, Worker};
use wattline_governor::under_way::UnderWay;
use wattline_policy::CoreSet;
use wattline_units::{Span, Time};

/// Period, in model time, in which latencies are passed to the policy. It is not shorter, because
/// histograms are added up each time.
const LATENCY_PERIOD: Span = Span::from_micros(50);
/// Longest sleep of a thread.
const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// Longest sleep while frames wait for a free chunk, or other cores wait for this one.
const STARVED_WAIT: Duration = Duration::from_millis(1);

/// Brings one core and its worker through model time.
pub struct Pacer {
    shared: Arc<Shared>,
    core: Core,
    sink: Sink,
    /// Queues by port.
    queues: Vec<FrameQueue>,
    /// Orders that are not due yet, by time.
    orders: Vec<(Time, Order)>,
    /// The frequency change in progress.
    frequency: UnderWay,
    active_cores: usize,
    /// Time at which latencies are passed on next.
    latency_due: u64,
    /// Model time that the core has reached, in picoseconds.
    position: u64,
    /// True if frames wait for a free chunk.
    starved: bool,
}

impl Pacer {
    pub(super) fn new(shared: Arc<Shared>, mut core: Core, sink: Sink) -> Self {
        core.rings.iter_mut().for_each(|ring| ring.watch_drops());
        Self {
            queues: (0..core.rings.len()).map(FrameQueue::new).collect(),
            active_cores: shared.platform.cores,
            shared,
            core,
            sink,
            orders: Vec::new(),
            frequency: UnderWay::default(),
            latency_due: 0,
            position: 0,
            starved: false,
        }
    }

    /// Runs until the worker is asked to stop; then frees its frames.
    pub fn run(mut self, worker: &mut Worker, waiter: &mut dyn Waiter) {
        // By default the kernel may wake a thread up to 50 us late, to combine wake-ups.
        if let Err(error) = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1)) {
            tracing::debug!("cannot set the timer slack: {error}");
        }
        let control = worker.control();
        let shared = Arc::clone(&self.shared);
        loop {
            let now = shared.clock.now();
            self.follow_orders(worker, now);
            self.run_to(worker, now.as_picos());
            self.forward(worker);
            self.show();
            match control.current_command() {
                Command::Stop => break,
                Command::Drain if self.is_empty(worker) => break,
                _ if worker.is_exhausted() && self.is_empty(worker) => break,
                _ => {}
            }
            let due = self.next_event(worker);
            let awaited = self.shared.order.as_ref().is_some_and(|o| o.awaits(self.core.number));
            let longest = if self.starved || awaited { STARVED_WAIT } else { LONGEST_WAIT };
            let wait = due.map_or(longest, |due| shared.clock.until(due).min(longest));
            if !wait.is_zero() {
                worker.sleep(waiter, wait);
                if let Some(due) = due.filter(|due| shared.clock.now() >= *due) {
                    self.mailbox().lateness.waited(shared.clock.since(due));
                }
            }
        }
        self.free(worker);
        worker.shut_down();
        self.wake_waiting_cores();
        if let Some(order) = &self.shared.order {
            self.wake(order.forget(self.core.number));
        }
        // Its totals can still be requested: it counts as a core without further packets.
        self.shared.mailboxes[self.core.number].retire(self.core, self.sink);
    }

    fn mailbox(&self) -> &Mailbox {
        &self.shared.mailboxes[self.core.number]
    }

    /// Puts frames that arrive before `until` into the core's rings, and no later ones: a decision
    /// may still steer those to another core.
    fn take_in(&mut self, worker: &mut Worker, until: u64) {
        let (ports, pool) = worker.ports();
        self.starved = false;
        let order = self.shared.order.as_deref();
        let queues = self.queues.iter_mut().zip(&mut self.core.rings);
        for (number, (port, (queue, ring))) in ports.iter_mut().zip(queues).enumerate() {
            ring.compact();
            let mut frames = [Frame::default(); BATCH_MAX];
            loop {
                let stamp = port.next_arrival();
                if stamp.is_some_and(|stamp| stamp.as_picos() >= until) {
                    break;
                }
                // Each frame has its own time stamp. Without time stamps, they arrived just now.
                let room = if stamp.is_some() { 1 } else { BATCH_MAX };
                let count = port.receive(pool, &mut frames[..room]);
                for frame in &frames[..count] {
                    let at = stamp.unwrap_or_else(|| self.shared.clock.now());
                    let place = order.and_then(|order| {
                        order.take(number, pool.frame_bytes(frame), self.core.number)
                    });
                    let at = queue.enqueue(ring, *frame, at, place);
                    let mailbox = &self.shared.mailboxes[self.core.number];
                    mailbox.lateness.frame(at.as_picos() < self.position);
                }
                if count < room {
                    self.starved |= stamp.is_some();
                    break;
                }
            }
        }
    }

    /// Executes the orders that are due by `now`, each at its time.
    fn follow_orders(&mut self, worker: &mut Worker, now: Time) {
        self.take_orders();
        while let Some((at, _)) = self.orders.first()
            && *at <= now
        {
            let (at, order) = self.orders.remove(0);
            self.run_to(worker, at.as_picos());
            self.follow(at, order);
        }
    }

    fn take_orders(&mut self) {
        let before = self.orders.len();
        self.shared.mailboxes[self.core.number].take(&mut self.orders);
        if self.orders.len() > before {
            // A stable sort: orders of one moment keep their order.
            self.orders.sort_by_key(|(at, _)| *at);
        }
    }

    fn follow(&mut self, at: Time, order: Order) {
        let picos = at.as_picos().max(self.position);
        match order {
            Order::Set { setting, active, batch, moderation, active_cores } => {
                let lag = Span::from_picos(picos - at.as_picos());
                self.mailbox().lateness.order(lag);
                self.active_cores = active_cores;
                self.take_costs(self.core.costs.frequency);
                let moderation = moderation.into_iter();
                self.core.set(picos, setting, active, batch, moderation, &mut self.sink);
            }
            Order::Frequency { takes, index } => {
                // The change takes effect by model time, even if this thread wakes late.
                self.frequency.ask(at, takes, index);
            }
            Order::Report { number } => self.report(picos, number),
        }
    }

    fn take_costs(&mut self, frequency: usize) {
        self.core.set_costs(self.shared.costs(frequency, self.active_cores));
    }

    /// Advances the core to `until`, event by event, and asks the policy where it wants to be
    /// asked.
    fn run_to(&mut self, worker: &mut Worker, until: u64) {
        loop {
            let due = self.frequency.due().map(|due| due.as_picos().max(self.position));
            let due = due.filter(|due| *due <= until);
            let stage = due.unwrap_or(until);
            // An event at `until` itself belongs to the next call.
            let step = self.core_event(worker).map_or(stage, |at| stage.min(at.saturating_add(1)));
            self.take_in(worker, step);
            let watched = self.mailbox().watched();
            match self.core.advance(step, watched, &mut self.sink) {
                Some(stop) => self.ask(stop),
                None => {
                    self.position = self.position.max(step);
                    if step < stage {
                        continue;
                    }
                    let Some(due) = due else { return };
                    self.core.book(due, &mut self.sink);
                    let takes = self.shared.transition;
                    if let Some(index) = self.frequency.take(Time::from_picos(due), takes) {
                        self.take_costs(index);
                    }
                }
            }
        }
    }

    /// Asks the policy at once. The core continues only with the answer, as if the policy ran on
    /// it. The decision takes effect at this moment of model time.
    fn ask(&mut self, stop: Stop) {
        self.position = self.position.max(stop.at());
        self.core.asked(stop);
        let core = self.core.number;
        let trigger = stop.trigger(core, self.shared.platform.cores);
        self.show();
        let at = Time::from_picos(stop.at());
        self.shared.trigger(at, trigger, Some(core));
        self.take_orders();
        while self.orders.first().is_some_and(|(time, _)| *time <= at) {
            let (time, order) = self.orders.remove(0);
            self.follow(time, order);
        }
    }

    /// Sends the frames that the core has served through the graph. Frames wait if another core
    /// still has earlier frames of the same table entry.
    fn forward(&mut self, worker: &mut Worker) {
        let mut any = false;
        let order = self.shared.order.as_deref();
        for (queue, ring) in self.queues.iter_mut().zip(&mut self.core.rings) {
            any |= queue.serve(ring, order, worker.pool());
        }
        let real = Time::ZERO + Span::from(self.shared.clock.real());
        loop {
            let queues = &mut self.queues;
            let received = worker.step_with(real, |port, _, _, frames| {
                queues.get_mut(port).map_or(0, |queue| queue.take_ready(frames))
            });
            if !any || received == 0 {
                break;
            }
        }
        self.wake_waiting_cores();
        let core = self.core.number;
        if let Some(order) = &self.shared.order
            && order.awaits(core)
        {
            // Ports whose frames have time stamps do not support this query, and do not need it.
            let found_none = !self.starved && worker.ports().0.iter_mut().all(|p| p.pending() == 0);
            self.wake(order.look(core, found_none));
        }
    }

    /// Wakes cores that waited for this one, and continues a rewrite of the table that did.
    fn wake(&self, cores: CoreSet) {
        if !cores.is_empty() {
            self.shared.resume();
            cores.iter().filter_map(|core| self.shared.mailboxes.get(core)).for_each(Mailbox::wake);
        }
    }

    /// Wakes the cores that waited for frames that have now left.
    fn wake_waiting_cores(&mut self) {
        let Some(order) = &self.shared.order else { return };
        for queue in &mut self.queues {
            queue.report_departures(order, |core| {
                if let Some(mailbox) = self.shared.mailboxes.get(core) {
                    mailbox.wake();
                }
            });
        }
    }

    /// Publishes the core's state for the governor and statistics.
    fn show(&mut self) {
        let at = self.position;
        self.core.book(at, &mut self.sink);
        self.core.admit(at);
        let spent = self.core.spent.totals;
        let idle_state = self.core.idle_state(at);
        let accruing = match (idle_state, self.core.is_spinning()) {
            (Some(_), _) => Accruing::Asleep,
            (None, true) => Accruing::Empty,
            (None, false) => Accruing::Useful,
        };
        if let Some(asked) = &mut self.sink.asked
            && at >= self.latency_due
            && asked.packets() > 0
        {
            self.latency_due = at + LATENCY_PERIOD.as_picos();
            self.shared.mailboxes[self.core.number].show_latency(asked);
        }
        let mut seen = self.shared.mailboxes[self.core.number].seen();
        let Seen { at: seen_at, view, accruing: was, queues } = &mut *seen;
        let booked = spent.useful + spent.empty + spent.idle;
        (*seen_at, *was) = (Time::from_picos(booked), accruing);
        *view = self.core.view(at, &self.shared.platform.frequencies);
        for (shown, ring) in queues.iter_mut().zip(&self.core.rings) {
            *shown = ring.view(at);
        }
    }

    fn report(&mut self, at: u64, number: u64) {
        self.shared.report(Report::of(&mut self.core, &mut self.sink, at, number));
    }

    /// Returns the time of the core's next event, as far as it is known.
    fn core_event(&mut self, worker: &mut Worker) -> Option<u64> {
        let mut next = self.core.next_event();
        let mut or = |at: Option<u64>| next = next.into_iter().chain(at).min();
        if self.core.awaits_packets() && !self.starved {
            let (ports, _) = worker.ports();
            or(ports.iter_mut().filter_map(|port| port.next_arrival()).map(Time::as_picos).min());
        }
        let watched = self.mailbox().watched();
        if let Watched { empty_polls: Some(after), .. } = watched {
            or(self.core.empty_polls_due(after));
        }
        or(self.core.silence_due(&watched));
        next
    }

    /// Returns the time of the next event or order, as far as it is known.
    fn next_event(&mut self, worker: &mut Worker) -> Option<Time> {
        let others = self.frequency.due().map(Time::as_picos).into_iter();
        let others = others.chain(self.orders.first().map(|(at, _)| at.as_picos())).min();
        let next = self.core_event(worker).into_iter().chain(others).min();
        next.map(|at| Time::from_picos(at.saturating_add(1)))
    }

    fn is_empty(&self, worker: &mut Worker) -> bool {
        let (ports, _) = worker.ports();
        self.queues.iter().all(FrameQueue::is_empty)
            && ports.iter_mut().all(|port| port.pending() == 0)
    }

    /// Frees frames that were not served, as if they still waited in the ports.
    fn free(&mut self, worker: &mut Worker) {
        self.queues.iter_mut().for_each(|queue| queue.free(worker.pool()));
    }
}
