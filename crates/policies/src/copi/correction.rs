//! Correction of the tables by measured latency: a factor on their latencies.
//!
//! A measurement is compared with the tables' figures for the points in force while its samples
//! were taken. Samples of a window can be older than the last correction. Such a measurement is
//! ignored, so that a single bad second is not counted again and again.

use std::collections::VecDeque;
use wattline_units::{Span, Time};

use wattline_policy::LatencyView;

/// Fewer samples than this do not support a 95th percentile: of this many, twenty lie beyond it.
const LEAST_SAMPLES: u64 = 400;
/// Factor by which a measured latency may exceed the target before it counts as missed: the noise
/// of a percentile over a tenth of a second.
const NOISE: f64 = 1.05;
/// Largest correction: tables that are off by a factor of four belong to another workload.
const MOST: f64 = 4.0;
/// Time constant, in seconds, with which a correction is reduced while the target is met; this
/// takes at least [`LOOKS_BACK`] measurements.
const RECOVERY_SECONDS: f64 = 2.0;
/// See [`RECOVERY_SECONDS`].
const LOOKS_BACK: f64 = 4.0;
/// A smaller correction is dropped.
const FORGOTTEN: f64 = 1.005;
/// Minimum share of the requests whose points the tables must contain.
const KNOWN_SHARE: f64 = 0.5;
/// Number of decisions remembered: a minute at ten per second.
const REMEMBERED: usize = 600;

/// Figures of the tables for the points in force up to some time, summed over the cores, each
/// weighted by its requests per second.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stretch {
    /// Requests per second of all cores.
    pub load: f64,
    /// Load of cores whose point the tables contain.
    pub known: f64,
    /// Latency from the tables, in seconds, times the known load.
    pub tabled: f64,
    /// Latency target, in seconds, times the known load.
    pub target: f64,
    /// Part of the known load served at the highest state with the driver's moderation.
    pub by_default: f64,
}

impl Stretch {
    /// Adds a core with this load, which ran at the highest state with the driver's moderation or
    /// at another point; the tables' latency and the target are in seconds.
    pub fn add(&mut self, load: f64, tabled_and_target: Option<(f64, f64)>, by_default: bool) {
        self.load += load;
        if let Some((tabled, target)) = tabled_and_target.filter(|(tabled, _)| tabled.is_finite()) {
            self.known += load;
            self.by_default += if by_default { load } else { 0.0 };
            self.tabled += tabled * load;
            self.target += target * load;
        }
    }

    fn and(self, other: &Self) -> Self {
        Self {
            load: self.load + other.load,
            known: self.known + other.known,
            tabled: self.tabled + other.tabled,
            target: self.target + other.target,
            by_default: self.by_default + other.by_default,
        }
    }
}

/// Factor on the tables' latencies.
#[derive(Debug)]
pub(super) struct Correction {
    factor: f64,
    /// Ratio of measured to tabled latency at the default point: at most the factor, so that it
    /// vanishes when the tables are right again.
    default_factor: f64,
    /// Share of a gap corrected per measurement.
    share: f64,
    /// The last stretches, each with its end.
    past: VecDeque<(Time, Stretch)>,
    /// Time of the last change of the factor.
    changed: Time,
}

impl Correction {
    /// Starts without a correction; each measurement corrects this share of a gap.
    pub fn new(share: f64) -> Self {
        Self { factor: 1.0, default_factor: 1.0, share, past: VecDeque::new(), changed: Time::ZERO }
    }

    /// Returns the factor to multiply the tables' latencies by.
    pub fn factor(&self) -> f64 {
        self.factor
    }

    /// Returns the factor for a target that is the tables' latency of the highest state with the
    /// driver's moderation. If the source of latencies includes more than the profile did (a longer
    /// path, another clock), this point is affected, too; with the tables' own target, no point
    /// would ever be feasible.
    pub fn target_factor(&self) -> f64 {
        self.default_factor
    }

    /// Remembers the points in force from `from` to `now`, and corrects part of the gap between the
    /// measurement and the tables.
    pub fn learn(
        &mut self,
        (from, now): (Time, Time),
        stretch: Stretch,
        measured: Option<LatencyView>,
    ) {
        if self.share <= 0.0 {
            return;
        }
        if self.past.len() == REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back((now, stretch));
        let fit = |view: &LatencyView| view.samples >= LEAST_SAMPLES && !view.part;
        let Some(view) = measured.filter(fit) else { return };
        let since = view.since(now).unwrap_or(from);
        if since < self.changed {
            return;
        }
        let during = self.past.iter().filter(|(end, _)| *end > since);
        let sum = during.fold(Stretch::default(), |sum, (_, stretch)| sum.and(stretch));
        if sum.known <= 0.0 || sum.known < KNOWN_SHARE * sum.load || sum.tabled <= 0.0 {
            return;
        }
        let tabled = sum.tabled / sum.known;
        self.weigh(view.p95, tabled, sum.target / sum.known, now.since(since));
        if sum.by_default >= sum.known {
            let ratio = (view.p95.as_seconds() / tabled).clamp(1.0, MOST);
            self.default_factor += self.share * (ratio - self.default_factor);
        }
        self.default_factor = self.default_factor.min(self.factor);
        self.changed = now;
    }

    /// Applies a measurement over a span; `tabled` and `target` are in seconds.
    fn weigh(&mut self, p95: Span, tabled: f64, target: f64, over: Span) {
        let measured = p95.as_seconds();
        let ratio = (measured / tabled).clamp(1.0, MOST);
        if measured > target * NOISE {
            self.factor += self.share * (ratio - self.factor);
            return;
        }
        // Reduced no further than the measurement allows: otherwise a machine that is always slower
        // than its tables would miss the target repeatedly.
        let over = over.as_seconds();
        let constant = RECOVERY_SECONDS.max(LOOKS_BACK * over);
        let back = 1.0 - (-over / constant).exp();
        self.factor += back * (ratio.min(self.factor) - self.factor);
        // A factor slightly above 1 would permanently exclude points that meet the target exactly.
        if self.factor < FORGOTTEN {
            self.factor = 1.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: f64 = 1e-3;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn stretch(tabled: f64) -> Stretch {
        let mut stretch = Stretch::default();
        stretch.add(1_000.0, Some((tabled, TARGET)), false);
        stretch
    }

    fn view(micros: u64, window: Span) -> Option<LatencyView> {
        let p95 = Span::from_micros(micros);
        Some(LatencyView { samples: 1_000, p95, window, ..LatencyView::default() })
    }

    /// Makes a decision every 100 ms from the first of `steps` to the last.
    fn pass(
        correction: &mut Correction,
        steps: std::ops::Range<u64>,
        tabled: f64,
        seen: Option<LatencyView>,
    ) {
        for step in steps {
            correction.learn((at(100 * step), at(100 * step + 100)), stretch(tabled), seen);
        }
    }

    #[test]
    fn bad_second_within_a_window_counts_once() {
        let window = Span::from_millis(5_000);
        let mut correction = Correction::new(0.5);
        pass(&mut correction, 0..60, 1e-3, None);
        // The bad second stays in the window for five seconds; meanwhile the tables' points get
        // faster.
        pass(&mut correction, 60..105, 0.5e-3, view(2_000, window));
        let tabled = (49.0 * 1e-3 + 0.5e-3) / 50.0;
        let once = 1.0 + 0.5 * (2e-3 / tabled - 1.0);
        assert!((correction.factor() - once).abs() < 1e-9, "{}, not {once}", correction.factor());
        // After the window, measurements count again.
        pass(&mut correction, 105..112, 0.5e-3, view(2_000, window));
        assert!(correction.factor() > 2.0, "{}", correction.factor());
    }

    #[test]
    fn correction_is_reduced_as_far_as_the_measurement_allows() {
        let mut correction = Correction::new(1.0);
        pass(&mut correction, 0..1, 1e-3, view(1_400, Span::ZERO));
        assert!((correction.factor() - 1.4).abs() < 1e-9);
        pass(&mut correction, 1..600, 0.7e-3, view(980, Span::ZERO));
        assert!((correction.factor() - 1.4).abs() < 1e-9, "still slower than the tables");
        pass(&mut correction, 600..603, 0.7e-3, view(700, Span::ZERO));
        assert!((1.3..1.4).contains(&correction.factor()), "little by little");
        pass(&mut correction, 603..900, 0.7e-3, view(700, Span::ZERO));
        assert_eq!(correction.factor(), 1.0, "as fast as they say");
    }

    #[test]
    fn few_samples_partial_services_and_unknown_points_are_ignored() {
        let mut correction = Correction::new(0.5);
        let bad = view(9_000, Span::ZERO).unwrap();
        pass(&mut correction, 0..9, 1e-3, Some(LatencyView { samples: 399, ..bad }));
        pass(&mut correction, 9..19, 1e-3, Some(LatencyView { part: true, ..bad }));
        let mut mostly_unknown = stretch(1e-3);
        mostly_unknown.add(1_001.0, None, false);
        correction.learn((at(1_900), at(2_000)), mostly_unknown, Some(bad));
        let mut saturated = Stretch::default();
        saturated.add(1_000.0, Some((f64::INFINITY, TARGET)), false);
        correction.learn((at(2_000), at(2_100)), saturated, Some(bad));
        assert_eq!(correction.factor(), 1.0);
        pass(&mut correction, 21..22, 1e-3, Some(bad));
        assert_eq!(correction.factor(), 1.0 + 0.5 * 3.0, "no more than fourfold");
    }

    #[test]
    fn excess_at_the_default_point_moves_the_target_and_ends_with_the_correction() {
        let mut by_default = Stretch::default();
        by_default.add(1_000.0, Some((TARGET, TARGET)), true);
        let mut correction = Correction::new(0.5);
        for step in 0..40 {
            let times = (at(100 * step), at(100 * step + 100));
            correction.learn(times, by_default, view(1_200, Span::ZERO));
        }
        // Up to the noise of a percentile.
        assert!((1.14..=1.2).contains(&correction.factor()), "{}", correction.factor());
        assert_eq!(correction.target_factor(), correction.factor());
        // Other points teach nothing about the default; both factors vanish when the tables are
        // right.
        pass(&mut correction, 40..41, 0.8e-3, view(1_100, Span::ZERO));
        assert!(correction.factor() > correction.target_factor());
        pass(&mut correction, 41..400, 0.8e-3, view(800, Span::ZERO));
        assert_eq!((correction.factor(), correction.target_factor()), (1.0, 1.0));
    }
}
