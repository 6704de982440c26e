//! Search of Co-PI's decision engine for the point of least power that is fast enough.

use super::{ProfilePoint, ProfileTables};

/// A chosen point, by its indices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Choice {
    /// Index of the frequency.
    pub frequency: usize,
    /// Index of the period.
    pub period: usize,
    /// Latency and power of the point at the load.
    pub point: ProfilePoint,
}

impl ProfileTables {
    /// Converts packets per second at a core's queues to a load in requests per second. Between two
    /// profiled loads the ratio is interpolated linearly; beyond them the nearest ratio applies.
    pub fn load_of(&self, arrivals: f64) -> f64 {
        let ratios = &self.conditions.arrivals_per_request;
        let ends = ratios.first().zip(ratios.last());
        let Some((first, last)) = ends.filter(|_| ratios.len() == self.loads.len()) else {
            return arrivals;
        };
        let of = |index: usize| self.loads[index] * ratios[index];
        match (0..self.loads.len()).position(|index| of(index) >= arrivals) {
            None => arrivals / last,
            Some(0) => arrivals / first,
            Some(upper) => {
                // Lower loads were skipped, so this interval has a positive length.
                let (from, to) = (of(upper - 1), of(upper));
                let weight = (arrivals - from) / (to - from);
                self.loads[upper - 1] + (self.loads[upper] - self.loads[upper - 1]) * weight
            }
        }
    }

    /// Returns latency and power of a point at a load between the profiled ones; `None` if they are
    /// unknown.
    ///
    /// Both are interpolated linearly between two loads. If the lower load was not profiled, the
    /// values of the upper one apply, since more load is never faster. If one of the loads was not
    /// sustained, no load between them is. Below the lowest load its values apply; above the
    /// highest the values are unknown.
    pub fn at(&self, load: f64, frequency: usize, period: usize) -> Option<ProfilePoint> {
        self.between(load, |index| self.point(index, frequency, period))
    }

    /// Returns the target at a load: the tail latency in seconds at the fastest frequency with the
    /// driver's own moderation, interpolated as in [`Self::at`]. If this default does not sustain
    /// the load, the target is that of the highest sustained load below: any latency would meet an
    /// infinite target.
    pub fn target(&self, load: f64) -> Option<f64> {
        let target = self.default_at(load)?.latency_seconds;
        if target.is_finite() {
            return Some(target);
        }
        let sustained = |index: usize| {
            let latency = self.default_point(index)?.latency_seconds;
            (self.loads[index] <= load && latency.is_finite()).then_some(latency)
        };
        (0..self.loads.len()).rev().find_map(sustained)
    }

    /// Returns latency and power at a load at the fastest frequency with the driver's own
    /// moderation, as in [`Self::at`].
    pub fn default_at(&self, load: f64) -> Option<ProfilePoint> {
        self.between(load, |index| self.default_point(index))
    }

    fn between(
        &self,
        load: f64,
        of: impl Fn(usize) -> Option<ProfilePoint>,
    ) -> Option<ProfilePoint> {
        // Also refuses NaN.
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
            // The result is infinite if one end is: the difference of two infinities would be NaN.
            if below.is_infinite() { below } else { below + (above - below) * weight }
        };
        Some(ProfilePoint {
            latency_seconds: mix(below.latency_seconds, above.latency_seconds),
            power_watts: mix(below.power_watts, above.power_watts),
        })
    }

    /// Returns the point of least power whose latency, times `correction`, is within `target`
    /// seconds; `None` if there is none. Among points of equal power, the lower latency wins, then
    /// the higher frequency, then the longer period. Points without watts are ordered by lowest
    /// frequency, then by longest period ([`super::EnergyOrder`]). `frequency` restricts the search
    /// to one frequency.
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
                // Later indices are higher frequencies and longer periods.
                let better = best.as_ref().is_none_or(|best| {
                    if point.power_watts.is_nan() && best.point.power_watts.is_nan() {
                        return frequency == best.frequency;
                    }
                    let by_power = point.power_watts.total_cmp(&best.point.power_watts);
                    let by_latency = point.latency_seconds.total_cmp(&best.point.latency_seconds);
                    by_power.then(by_latency).is_le()
                });
                if better {
                    best = Some(Choice { frequency, period, point });
                }
            }
        }
        best
    }

    /// Returns true if `one` costs at most a share `more` more than `other`: by watts, or without
    /// them by state and period as in [`Self::choose`].
    pub fn is_near(&self, one: &Choice, other: &Choice, more: f64) -> bool {
        let (watts, others) = (one.point.power_watts, other.point.power_watts);
        if !(watts.is_nan() && others.is_nan()) {
            return watts <= others * (1.0 + more);
        }
        let period = |choice: &Choice| self.periods.get(choice.period).map(|p| p.as_seconds());
        let long_enough = period(one)
            .zip(period(other))
            .is_some_and(|(own, others)| own * (1.0 + more) >= others);
        one.frequency < other.frequency || one.frequency == other.frequency && long_enough
    }

    /// Returns the values of a point at a load, if they are known and within the target.
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
