//! What arrives, and how it varies up to the time in which the policy can react.

/// Time over which the rate is averaged, in seconds: long against a look, short against the
/// changes that are worth a change of cores.
const MEAN_SECONDS: f64 = 1e-3;
/// Time over which variability is averaged.
const SPREAD_SECONDS: f64 = 20e-3;
/// In so long a peak is half forgotten.
const PEAK_HALF_LIFE: f64 = 10.0;
/// Shortest stretch whose rate may be a peak.
const PEAK_STRETCH: f64 = 150e-6;
/// Shortest stretch between two looks that tells a rate.
const SHORTEST: f64 = 20e-6;

/// Rates in packets per second.
#[derive(Debug, Clone, Default)]
pub(super) struct Demand {
    last: Option<(f64, u64)>,
    /// Of the last stretch, and averaged.
    pub now: f64,
    pub mean: f64,
    /// The highest of a stretch, decaying.
    pub peak: f64,
    /// Variance of arrivals over their mean, from differences of neighbouring stretches, so that
    /// a slow trend is none; 1 for independent packets.
    pub dispersion: f64,
    before: Option<(f64, f64)>,
}

impl Demand {
    /// So many packets had arrived at this time. Says whether a stretch is complete.
    pub fn look(&mut self, seconds: f64, arrivals: u64) -> bool {
        let Some((from, had)) = self.last else {
            self.last = Some((seconds, arrivals));
            self.dispersion = 1.0;
            return false;
        };
        let span = seconds - from;
        if span < SHORTEST {
            return false;
        }
        let came = arrivals.saturating_sub(had) as f64;
        self.last = Some((seconds, arrivals));
        self.now = came / span;
        let first = self.before.is_none();
        let weight = if first { 1.0 } else { 1.0 - (-span / MEAN_SECONDS).exp() };
        self.mean += weight * (self.now - self.mean);
        // A short stretch has a high rate by chance: for the peak it counts within the mean.
        let seen = if span >= PEAK_STRETCH { self.now } else { self.mean };
        self.peak = (self.peak * 0.5f64.powf(span / PEAK_HALF_LIFE)).max(seen);
        if let Some((before_span, before_came)) = self.before {
            // Scaled to one length: looks differ.
            let scale = span / before_span;
            let mean = (came + before_came * scale) / 2.0;
            if mean >= 1.0 && (0.5..=2.0).contains(&scale) {
                let seen = (came - before_came * scale).powi(2) / (mean * (1.0 + scale));
                let weight = 1.0 - (-span / SPREAD_SECONDS).exp();
                // One leap is news about the rate, not about its noise.
                let seen = seen.min(20.0 * self.dispersion.max(1.0));
                self.dispersion += weight * (seen - self.dispersion);
            }
        }
        self.before = Some((span, came));
        true
    }

    /// The rate to plan for: the higher of the average and the last stretch, and of a part of
    /// the peak.
    pub fn need(&self, reserve: f64) -> f64 {
        self.mean.max(self.now).max(reserve * self.peak)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_stream_has_no_dispersion_and_bursts_have_their_length() {
        let mut steady = Demand::default();
        let mut bursts = Demand::default();
        let mut count = 0;
        for look in 0..2_000u64 {
            steady.look(look as f64 * 2e-4, look * 1_000);
            // Every other stretch has one burst of 64 more.
            count += 1_000 + if look % 2 == 0 { 64 } else { 0 };
            bursts.look(look as f64 * 2e-4, count);
        }
        assert!(steady.dispersion < 0.01 && (steady.mean / 5e6 - 1.0).abs() < 1e-6);
        assert!((1.5..2.5).contains(&bursts.dispersion), "{}", bursts.dispersion);
    }

    #[test]
    fn a_leap_is_in_the_need_at_once_and_the_peak_is_remembered() {
        let mut demand = Demand::default();
        let mut count = 0;
        for look in 0..50u64 {
            demand.look(look as f64 * 1e-3, count);
            count += if look < 48 { 1_000 } else { 10_000 };
        }
        assert!((demand.need(0.0) / 1e7 - 1.0).abs() < 0.01);
        for look in 50..80u64 {
            demand.look(look as f64 * 1e-3, count);
            count += 1_000;
        }
        assert!((demand.need(0.0) / 1e6 - 1.0).abs() < 0.02);
        assert!((demand.need(0.5) / 5e6 - 1.0).abs() < 0.02);
    }
}
