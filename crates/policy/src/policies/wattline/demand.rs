//! Measures the rate of arrivals, its variability and its leaps.

use super::leap::notice;

/// Seconds over which the rate is averaged: much longer than the time between two looks, much
/// shorter than a change of load for which cores are worth changing.
const MEAN_SECONDS: f64 = 1e-3;
/// Seconds over which a rate that does not change is averaged. Near its capacity a core's queue is so
/// sensitive that the noise of a millisecond (1 % of 8 Mpps) would change the cheapest point.
const STEADY_SECONDS: f64 = 8e-3;
/// The rate has changed if the mean over [`MEAN_SECONDS`] differs from that over [`STEADY_SECONDS`] by
/// so many of its standard deviations.
const DRIFT: f64 = 2.5;
/// A rate that differs from the mean by so many standard deviations is a new rate.
const NEW_RATE: f64 = 4.0;
/// Seconds over which variability is averaged.
const SPREAD_SECONDS: f64 = 20e-3;
/// Seconds in which the remembered peak falls to half.
const PEAK_HALF_LIFE: f64 = 10.0;
/// Shortest interval in seconds whose rate may be a peak.
const PEAK_STRETCH: f64 = 150e-6;
/// Shortest interval in seconds between two looks that gives a rate.
const SHORTEST: f64 = 20e-6;

/// Rates in packets per second.
#[derive(Debug, Clone, Default)]
pub(super) struct Demand {
    /// Seconds and arrivals at the last look.
    last: Option<(f64, u64)>,
    /// Rate of the last interval.
    pub now: f64,
    /// Averaged rate.
    pub mean: f64,
    /// Seconds that it rests on, up to [`STEADY_SECONDS`].
    steadily: f64,
    /// Rate averaged over a shorter time, and the seconds that it rests on, up to [`MEAN_SECONDS`].
    recent: f64,
    known: f64,
    /// Rate of the last interval less three standard deviations.
    surely: f64,
    /// Highest rate of an interval, decaying.
    pub peak: f64,
    /// Variance of arrivals over their mean; 1 for independent packets. It comes from differences
    /// between neighbouring intervals, so that a slow trend does not count.
    pub dispersion: f64,
    /// Seconds and packets of the interval before.
    before: Option<(f64, f64)>,
    /// Most packets that came at once without a leap of the rate, decaying.
    burst: f64,
    /// An alarm that is not judged yet.
    alarm: Option<Alarm>,
    /// Rate averaged over [`LONG_SECONDS`], whatever leaps there were.
    pub long: f64,
    /// The last looks: seconds and arrivals, in turn.
    looks: [(f64, u64); LOOKS],
    looked: usize,
}

/// Seconds over which the load is averaged through leaps.
const LONG_SECONDS: f64 = 10e-3;
/// Looks in which the needed rate is sought.
const LOOKS: usize = 16;

/// An alarm: time, arrivals until then, the expected rate, and the packets beyond it.
#[derive(Debug, Clone, Copy)]
struct Alarm {
    seconds: f64,
    arrivals: u64,
    rate: f64,
    excess: f64,
}

/// Least factor by which a leap raises the rate; a lower one was a burst.
const A_LEAP: f64 = 1.3;

impl Demand {
    /// Takes the number of packets that had arrived at this time. Returns whether an interval is
    /// complete.
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
        self.long += (1.0 - (-span / LONG_SECONDS).exp()) * (self.now - self.long);
        self.looks[self.looked % LOOKS] = (seconds, arrivals);
        self.looked += 1;
        // A difference that chance does not explain is a new rate: the average starts anew.
        let chance = (came.max(1.0) * self.dispersion.max(1.0)).sqrt();
        self.surely = (came - 3.0 * chance).max(0.0) / span;
        let beyond = came - self.mean * span;
        let chances = NEW_RATE * chance + self.burst;
        let usual = (self.mean * span * self.dispersion.max(1.0)).sqrt();
        let fewer = NEW_RATE * usual + self.burst;
        if beyond > chances || beyond < -fewer {
            (self.known, self.steadily) = (0.0, 0.0);
        }
        let same_rate = beyond.abs() <= chances;
        self.known = (self.known + span).min(MEAN_SECONDS);
        self.recent += (span / self.known).min(1.0) * (self.now - self.recent);
        self.steadily = (self.steadily + span).min(STEADY_SECONDS);
        self.mean += (span / self.steadily).min(1.0) * (self.now - self.mean);
        let noise = (self.recent.max(self.mean) * self.dispersion.max(1.0) / self.known).sqrt();
        if (self.recent - self.mean).abs() > DRIFT * noise {
            (self.mean, self.steadily) = (self.recent, self.known);
        }
        // A short interval may have a high rate by chance, so its mean counts for the peak.
        let seen = if span >= PEAK_STRETCH { self.now } else { self.recent };
        let forgets = 0.5f64.powf(span / PEAK_HALF_LIFE);
        self.peak = (self.peak * forgets).max(seen);
        self.burst *= forgets;
        if let Some((before_span, before_came)) = self.before.filter(|_| same_rate) {
            // Intervals differ in length, so they are scaled to one.
            let scale = span / before_span;
            let mean = (came + before_came * scale) / 2.0;
            if mean >= 1.0 && (0.5..=2.0).contains(&scale) {
                let seen = (came - before_came * scale).powi(2) / (mean * (1.0 + scale));
                let weight = 1.0 - (-span / SPREAD_SECONDS).exp();
                // A single leap changes the rate, not its variability.
                let seen = seen.min(20.0 * self.dispersion.max(1.0));
                self.dispersion += weight * (seen - self.dispersion);
            }
        }
        self.before = Some((span, came));
        true
    }

    /// The rate to plan for: the higher of two. The first is the average; while it rests on little
    /// time, two of its standard deviations are added. The second is the rate of the last interval
    /// less three standard deviations: there are many intervals.
    pub fn need(&self) -> f64 {
        let known = self.known.max(SHORTEST);
        let young = 1.0 - known / MEAN_SECONDS;
        let unsure = 2.0 * young * (self.mean * self.dispersion.max(1.0) / known).sqrt();
        (self.mean + unsure).max(self.surely)
    }

    /// Packets per second that had to be served for the last ones to leave within so many seconds: the
    /// most over all stretches that end now.
    pub fn needed(&self, within: f64) -> f64 {
        let Some((now, had)) = self.last else { return 0.0 };
        let looks = &self.looks[..self.looked.min(LOOKS)];
        let of = |&(from, before): &(f64, u64)| {
            had.saturating_sub(before) as f64 / (now - from + within)
        };
        looks.iter().map(of).fold(0.0, f64::max)
    }

    /// The highest rate of a stretch that ends now and is long enough for a peak.
    pub fn height(&self) -> f64 {
        let Some((now, had)) = self.last else { return 0.0 };
        let looks = self.looks[..self.looked.min(LOOKS)].iter();
        let long = looks.filter(|(from, _)| now - from >= PEAK_STRETCH);
        let of = |&(from, before): &(f64, u64)| had.saturating_sub(before) as f64 / (now - from);
        long.map(of).fold(0.0, f64::max)
    }

    /// Packets per second over all looks that are remembered: a rate that lasts.
    pub fn lasting(&self) -> f64 {
        let looks = self.looked.min(LOOKS);
        let (Some((now, had)), true) = (self.last, looks > 1) else { return 0.0 };
        let (from, before) = self.looks[if looks < LOOKS { 0 } else { self.looked % LOOKS }];
        had.saturating_sub(before) as f64 / (now - from).max(SHORTEST)
    }

    /// Whether the rate has been the same for some milliseconds.
    pub fn is_settled(&self) -> bool {
        self.steadily >= STEADY_SECONDS
    }

    /// Most packets that came at once in a burst that was no leap.
    pub fn burst(&self) -> f64 {
        self.burst
    }

    /// Whether chance does not explain the number of packets since the last complete interval, of which
    /// so many may have been held back before. `carried` packets per second are no news.
    pub fn leaps(&self, seconds: f64, arrivals: u64, held: f64, carried: f64) -> bool {
        let excess = self.excess(seconds, arrivals);
        excess.is_some_and(|(excess, expected)| {
            let since = self.last.map_or(0.0, |(from, _)| seconds - from);
            let more = (carried * since - expected).max(0.0);
            let (excess, expected) = (excess - more, expected + more);
            excess > notice(expected, self.dispersion) + self.burst + held
        })
    }

    /// Packets since the last interval beyond the expected ones, and the expected ones.
    fn excess(&self, seconds: f64, arrivals: u64) -> Option<(f64, f64)> {
        let (from, had) = self.last?;
        let expected = self.need() * (seconds - from);
        Some((arrivals.saturating_sub(had) as f64 - expected, expected))
    }

    /// When a leap began that is seen now: the packets since the last look came at the height of the peak.
    pub fn began(&self, seconds: f64, arrivals: u64) -> f64 {
        let Some((from, had)) = self.last else { return seconds };
        let since = arrivals.saturating_sub(had) as f64 / self.peak.max(1.0);
        (seconds - since).max(from)
    }

    /// Notes an alarm.
    pub fn alarm(&mut self, seconds: f64, arrivals: u64) {
        let Some((excess, _)) = self.excess(seconds, arrivals) else { return };
        if self.alarm.is_none() {
            self.alarm = Some(Alarm { seconds, arrivals, rate: self.need(), excess });
        }
    }

    /// Judges the last alarm by the rate since. If the rate is as before, it was a burst, and the next
    /// burst of its size raises no alarm. Returns whether it was one.
    pub fn was_burst(&mut self, seconds: f64, arrivals: u64) -> bool {
        let Some(alarm) = self.alarm else { return false };
        let span = seconds - alarm.seconds;
        if span < PEAK_STRETCH {
            return false;
        }
        self.alarm = None;
        let came = arrivals.saturating_sub(alarm.arrivals) as f64;
        let is_burst = came < A_LEAP * alarm.rate * span;
        if is_burst {
            self.burst = self.burst.max(1.25 * alarm.excess);
        }
        is_burst
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
        assert!(
            !demand.leaps(80e-3, count, 0.0, 0.0) && !demand.leaps(80e-3, count + 100, 0.0, 0.0)
        );
        assert!(demand.leaps(80e-3, count + 400, 0.0, 0.0));
        assert!(demand.leaps(79.1e-3, count - 600, 0.0, 0.0), "400 in a tenth of the time");
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

    /// At 8 Mpps the mean of a millisecond has a noise of 1.1 %.
    #[test]
    fn a_steady_rate_is_known_better_and_better_and_a_drift_is_followed() {
        // Multiplicative noise of a fixed pattern with the variance of Poisson arrivals.
        let mut state = 1u64;
        let mut noise = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let sum: f64 = (0..12).map(|k| ((state >> (k * 5)) & 31) as f64 / 31.0).sum();
            sum - 6.0
        };
        let mut demand = Demand::default();
        let mut count = 0.0f64;
        let mut worst = 0.0f64;
        for look in 0..1_000u32 {
            demand.look(f64::from(look) * 2e-4, count as u64);
            count += 1_600.0 + 40.0 * noise();
            if look > 200 {
                worst = worst.max((demand.mean / 8e6 - 1.0).abs());
            }
        }
        assert!(worst < 0.02, "{worst}");
        // Then it rises by 1 % in each millisecond.
        for look in 1_000..1_100u32 {
            let rate = 1_600.0 * (1.0 + 0.002 * f64::from(look - 1_000));
            count += rate + 40.0 * noise();
            demand.look(f64::from(look + 1) * 2e-4, count as u64);
            if look > 1_010 {
                assert!(demand.mean > 0.955 * rate / 2e-4, "{look}: {} {rate}", demand.mean);
            }
        }
    }

    /// A square wave of 1 ms high and 1 ms low, and then the height alone.
    #[test]
    fn what_lasts_is_told_from_a_height_that_the_slack_evens_out() {
        let mut demand = Demand::default();
        let (mut count, mut most) = (0, 0.0f64);
        for look in 0..100u64 {
            demand.look(look as f64 * 2e-4, count);
            count += if look / 5 % 2 == 0 { 2_000 } else { 200 };
            most = most.max(if look > 20 { demand.lasting() } else { 0.0 });
        }
        assert!((5e6..8e6).contains(&most), "{most}");
        for look in 100..120u64 {
            demand.look(look as f64 * 2e-4, count);
            count += 2_000;
        }
        assert!((demand.lasting() / 1e7 - 1.0).abs() < 1e-6, "{}", demand.lasting());
        assert!(demand.needed(2e-3) < 0.7e7, "a long slack would even it out for good");
        demand.look(24.02e-3, count + 400);
        let height = demand.height();
        assert!((1e7..1.2e7).contains(&height), "20 us are too short for a peak: {height}");
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
        assert!(demand.leaps(at + 1e-5, count + 110, 0.0, 0.0));
        demand.alarm(at + 1e-5, count + 110);
        assert!(!demand.was_burst(at + 1e-4, count + 200), "too early to say");
        assert_eq!(demand.burst(), 0.0);
        assert!(demand.was_burst(at + 4e-4, count + 500));
        assert!((120.0..130.0).contains(&demand.burst()), "{}", demand.burst());
        assert!(!demand.leaps(at + 1e-5, count + 110, 0.0, 0.0));
        assert!(demand.leaps(at + 1e-5, count + 300, 0.0, 0.0));
        demand.alarm(at + 1e-5, count + 300);
        assert!(!demand.was_burst(at + 4e-4, count + 3_000), "that was a leap");
        assert!(demand.burst() < 130.0);
    }
}
