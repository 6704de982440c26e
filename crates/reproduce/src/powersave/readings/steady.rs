//! Constant rates in sequence.

use wattline_traffic::source::Modulator;

/// Rates in packets per second with their durations in seconds; the last rate continues.
#[derive(Debug, Clone)]
pub(super) struct Stairs {
    steps: std::vec::IntoIter<(f64, f64)>,
    last: f64,
}

impl Stairs {
    pub(super) fn new(steps: Vec<(f64, f64)>) -> Self {
        let last = steps.last().map_or(0.0, |step| step.0);
        Self { steps: steps.into_iter(), last }
    }
}

impl Modulator for Stairs {
    fn next_step(&mut self) -> (f64, f64) {
        self.steps.next().unwrap_or((self.last, 1e3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_rate_continues() {
        let mut stairs = Stairs::new(vec![(5.0, 1.0), (3.0, 2.0)]);
        let taken: Vec<_> = std::iter::repeat_with(|| stairs.next_step()).take(4).collect();
        assert_eq!(taken, [(5.0, 1.0), (3.0, 2.0), (3.0, 1e3), (3.0, 1e3)]);
    }
}
