//! Messages between a governor and an emulated core.

use super::disturbance::Lateness;
use std::sync::{Mutex, MutexGuard, PoisonError};
use wattline_cores::{AwakeLog, Core, Counts, Sink, Spent, Watched};
use wattline_policy::Latency;
use wattline_policy::{AskAgain, CoreSetting, CoreView, QueueView};
use wattline_ports::waiter::Waker;
use wattline_units::{Span, Time};

/// An order for a core at a model time.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// Use these settings from now on.
    Set {
        setting: CoreSetting,
        active: bool,
        batch: u32,
        /// Moderation by port, in picoseconds.
        moderation: Vec<u64>,
        /// Number of active cores of the machine, which share its memory.
        active_cores: usize,
    },
    /// Run at this frequency after the transition, instead of an earlier requested one.
    Frequency { takes: Span, index: usize },
    /// Report the work up to now.
    Report { number: u64 },
}

/// Work of a core up to a model time.
#[derive(Debug)]
pub(super) struct Report {
    pub core: usize,
    pub number: u64,
    pub spent: Spent,
    pub counts: Counts,
    pub arrivals: u64,
    pub drops: u64,
    /// Latencies since the last report.
    pub latency: Latency,
    pub awake: AwakeLog,
}

impl Report {
    /// Reports a core up to a time, in picoseconds, that it has reached.
    pub fn of(core: &mut Core, sink: &mut Sink, at: u64, number: u64) -> Self {
        core.book(at, sink);
        core.admit(at);
        let mut awake = AwakeLog::new(core.number + 1);
        awake.take_from(core.number, &mut sink.awake);
        Self {
            core: core.number,
            number,
            spent: core.spent.clone(),
            counts: core.counts,
            arrivals: core.rings.iter().map(|ring| ring.arrivals).sum(),
            drops: core.rings.iter().map(|ring| ring.drops).sum(),
            latency: sink.latency.take(),
            awake,
        }
    }
}

/// Last report of a core.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub at: Time,
    pub view: CoreView,
    pub accruing: Accruing,
    /// Queues by port.
    pub queues: Vec<QueueView>,
}

/// Kind of time that a core accrues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Accruing {
    #[default]
    Asleep,
    Useful,
    Empty,
}

impl Seen {
    /// Extrapolates the report to a later time, which the core may not have reached yet.
    pub fn view_at(&self, now: Time) -> CoreView {
        let passed = now.since(self.at);
        let mut view = self.view;
        match self.accruing {
            Accruing::Asleep => view.asleep += passed,
            Accruing::Useful => view.useful += passed,
            Accruing::Empty => view.empty += passed,
        }
        view
    }
}

/// The mailbox of one core.
#[derive(Debug)]
pub(super) struct Mailbox {
    waker: Waker,
    orders: Mutex<Vec<(Time, Order)>>,
    seen: Mutex<Seen>,
    /// Latencies that the policy has not seen yet, if it uses them.
    latency: Mutex<Option<Latency>>,
    /// Events of this core at which the policy wants to be asked.
    watched: Mutex<Watched>,
    pub lateness: Lateness,
    /// The core of a worker that has ended.
    retired: Mutex<Option<(Core, Sink)>>,
}

impl Mailbox {
    pub fn new(waker: Waker, ports: usize) -> Self {
        let queues = vec![QueueView::default(); ports];
        Self {
            waker,
            orders: Mutex::default(),
            seen: Mutex::new(Seen { queues, ..Seen::default() }),
            latency: Mutex::new(None),
            watched: Mutex::new(Watched::NOT),
            lateness: Lateness::default(),
            retired: Mutex::default(),
        }
    }

    /// Gives an order, without waking the core for it.
    pub fn give(&self, at: Time, order: Order) {
        // A retired core would never take it.
        if self.retired().is_none() {
            self.orders().push((at, order));
        }
    }

    /// Keeps the core of a worker that ends.
    pub fn retire(&self, core: Core, sink: Sink) {
        *self.retired() = Some((core, sink));
    }

    /// Returns the report of a core whose worker has ended.
    pub fn report_retired(&self, at: Time, number: u64) -> Option<Report> {
        let mut retired = self.retired();
        let (core, sink) = retired.as_mut()?;
        core.advance(at.as_picos(), Watched::NOT, sink);
        Some(Report::of(core, sink, at.as_picos(), number))
    }

    /// Wakes the core's thread.
    pub fn wake(&self) {
        self.waker.wake();
    }

    /// Moves new orders behind those in `orders`.
    pub fn take(&self, orders: &mut Vec<(Time, Order)>) {
        orders.append(&mut self.orders());
    }

    pub fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands latencies over to the policy.
    pub fn show_latency(&self, latency: &mut Latency) {
        let mut shown = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *shown {
            Some(shown) => shown.add(latency),
            none => *none = Some(latency.clone()),
        }
        latency.reset();
    }

    /// Adds the latencies handed over since the last call.
    pub fn take_latency(&self, sum: &mut Latency) {
        let mut shown = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shown) = shown.as_mut().filter(|shown| shown.packets() > 0) {
            sum.add(shown);
            shown.reset();
        }
    }

    fn retired(&self) -> MutexGuard<'_, Option<(Core, Sink)>> {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn orders(&self) -> MutexGuard<'_, Vec<(Time, Order)>> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the events of core number `core` at which the policy wants to be asked. Returns true if
    /// they changed.
    pub fn watch(&self, core: usize, ask: &AskAgain) -> bool {
        let wanted = Watched::by(ask, core);
        std::mem::replace(&mut *self.watched_now(), wanted) != wanted
    }

    pub fn watched(&self) -> Watched {
        *self.watched_now()
    }

    fn watched_now(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
