//! The kernel's choice of an idle state: a model of the menu governor.

/// Number of idle times kept (Linux, drivers/cpuidle/governors/menu.c, `INTERVALS`).
const INTERVALS: usize = 8;
/// Standard deviation below which the idle times count as equal, in picoseconds.
const CALM_PICOS: u64 = 20_000_000;

/// Predicts the next idle time of a core from the last ones.
///
/// This is the kernel's rule for interrupts that no timer announces ("typical interval"). If the
/// last eight idle times spread little (a deviation of at most 20 us, or a sixth of the mean), the
/// prediction is their mean. Otherwise the longest is left out and the rest tested again, down to
/// six. If these spread as well, their mean is taken, since the model has no timers to ask.
#[derive(Debug, Clone)]
pub(super) struct IdleHistory {
    intervals: [u64; INTERVALS],
    next: usize,
}

impl IdleHistory {
    pub fn new() -> Self {
        Self { intervals: [0; INTERVALS], next: 0 }
    }

    /// Records an idle time of the core.
    #[inline]
    pub fn idled(&mut self, picos: u64) {
        self.intervals[self.next] = picos;
        self.next = (self.next + 1) % INTERVALS;
    }

    /// Returns the predicted idle time in picoseconds.
    pub fn predict(&self) -> u64 {
        let mut limit = u64::MAX;
        let mut mean = 0;
        for _ in 0..=2 {
            let (mut sum, mut count, mut most) = (0u64, 0u64, 0u64);
            for interval in self.intervals.iter().copied().filter(|interval| *interval < limit) {
                sum = sum.saturating_add(interval);
                count += 1;
                most = most.max(interval);
            }
            if count == 0 {
                break;
            }
            mean = sum / count;
            let kept = self.intervals.iter().filter(|interval| **interval < limit);
            let square: f64 = kept.map(|i| (*i as f64 - mean as f64).powi(2)).sum();
            let deviation = (square / count as f64).sqrt();
            if deviation <= CALM_PICOS as f64 || mean as f64 > 6.0 * deviation {
                break;
            }
            limit = most;
        }
        mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(micros: &[u64]) -> u64 {
        let mut history = IdleHistory::new();
        micros.iter().for_each(|micros| history.idled(micros * 1_000_000));
        history.predict() / 1_000_000
    }

    #[test]
    fn calm_idle_times_give_their_mean_and_outliers_are_left_out() {
        assert_eq!(after(&[100, 110, 90, 100, 100, 110, 90, 100]), 100);
        assert_eq!(after(&[100, 110, 90, 5_000, 100, 110, 90, 100]), 100);
        assert_eq!(after(&[100, 110, 90, 5_000, 4_000, 110, 90, 100]), 100);
        // Three outliers are too many, so the mean of the remaining times is taken.
        assert!(after(&[100, 110, 90, 5_000, 4_000, 3_000, 90, 100]) > 400);
    }
}
