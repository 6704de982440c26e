//! Leaps that return at even distances: when the next one comes.
//!
//! What sends by a clock (polls, frames, jobs) makes the load leap once a period. Such a leap is no surprise:
//! its cores wake before it comes, and no packet waits for them.

/// So many distances in a row have to agree: where leaps come at random, that is chance once in some thousands.
const AGREED: u32 = 2;
/// A leap may come so many seconds too early or too late, and so many times the mean difference so far.
const LOOSE: f64 = 50e-6;
const SPREADS: f64 = 3.0;
/// Weight of the last distance.
const WEIGHT: f64 = 0.25;
/// Being ready may take this share of a period.
const OF_PERIOD: f64 = 0.05;

/// Distances of leaps, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rhythm {
    last: Option<f64>,
    period: f64,
    /// Mean difference between a distance and the period.
    spread: f64,
    /// Distances in a row that agreed.
    agreed: u32,
}

/// Seconds since the start between which the next leap is expected.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Expected {
    pub from: f64,
    pub until: f64,
}

impl Rhythm {
    /// Takes the time of a leap.
    pub fn leaps(&mut self, seconds: f64) {
        let Some(last) = self.last.replace(seconds) else { return };
        let distance = seconds - last;
        let differs = (distance - self.period).abs();
        if differs <= self.loose() {
            self.period += WEIGHT * (distance - self.period);
            self.spread += WEIGHT * (differs - self.spread);
            self.agreed = self.agreed.saturating_add(1);
        } else {
            (self.period, self.spread, self.agreed) = (distance, 0.0, 0);
        }
    }

    /// The expected leap did not come.
    pub fn fails(&mut self) {
        self.agreed = 0;
    }

    /// When the next leap is expected, if cores need `lead` seconds to be ready for it.
    pub fn next(&self, lead: f64) -> Option<Expected> {
        let (loose, last) = (self.loose(), self.last?);
        let pays = lead + 2.0 * loose <= OF_PERIOD * self.period;
        (self.agreed >= AGREED && pays).then_some(Expected {
            from: last + self.period - loose,
            until: last + self.period + loose,
        })
    }

    fn loose(&self) -> f64 {
        LOOSE + SPREADS * self.spread
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaps_at_even_distances_are_expected_and_others_are_not() {
        let mut rhythm = Rhythm::default();
        let mut at = 0.0;
        for leap in 0..4 {
            assert_eq!(rhythm.next(1e-4), None, "after {leap}");
            at = 20e-3 * f64::from(leap) + 10e-6 * f64::from(leap % 2);
            rhythm.leaps(at);
        }
        let expected = rhythm.next(1e-4).unwrap();
        assert!(expected.from < at + 20e-3 && at + 20e-3 < expected.until);
        assert!(expected.until - expected.from < 0.2e-3);
        assert_eq!(rhythm.next(1e-3), None, "being ready would take too long");
        rhythm.fails();
        assert_eq!(rhythm.next(1e-4), None);
        let mut random = Rhythm::default();
        for at in [0.0, 21e-3, 30e-3, 55e-3, 76e-3, 97e-3, 99e-3] {
            random.leaps(at);
            assert_eq!(random.next(1e-4), None);
        }
    }

    #[test]
    fn a_clock_that_shakes_is_waited_for_longer() {
        let mut rhythm = Rhythm::default();
        for leap in 0..12 {
            rhythm.leaps(20e-3 * f64::from(leap) + 20e-6 * f64::from(leap % 2));
        }
        let expected = rhythm.next(1e-4).unwrap();
        let width = expected.until - expected.from;
        assert!((0.15e-3..0.3e-3).contains(&width), "{width}");
    }
}
