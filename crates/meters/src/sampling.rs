//! Times of readings, and their actual regularity.

use serde::Serialize;
use wattline_units::{Span, Time};

/// A fixed period whose ticks do not drift: a late reading does not shift later ones, and missed
/// ticks are counted instead of being made up for.
#[derive(Debug, Clone)]
pub struct Ticks {
    period: Span,
    next: Time,
    last: Option<Time>,
    statistics: Statistics,
}

/// Regularity of readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// Ticks with a reading.
    pub taken: u64,
    /// Ticks without a reading.
    pub missed: u64,
    /// Mean time between readings.
    pub mean_period_seconds: f64,
    /// Its standard deviation.
    pub deviation_seconds: f64,
    #[serde(skip)]
    squares: f64,
}

impl Ticks {
    /// Creates ticks from `start` on. A period of zero counts as a nanosecond.
    pub fn new(start: Time, period: Span) -> Self {
        let period = period.max(Span::from_nanos(1));
        Self { period, next: start, last: None, statistics: Statistics::default() }
    }

    /// Returns the time of the next reading.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Records a reading at `now` and sets the next tick: the first of the grid after `now`.
    pub fn taken(&mut self, now: Time) {
        let late = now.since(self.next);
        let missed = late.times(self.period);
        self.statistics.missed = self.statistics.missed.saturating_add(missed);
        self.next = self.next.max(now) + (self.period - late % self.period);
        if let Some(last) = self.last.replace(now) {
            self.statistics.add(now.since(last).as_seconds());
        }
        self.statistics.taken += 1;
    }

    /// Returns the regularity so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }
}

impl Statistics {
    /// Updates the mean by Welford's recurrence; `taken` is the number of intervals so far plus
    /// one.
    fn add(&mut self, seconds: f64) {
        let intervals = self.taken as f64;
        let off = seconds - self.mean_period_seconds;
        self.mean_period_seconds += off / intervals;
        self.squares += off * (seconds - self.mean_period_seconds);
        self.deviation_seconds = (self.squares / intervals).sqrt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn ticks_stay_on_their_grid_and_missed_ones_are_counted() {
        let mut ticks = Ticks::new(at(1000), Span::from_millis(100));
        ticks.taken(at(1000));
        ticks.taken(at(1130));
        assert_eq!(ticks.next(), at(1200), "late, but no tick was missed");
        ticks.taken(at(1455));
        assert_eq!(ticks.next(), at(1500));
        let statistics = ticks.statistics();
        assert_eq!((statistics.taken, statistics.missed), (3, 2));
        // Intervals of 130 and 325 ms.
        assert!((statistics.mean_period_seconds - 0.2275).abs() < 1e-12);
        assert!((statistics.deviation_seconds - 0.0975).abs() < 1e-12);
    }

    #[test]
    fn still_or_leaping_clock_is_survived() {
        let mut ticks = Ticks::new(at(0), Span::ZERO);
        ticks.taken(at(0));
        ticks.taken(at(0));
        ticks.taken(Time::NEVER);
        assert_eq!(ticks.next(), Time::NEVER);
        assert!(ticks.statistics().missed > 0);
    }
}
