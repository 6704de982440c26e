//! Lag of the emulation's threads behind the model.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wattline_units::Span;

/// Lag of a core's thread behind its model.
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

/// Lag of the threads behind the model that they play: hardly any on a machine that has time for
/// them. Lateness is real time, lags of orders are model time.
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

    /// Lists the reasons why figures may show the lag of threads: more than one frame in a hundred
    /// came too late, or some core had gone on for more than 10 us of the model, about two batches,
    /// before an order reached it.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.late_frames * 100 > self.frames {
            let percent = 100.0 * self.late_frames as f64 / self.frames.max(1) as f64;
            reasons.push(format!("{percent:.1} % of the frames came after their core had looked"));
        }
        if self.order_lag_max_seconds > 10e-6 {
            let micros = self.order_lag_max_seconds * 1e6;
            reasons.push(format!("an order reached a core {micros:.0} us of the model too late"));
        }
        reasons
    }

    /// Whether there is such a reason.
    pub fn is_disturbed(&self) -> bool {
        !self.reasons().is_empty()
    }
}
