//! A token bucket: a rate and a burst.

use wattline_units::Time;

const PICOS_PER_SECOND: u64 = 1_000_000_000_000;

/// Lets `rate` events per second pass on average and at most `burst` at once.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    /// Time per token in picoseconds.
    interval: u64,
    /// Time of a full bucket in picoseconds.
    full: u64,
    /// Time saved up in picoseconds.
    saved: u64,
    last: Time,
    refills: bool,
}

impl TokenBucket {
    /// Makes a full bucket. A rate of zero lets only the first burst pass.
    pub fn new(rate: u32, burst: u32) -> Self {
        let interval = PICOS_PER_SECOND.checked_div(u64::from(rate)).unwrap_or(1);
        let full = interval.saturating_mul(u64::from(burst));
        Self { interval, full, saved: full, last: Time::ZERO, refills: rate > 0 }
    }

    /// Makes a full bucket with a part of the rate and of the burst, given as divisors; at least
    /// one token fits into it.
    #[must_use]
    pub fn part(&self, rate: u32, burst: u32) -> Self {
        let tokens = self.full / self.interval.max(1) / u64::from(burst.max(1));
        let interval = self.interval.saturating_mul(u64::from(rate.max(1)));
        let full = interval.saturating_mul(tokens.max(1));
        Self { interval, full, saved: full, ..self.clone() }
    }

    /// Takes a token; true if there was one, so that the event may pass now.
    pub fn take(&mut self, now: Time) -> bool {
        let elapsed = now.since(self.last).as_picos();
        self.last = now;
        if self.refills {
            self.saved = self.saved.saturating_add(elapsed).min(self.full);
        }
        let pass = self.saved >= self.interval;
        if pass {
            self.saved -= self.interval;
        }
        pass
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_units::Span;

    #[test]
    fn burst_then_rate() {
        let mut bucket = TokenBucket::new(1000, 5);
        let start = Time::ZERO + Span::from_millis(7);
        assert_eq!((0..20).filter(|_| bucket.take(start)).count(), 5);
        assert!(!bucket.take(start + Span::from_micros(999)));
        assert!(bucket.take(start + Span::from_micros(1000)));
        // A long pause saves up no more than one burst.
        let later = start + Span::from_millis(1000);
        assert_eq!((0..20).filter(|_| bucket.take(later)).count(), 5);
    }

    /// The bucket works after twenty years as on the first day.
    #[test]
    fn a_router_that_runs_for_years_still_refills() {
        let mut bucket = TokenBucket::new(1000, 5);
        let start = Time::ZERO + Span::from_seconds(20.0 * 365.0 * 86_400.0);
        assert_eq!((0..20).filter(|_| bucket.take(start)).count(), 5);
        assert!(!bucket.take(start + Span::from_micros(999)));
        assert!(bucket.take(start + Span::from_micros(1000)));
    }

    #[test]
    fn a_part_has_its_share_of_rate_and_burst_and_room_for_one() {
        let start = Time::ZERO + Span::from_millis(7);
        let mut part = TokenBucket::new(1000, 50).part(10, 5);
        assert_eq!((0..20).filter(|_| part.take(start)).count(), 10);
        assert!(!part.take(start + Span::from_micros(9_999)));
        assert!(part.take(start + Span::from_micros(10_000)));
        let mut least = TokenBucket::new(1000, 2).part(1, 100);
        assert_eq!((0..20).filter(|_| least.take(start)).count(), 1);
    }

    #[test]
    fn without_a_rate_there_is_one_burst_and_no_more() {
        let mut bucket = TokenBucket::new(0, 5);
        assert_eq!((0..20).filter(|_| bucket.take(Time::ZERO)).count(), 5);
        assert!(!bucket.take(Time::ZERO + Span::from_millis(3_600_000)));
    }
}
