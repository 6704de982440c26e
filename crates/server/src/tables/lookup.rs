//! The search of Co-PI's decision engine: the least power among the points that are fast enough.

use super::{ProfilePoint, ProfileTables};

/// A point that was chosen, by its indices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Index of the frequency.
    pub frequency: usize,
    /// Index of the period.
    pub period: usize,
    /// What it comes to at the load.
    pub point: ProfilePoint,
}

impl ProfileTables {
    /// What a point comes to at a load between those that were profiled; `None` where that is not
    /// known.
    ///
    /// Between two loads both figures are interpolated in a straight line. Where the lower one
    /// was not profiled, those of the upper count: more load is never faster. Where one of both was
    /// not sustained, nothing between them is. Below the least load its figures count. Beyond the greatest nothing is known.
    pub fn at(&self, load: f64, frequency: usize, period: usize) -> Option<ProfilePoint> {
        self.between(load, |index| self.point(index, frequency, period))
    }

    /// The target at a load: the tail latency under the fastest frequency with the driver's own
    /// moderation, in seconds. Between loads as [`Self::at`].
    pub fn target(&self, load: f64) -> Option<f64> {
        self.between(load, |index| self.default_point(index)).map(|point| point.latency_seconds)
    }

    fn between(
        &self,
        load: f64,
        of: impl Fn(usize) -> Option<ProfilePoint>,
    ) -> Option<ProfilePoint> {
        // Also refuses what is no number.
        if load.is_nan() || load < 0.0 {
            return None;
        }
        let upper = self.loads.iter().position(|known| *known >= load)?;
        let above = of(upper)?;
        let Some(lower) = upper.checked_sub(1) else { return Some(above) };
        let Some(below) = of(lower) else { return Some(above) };
        let (from, to) = (self.loads[lower], self.loads[upper]);
        if load == to {
            return Some(above);
        }
        let weight = (load - from) / (to - from);
        let mix = |below: f64, above: f64| {
            // Infinite where one end is: a difference of two of them would be no number.
            if below.is_infinite() { below } else { below + (above - below) * weight }
        };
        Some(ProfilePoint {
            latency_seconds: mix(below.latency_seconds, above.latency_seconds),
            power_watts: mix(below.power_watts, above.power_watts),
        })
    }

    /// The point of least power whose latency, times `correction`, is within `target` seconds;
    /// `None` where there is none. Of points of equal power the faster answer wins, then the
    /// higher frequency, then the longer period. `frequency` looks at one frequency alone.
    pub fn choose(
        &self,
        load: f64,
        target: f64,
        correction: f64,
        frequency: Option<usize>,
    ) -> Option<Choice> {
        let frequencies = match frequency {
            Some(one) => one..(one + 1).min(self.frequencies.len()),
            None => 0..self.frequencies.len(),
        };
        let mut best: Option<Choice> = None;
        for frequency in frequencies {
            for period in 0..self.periods.len() {
                let Some(point) = self.at(load, frequency, period) else { continue };
                if !is_feasible(&point, target, correction) {
                    continue;
                }
                let better = best.as_ref().is_none_or(|best| {
                    let by_power = point.power_watts.total_cmp(&best.point.power_watts);
                    let by_latency = point.latency_seconds.total_cmp(&best.point.latency_seconds);
                    // Later indices are higher frequencies and longer periods.
                    by_power.then(by_latency).is_le()
                });
                if better {
                    best = Some(Choice { frequency, period, point });
                }
            }
        }
        best
    }

    /// Whether a point is known at a load and within the target there, and what it comes to.
    pub fn feasible(
        &self,
        load: f64,
        target: f64,
        correction: f64,
        frequency: usize,
        period: usize,
    ) -> Option<ProfilePoint> {
        let point = self.at(load, frequency, period)?;
        is_feasible(&point, target, correction).then_some(point)
    }
}

fn is_feasible(point: &ProfilePoint, target: f64, correction: f64) -> bool {
    point.latency_seconds.is_finite() && point.latency_seconds * correction <= target
}
