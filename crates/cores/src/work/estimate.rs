//! The queue estimator of a core: each batch and each empty pass is counted once, also if the core
//! stops at it for the policy and continues later.

use wattline_policy::{QueueEstimator, Streaks};
use wattline_units::Time;

#[derive(Debug)]
pub(super) struct Estimate {
    estimator: QueueEstimator,
    ports: usize,
    /// True if the estimator counts.
    on: bool,
    /// Outcome of the batch that is about to be taken; `None` before it is counted.
    batch: Option<Option<bool>>,
    /// Number of ports for which the present empty pass has been counted.
    passed: usize,
}

impl Estimate {
    pub fn new(ports: usize) -> Self {
        let estimator = QueueEstimator::new(ports);
        Self { estimator, ports, on: false, batch: None, passed: 0 }
    }

    /// Counts by the policy's request from now on.
    pub fn follow(&mut self, streaks: Option<&Streaks>, now: u64) {
        let counts = streaks.filter(|streaks| !self.on || streaks.rule != *self.estimator.rule());
        if let Some(streaks) = counts {
            self.estimator.start(Time::from_picos(now), streaks.rule);
        }
        self.on = streaks.is_some();
    }

    /// Restarts after a silence.
    pub fn restart(&mut self, now: u64) {
        self.estimator.restart(Time::from_picos(now));
    }

    /// Returns the time from which the core counts as silent.
    pub fn silent_at(&self) -> u64 {
        self.estimator.silent_at().as_picos()
    }

    /// Counts the batch that is about to be taken.
    #[inline]
    pub fn batch(&mut self, now: u64, port: usize, found: usize, taken: u32) -> Option<bool> {
        let Self { estimator, batch, .. } = self;
        let found = found.min(u32::MAX as usize) as u32;
        *batch.get_or_insert_with(|| estimator.batch(Time::from_picos(now), port, found, taken))
    }

    /// Notes that the batch is taken.
    #[inline]
    pub fn batch_begins(&mut self) {
        self.batch = None;
    }

    /// Counts an empty pass, up to the first streak at which to stop.
    pub fn empty_pass(&mut self, now: u64, streaks: &Streaks) -> Option<(usize, bool)> {
        while self.passed < self.ports {
            let port = self.passed;
            self.passed += 1;
            let event = self.estimator.empty_pass(Time::from_picos(now), port);
            if let Some(above) = event.filter(|above| streaks.asks(*above)) {
                return Some((port, above));
            }
        }
        None
    }

    /// Notes that the pass has been counted for all ports.
    pub fn pass_ends(&mut self) {
        self.passed = 0;
    }

    /// Returns true if the core has stopped in the middle of such a pass.
    pub fn is_in_empty_pass(&self) -> bool {
        self.passed > 0
    }
}
