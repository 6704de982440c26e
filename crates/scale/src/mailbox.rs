//! What a governor and an emulated core tell each other.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wattline_cores::{AwakeLog, Core, Counts, Latency, Sink, Spent, Watched};
use wattline_policy::{AskAgain, CoreSetting, CoreView, QueueView};
use wattline_ports::waiter::Waker;
use wattline_units::{Span, Time};

/// Something for a core to do at a model time.
#[derive(Debug, Clone)]
pub(super) enum Order {
    /// Run like this from now on.
    Set {
        setting: CoreSetting,
        active: bool,
        batch: u32,
        /// By port, in picoseconds.
        moderation: Vec<u64>,
        /// Active cores of the machine: they share its memory.
        active_cores: usize,
    },
    /// Run at this frequency from `due` on, instead of what was asked for before.
    Frequency { takes: Span, index: usize },
    /// Say what was done up to now.
    Report { number: u64 },
}

/// What a core did up to a model time.
#[derive(Debug)]
pub(super) struct Report {
    pub core: usize,
    pub number: u64,
    pub spent: Spent,
    pub counts: Counts,
    pub arrivals: u64,
    pub drops: u64,
    /// Since the last report.
    pub latency: Latency,
    pub awake: AwakeLog,
}

impl Report {
    /// Of a core up to a time, in picoseconds, that it has come to.
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

/// How a core was seen last.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    pub at: Time,
    pub view: CoreView,
    pub accruing: Accruing,
    /// By port.
    pub queues: Vec<QueueView>,
}

/// What a core's time goes into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Accruing {
    #[default]
    Asleep,
    Useful,
    Empty,
}

impl Seen {
    /// What can be said of it at a later time, at which it may not have looked around yet.
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
    /// Latencies that the policy has not seen yet, where it looks at them.
    latency: Mutex<Option<Latency>>,
    /// When the policy wants to be asked about it.
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
        // Nobody would ever take it.
        if self.retired().is_none() {
            self.orders().push((at, order));
        }
    }

    /// Keeps the core of a worker that ends.
    pub fn retire(&self, core: Core, sink: Sink) {
        *self.retired() = Some((core, sink));
    }

    /// The report of a core whose worker has ended.
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

    /// Moves the orders given meanwhile behind those in `orders`.
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

    /// Adds what was handed over since the last call.
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

    /// Says when the policy wants to be asked about core number `core`; true when that is news.
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

/// How far a core's thread lagged behind its model.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    waits: AtomicU64,
    late_nanos: AtomicU64,
    latest_nanos: AtomicU64,
    /// Frames that came after the core had looked for them.
    late_frames: AtomicU64,
    frames: AtomicU64,
    /// Orders that came after the time for which they were meant.
    late_orders: AtomicU64,
    orders: AtomicU64,
    order_lag_picos: AtomicU64,
    longest_order_lag_picos: AtomicU64,
}

impl Lateness {
    pub fn waited(&self, late: Duration) {
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.late_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.latest_nanos.fetch_max(nanos, Ordering::Relaxed);
    }

    pub fn frame(&self, late: bool) {
        self.frames.fetch_add(1, Ordering::Relaxed);
        self.late_frames.fetch_add(u64::from(late), Ordering::Relaxed);
    }

    pub fn order(&self, lag: Span) {
        self.orders.fetch_add(1, Ordering::Relaxed);
        if lag > Span::ZERO {
            self.late_orders.fetch_add(1, Ordering::Relaxed);
            self.order_lag_picos.fetch_add(lag.as_picos(), Ordering::Relaxed);
            self.longest_order_lag_picos.fetch_max(lag.as_picos(), Ordering::Relaxed);
        }
    }

    /// Adds what was counted to a summary; its means are sums meanwhile.
    fn add_to(&self, sum: &mut Disturbance) {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        sum.waits += get(&self.waits);
        sum.lateness_mean_seconds += get(&self.late_nanos) as f64 * 1e-9;
        sum.lateness_max_seconds =
            sum.lateness_max_seconds.max(get(&self.latest_nanos) as f64 * 1e-9);
        sum.frames += get(&self.frames);
        sum.late_frames += get(&self.late_frames);
        sum.orders += get(&self.orders);
        sum.late_orders += get(&self.late_orders);
        sum.order_lag_mean_seconds += get(&self.order_lag_picos) as f64 * 1e-12;
        let longest = get(&self.longest_order_lag_picos) as f64 * 1e-12;
        sum.order_lag_max_seconds = sum.order_lag_max_seconds.max(longest);
    }
}

/// How far the threads lagged behind the model that they play: on a machine that has time for
/// them, hardly. Lateness is real time, lags of orders are model time.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize)]
pub struct Disturbance {
    /// Waits of all threads for a point of time.
    pub waits: u64,
    /// Mean time by which a thread woke too late.
    pub lateness_mean_seconds: f64,
    /// Longest time by which a thread woke too late.
    pub lateness_max_seconds: f64,
    /// Frames received.
    pub frames: u64,
    /// Frames that came after the core had looked for them.
    pub late_frames: u64,
    /// Orders to cores.
    pub orders: u64,
    /// Orders that a core got after it had gone on beyond the time for which they were meant.
    pub late_orders: u64,
    /// Mean time, over all orders, by which it had gone on.
    pub order_lag_mean_seconds: f64,
    /// Longest time by which it had gone on.
    pub order_lag_max_seconds: f64,
}

impl Disturbance {
    /// The sum over all threads.
    pub(super) fn of<'a>(threads: impl Iterator<Item = &'a Lateness>) -> Self {
        let mut sum = Self::default();
        threads.for_each(|lateness| lateness.add_to(&mut sum));
        sum.lateness_mean_seconds /= sum.waits.max(1) as f64;
        sum.order_lag_mean_seconds /= sum.orders.max(1) as f64;
        sum
    }

    /// Whether the threads lagged so far behind the model that figures may show it: more than
    /// one frame in a hundred was there too late, or some core had gone on for more than 10 us
    /// of the model, about two batches, before an order reached it.
    pub fn is_disturbed(&self) -> bool {
        self.late_frames * 100 > self.frames || self.order_lag_max_seconds > 10e-6
    }
}
