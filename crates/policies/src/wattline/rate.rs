//! Measures the rate of arrivals, its variability and its rises.

use super::constants::*;
use super::plan::notice;

/// Packets per second over the last intervals.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    /// Times in seconds and arrivals until then, used as a ring buffer.
    periods: [(f64, u64); REMEMBERED],
    count: usize,
}

impl Window {
    fn update(&mut self, seconds: f64, arrivals: u64) {
        self.periods[self.count % REMEMBERED] = (seconds, arrivals);
        self.count += 1;
    }

    /// Returns the highest rate of any stretch that ends now, if packets may wait for `within`
    /// seconds more.
    pub fn highest(&self, within: f64) -> f64 {
        let (now, had) = self.periods[(self.count.max(1) - 1) % REMEMBERED];
        let periods = self.periods[..self.count.min(REMEMBERED)].iter();
        periods
            .filter(|(from, _)| now > *from)
            .map(|(from, before)| had.saturating_sub(*before) as f64 / (now - from + within))
            .fold(0.0, f64::max)
    }
}

/// Highest value of the last one or two stretches of [`STEADY`] seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Recent {
    highest: (f64, f64),
    until: f64,
}

impl Recent {
    pub fn update(&mut self, seconds: f64, value: f64) {
        if seconds >= self.until {
            (self.highest, self.until) = ((0.0, self.highest.0), seconds + STEADY);
        }
        self.highest.0 = self.highest.0.max(value);
    }

    pub fn highest(&self) -> f64 {
        self.highest.0.max(self.highest.1)
    }
}

/// Rates in packets per second.
#[derive(Debug, Clone, Default)]
pub(super) struct Rate {
    last: Option<(f64, u64)>,
    /// Rate of the last interval.
    pub now: f64,
    /// Averaged rate, and the averaging time in seconds.
    pub mean: f64,
    rests_on: f64,
    /// Rate averaged over a shorter time, and the averaging time in seconds.
    recent: f64,
    known: f64,
    /// Highest rate of an interval, decaying.
    pub peak: f64,
    /// Variance of arrivals over their mean; 1 for independent packets. It is computed from
    /// differences of neighbouring intervals, so that a slow trend does not count.
    pub dispersion: f64,
    /// Seconds and packets of the previous interval.
    before: Option<(f64, f64)>,
    /// Rate averaged through rises.
    pub long: f64,
    pub window: Window,
}

impl Rate {
    /// Takes the total number of packets up to this time. Returns true if an interval is complete.
    pub fn update(&mut self, seconds: f64, arrivals: u64) -> bool {
        let Some((from, had)) = self.last else {
            (self.last, self.dispersion) = (Some((seconds, arrivals)), 1.0);
            return false;
        };
        let span = seconds - from;
        if span < LATE * RECENT {
            return false;
        }
        let came = arrivals.saturating_sub(had) as f64;
        self.last = Some((seconds, arrivals));
        self.now = came / span;
        self.window.update(seconds, arrivals);
        self.long += (span / STEADY).min(1.0) * (self.now - self.long);
        let same_rate = self.average(came, span);
        // A short interval may have a high rate by chance.
        let seen = if 2.0 * span >= PERIOD.as_seconds() { self.now } else { self.recent };
        let left = (-span / MEMORY).exp2();
        self.peak = (self.peak * left).max(seen);
        if let Some((before_span, before_came)) = self.before.filter(|_| same_rate) {
            // Intervals differ in length, so they are scaled to one.
            let scale = span / before_span;
            let mean = (came + before_came * scale) / 2.0;
            if mean >= 1.0 && scale <= 2.0 && 2.0 * scale >= 1.0 {
                let seen = (came - before_came * scale).powi(2) / (mean * (1.0 + scale));
                // A single rise changes the rate, not its variability.
                let seen = seen.min(2.0 * SURPRISE * self.dispersion.max(1.0));
                self.dispersion += (span / (2.0 * STEADY)).min(1.0) * (seen - self.dispersion);
            }
        }
        self.before = Some((span, came));
        true
    }

    /// Averages over two times. A difference that chance does not explain starts a new average.
    /// Returns false if the rate rose or fell.
    fn average(&mut self, came: f64, span: f64) -> bool {
        let chance = (came.max(1.0) * self.dispersion.max(1.0)).sqrt();
        let beyond = came - self.mean * span;
        let usual = (self.mean * span * self.dispersion.max(1.0)).sqrt();
        let most = DEVIATIONS * chance;
        if beyond > most || beyond < -DEVIATIONS * usual {
            (self.known, self.rests_on) = (0.0, 0.0);
        }
        self.known = (self.known + span).min(RECENT);
        self.recent += (span / self.known).min(1.0) * (self.now - self.recent);
        self.rests_on = (self.rests_on + span).min(STEADY);
        self.mean += (span / self.rests_on).min(1.0) * (self.now - self.mean);
        let noise = (self.recent.max(self.mean) * self.dispersion.max(1.0) / self.known).sqrt();
        if (self.recent - self.mean).abs() > DEVIATIONS / 2.0 * noise {
            (self.mean, self.rests_on) = (self.recent, self.known);
        }
        beyond.abs() <= most
    }

    /// Returns the rate to plan for: the average, plus two of its standard deviations while it is
    /// young.
    pub fn need(&self) -> f64 {
        let known = self.known.max(LATE * RECENT);
        let young = 1.0 - known / RECENT;
        let unsure = 2.0 * young * (self.mean * self.dispersion.max(1.0) / known).sqrt();
        self.mean + unsure
    }

    /// Returns true if chance does not explain the packets since the last complete interval, of
    /// which `returning` per second are no news.
    pub fn rises(&self, seconds: f64, arrivals: u64, returning: f64) -> bool {
        let Some((from, had)) = self.last else { return false };
        let expected = self.need().max(returning) * (seconds - from);
        let excess = arrivals.saturating_sub(had) as f64 - expected;
        excess > notice(expected, self.dispersion)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: f64 = 2e-4;

    /// Feeds intervals of 200 us from the first number to the second, with so many packets in each.
    fn feed(
        rate: &mut Rate,
        count: &mut u64,
        (from, to): (u32, u32),
        packets: impl Fn(u32) -> u64,
    ) {
        for index in from..to {
            rate.update(f64::from(index) * PERIOD, *count);
            *count += packets(index);
        }
    }

    #[test]
    fn steady_stream_has_no_dispersion_and_bursts_have_their_length() {
        let (mut steady, mut bursts) = (Rate::default(), Rate::default());
        feed(&mut steady, &mut 0, (0, 2_000), |_| 1_000);
        feed(&mut bursts, &mut 0, (0, 2_000), |index| 1_000 + if index % 2 == 0 { 64 } else { 0 });
        assert!(steady.dispersion < 0.01 && (steady.mean / 5e6 - 1.0).abs() < 1e-6);
        assert!((1.5..2.6).contains(&bursts.dispersion), "{}", bursts.dispersion);
    }

    #[test]
    fn changes_beyond_chance_begin_a_new_average() {
        let (mut rate, mut count) = (Rate::default(), 0);
        feed(&mut rate, &mut count, (0, 50), |_| 1_000);
        feed(&mut rate, &mut count, (50, 52), |_| 10_000);
        assert!((rate.mean / 5e7 - 1.0).abs() < 0.01, "{}", rate.mean);
        feed(&mut rate, &mut count, (52, 54), |_| 360);
        assert!((rate.mean / 1.8e6 - 1.0).abs() < 0.01, "{}", rate.mean);
    }

    /// At 8 Mpps the mean of a millisecond has a noise of 1.1 %.
    #[test]
    fn steady_rate_is_known_better_than_noise_and_drift_is_followed() {
        let noise = |index: u32| {
            let state = u64::from(index + 1).wrapping_mul(6_364_136_223_846_793_005) >> 20;
            (0..12).map(|k| ((state >> (k * 3)) & 7) as f64 / 7.0).sum::<f64>() - 6.0
        };
        let (mut rate, mut count) = (Rate::default(), 0);
        feed(&mut rate, &mut count, (0, 1_000), |index| (1_600.0 + 40.0 * noise(index)) as u64);
        assert!((rate.mean / 8e6 - 1.0).abs() < 0.02, "{}", rate.mean);
        // Then it rises by 1 % in each millisecond.
        let rising = |index: u32| (1_600.0 * (1.0 + 0.002 * f64::from(index - 1_000))) as u64;
        feed(&mut rate, &mut count, (1_000, 1_100), rising);
        assert!(rate.mean > 0.955 * rising(1_100) as f64 / PERIOD, "{}", rate.mean);
    }

    #[test]
    fn rise_exceeds_chance_and_returning_rates() {
        let (mut rate, mut count) = (Rate::default(), 0);
        feed(&mut rate, &mut count, (0, 80), |_| 200);
        let at = 79.0 * PERIOD + 1e-4;
        let before = count - 200;
        assert!(!rate.rises(at, before + 100, 0.0) && !rate.rises(at, before + 120, 0.0));
        assert!(rate.rises(at, before + 300, 0.0) && !rate.rises(at, before + 300, 3e6));
    }

    #[test]
    fn young_average_has_a_margin() {
        let (mut rate, mut count) = (Rate::default(), 0);
        feed(&mut rate, &mut count, (0, 50), |_| 200);
        feed(&mut rate, &mut count, (50, 52), |_| 10_000);
        assert!(rate.need() > 1.005 * rate.mean, "{} {}", rate.need(), rate.mean);
        feed(&mut rate, &mut count, (52, 60), |_| 10_000);
        assert!((rate.need() / rate.mean - 1.0).abs() < 1e-9);
    }

    #[test]
    fn peak_falls_to_half_in_its_memory() {
        let (mut rate, mut count) = (Rate::default(), 0);
        feed(&mut rate, &mut count, (0, 50), |_| 2_000);
        feed(&mut rate, &mut count, (50, 50_050), |_| 200);
        assert!((rate.peak / 5e6 - 1.0).abs() < 0.01, "{}", rate.peak);
    }

    #[test]
    fn short_interval_is_no_peak() {
        let (mut rate, mut count) = (Rate::default(), 0);
        feed(&mut rate, &mut count, (0, 100), |_| 200);
        rate.update(99.0 * PERIOD + 2e-5, count - 200 + 50);
        assert!(rate.now > 2.4e6 && rate.peak < 1.1e6, "{} {}", rate.now, rate.peak);
    }

    #[test]
    fn change_of_rate_is_no_dispersion() {
        let (mut rate, mut count) = (Rate::default(), 0);
        feed(&mut rate, &mut count, (0, 50), |_| 1_000);
        let before = rate.dispersion;
        feed(&mut rate, &mut count, (50, 52), |_| 10_000);
        assert!(rate.dispersion <= before, "{} {before}", rate.dispersion);
    }

    #[test]
    fn one_interval_moves_the_dispersion_little() {
        let (mut rate, mut count) = (Rate::default(), 0);
        let came = |index: u32| if index == 60 { 856 } else { 1_144 };
        feed(&mut rate, &mut count, (0, 60), |_| 1_000);
        feed(&mut rate, &mut count, (60, 62), came);
        rate.update(62.0 * PERIOD, count);
        assert!((0.7..1.0).contains(&rate.dispersion), "{}", rate.dispersion);
    }

    /// A square wave of 1 ms high and 1 ms low.
    #[test]
    fn slack_evens_out_a_height_that_does_not_last() {
        let (mut rate, mut count) = (Rate::default(), 0);
        feed(&mut rate, &mut count, (0, 100), |index| if index / 5 % 2 == 0 { 2_000 } else { 200 });
        feed(&mut rate, &mut count, (100, 106), |_| 2_000);
        assert!((rate.window.highest(0.0) / 1e7 - 1.0).abs() < 1e-6);
        let waits = rate.window.highest(1e-3);
        assert!((4e6..6e6).contains(&waits), "a millisecond may wait: {waits}");
    }

    #[test]
    fn recent_peak_is_that_of_one_or_two_stretches() {
        let mut recent = Recent::default();
        recent.update(1e-3, 9e6);
        recent.update(2e-3, 1e6);
        recent.update(10e-3, 1e6);
        assert_eq!(recent.highest(), 9e6);
        recent.update(19e-3, 1e6);
        assert_eq!(recent.highest(), 1e6);
    }
}
