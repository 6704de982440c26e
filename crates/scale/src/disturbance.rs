//! Lag of the emulation's threads behind the model.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wattline_units::Span;

pub use wattline_status::Disturbance;

/// Lag of a core's thread behind its model.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    waits: AtomicU64,
    late_nanos: AtomicU64,
    latest_nanos: AtomicU64,
    /// Frames that arrived after the core had polled for them.
    late_frames: AtomicU64,
    frames: AtomicU64,
    /// Orders that arrived after their time.
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

    /// Adds the counts to a summary, whose means are sums until it is complete.
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

/// Returns the sum over all threads.
pub(super) fn sum_of<'a>(threads: impl Iterator<Item = &'a Lateness>) -> Disturbance {
    let mut sum = Disturbance::default();
    threads.for_each(|lateness| lateness.add_to(&mut sum));
    sum.lateness_mean_seconds /= sum.waits.max(1) as f64;
    sum.order_lag_mean_seconds /= sum.orders.max(1) as f64;
    sum
}
