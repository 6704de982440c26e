//! What arrives, and how it varies up to the time in which the policy can react.

use super::leap::notice;

/// Time over which the rate is averaged, in seconds: long against a look, short against the
/// changes that are worth a change of cores.
const MEAN_SECONDS: f64 = 1e-3;
/// A stretch so many deviations above the mean is the beginning of a new rate.
const NEW_RATE: f64 = 4.0;
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
    /// Seconds that the mean rests on, up to [`MEAN_SECONDS`].
    known: f64,
    /// What of the last stretch is no chance: two deviations less.
    surely: f64,
    /// The highest of a stretch, decaying.
    pub peak: f64,
    /// Variance of arrivals over their mean, from differences of neighbouring stretches, so that
    /// a slow trend is none; 1 for independent packets.
    pub dispersion: f64,
    before: Option<(f64, f64)>,
    /// Packets that came at once and were no leap, decaying.
    burst: f64,
    /// The alarm that has to be judged yet.
    alarm: Option<Alarm>,
}

/// An alarm of a leap: when, at how many arrivals, beyond what rate and by how many packets.
#[derive(Debug, Clone, Copy)]
struct Alarm {
    seconds: f64,
    arrivals: u64,
    rate: f64,
    excess: f64,
}

/// What a leap adds to the rate at least; less was a burst.
const A_LEAP: f64 = 1.3;

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
        // What is beyond all chance is a new rate: what was before says nothing of it.
        let chance = (came.max(1.0) * self.dispersion.max(1.0)).sqrt();
        self.surely = (came - 2.0 * chance).max(0.0) / span;
        let beyond = came - self.mean * span;
        let chances = NEW_RATE * chance + self.burst;
        let usual = (self.mean * span * self.dispersion.max(1.0)).sqrt();
        let fewer = NEW_RATE * usual + self.burst;
        if beyond > chances || beyond < -fewer {
            self.known = 0.0;
        }
        let same_rate = beyond.abs() <= chances;
        self.known = (self.known + span).min(MEAN_SECONDS);
        self.mean += (span / self.known).min(1.0) * (self.now - self.mean);
        // A short stretch has a high rate by chance: for the peak it counts within the mean.
        let seen = if span >= PEAK_STRETCH { self.now } else { self.mean };
        let forgets = 0.5f64.powf(span / PEAK_HALF_LIFE);
        self.peak = (self.peak * forgets).max(seen);
        self.burst *= forgets;
        if let Some((before_span, before_came)) = self.before.filter(|_| same_rate) {
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

    /// The rate to plan for: the higher of the average, with two deviations of it while it is
    /// young, and of the last stretch as far as it is no chance.
    pub fn need(&self) -> f64 {
        let known = self.known.max(SHORTEST);
        let young = 1.0 - known / MEAN_SECONDS;
        let unsure = 2.0 * young * (self.mean * self.dispersion.max(1.0) / known).sqrt();
        (self.mean + unsure).max(self.surely)
    }

    /// Packets that may come at once without being a leap, as far as bursts were seen.
    pub fn burst(&self) -> f64 {
        self.burst
    }

    /// Whether so many packets since the last complete stretch are beyond all chance.
    pub fn leaps(&self, seconds: f64, arrivals: u64) -> bool {
        let excess = self.excess(seconds, arrivals);
        excess.is_some_and(|(excess, expected)| {
            excess > notice(expected, self.dispersion) + self.burst
        })
    }

    /// Packets beyond those that are expected since the last stretch, and those.
    fn excess(&self, seconds: f64, arrivals: u64) -> Option<(f64, f64)> {
        let (from, had) = self.last?;
        let expected = self.need() * (seconds - from);
        Some((arrivals.saturating_sub(had) as f64 - expected, expected))
    }

    /// An alarm was raised now.
    pub fn alarm(&mut self, seconds: f64, arrivals: u64) {
        let Some((excess, _)) = self.excess(seconds, arrivals) else { return };
        if self.alarm.is_none() {
            self.alarm = Some(Alarm { seconds, arrivals, rate: self.need(), excess });
        }
    }

    /// Judges the last alarm by what came since: where the rate is as before, it was a burst, and
    /// the next one of its size raises none.
    pub fn judge_alarm(&mut self, seconds: f64, arrivals: u64) {
        let Some(alarm) = self.alarm else { return };
        let span = seconds - alarm.seconds;
        if span < PEAK_STRETCH {
            return;
        }
        self.alarm = None;
        let came = arrivals.saturating_sub(alarm.arrivals) as f64;
        if came < A_LEAP * alarm.rate * span {
            self.burst = self.burst.max(1.25 * alarm.excess);
        }
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
    fn a_leap_is_in_the_need_at_once_and_chance_is_not() {
        let mut demand = Demand::default();
        let mut count = 0;
        for look in 0..50u64 {
            demand.look(look as f64 * 1e-3, count);
            count += if look < 48 { 1_000 } else { 10_000 };
        }
        assert!((demand.need() / 1e7 - 1.0).abs() < 0.03, "{}", demand.need());
        for look in 50..80u64 {
            demand.look(look as f64 * 1e-3, count);
            count += 1_000;
        }
        assert!((demand.need() / 1e6 - 1.0).abs() < 0.02);
        // 1,000 packets are planned for the next millisecond.
        assert!(!demand.leaps(80e-3, count) && !demand.leaps(80e-3, count + 100));
        assert!(demand.leaps(80e-3, count + 400));
        assert!(demand.leaps(79.1e-3, count - 600), "400 in a tenth of the time");
    }

    #[test]
    fn a_fall_beyond_all_chance_is_a_new_rate_as_well() {
        let mut demand = Demand::default();
        let mut count = 0;
        for look in 0..50u64 {
            demand.look(look as f64 * 2e-4, count);
            count += if look < 48 { 3_600 } else { 360 };
        }
        // One look after the fall the mean is of that look alone; what is unsure is added.
        assert!((demand.mean / 1.8e6 - 1.0).abs() < 0.01, "{}", demand.mean);
        assert!((1.8e6..2.3e6).contains(&demand.need()), "{}", demand.need());
    }

    #[test]
    fn a_burst_raises_one_alarm_and_a_leap_every_time() {
        let mut demand = Demand::default();
        let mut count = 0;
        for look in 0..50u64 {
            demand.look(look as f64 * 2e-4, count);
            count += 200;
        }
        let at = 50.0 * 2e-4;
        demand.look(at, count);
        assert!(demand.leaps(at + 1e-5, count + 110));
        demand.alarm(at + 1e-5, count + 110);
        demand.judge_alarm(at + 1e-4, count + 200);
        assert_eq!(demand.burst(), 0.0, "too early to say");
        demand.judge_alarm(at + 4e-4, count + 500);
        assert!((120.0..130.0).contains(&demand.burst()), "{}", demand.burst());
        assert!(!demand.leaps(at + 1e-5, count + 110));
        assert!(demand.leaps(at + 1e-5, count + 300));
        demand.alarm(at + 1e-5, count + 300);
        demand.judge_alarm(at + 4e-4, count + 3_000);
        assert!(demand.burst() < 130.0, "that was a leap");
    }
}
