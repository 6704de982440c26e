//! Mapping from values to pixels, with ticks at round values.

use super::axis::Axis;

/// Ticks of a decade of a logarithmic axis, the densest set first.
const WITHIN: [&[f64]; 4] =
    [&[1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
/// Smallest number of ticks from which distances can be read.
const FEWEST: usize = 3;
/// Widths of a large letter and of the gap between two ticks, in pixels.
const LETTER: f64 = 8.5;
const GAP: f64 = 8.0;

/// Maps the values of an axis to pixels.
#[derive(Debug, Clone)]
pub(super) struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    step: Option<f64>,
    from: f64,
    to: f64,
}

impl Scale {
    /// Creates a scale between two pixels for `values`, unless the axis has its own range.
    pub(super) fn new(
        axis: &Axis,
        values: impl Iterator<Item = f64>,
        (from, to): (f64, f64),
    ) -> Self {
        let usable = |v: &f64| v.is_finite() && (!axis.logarithmic || *v > 0.0);
        let (low, high) = axis.range.unwrap_or_else(|| {
            let zero = (axis.with_zero && !axis.logarithmic).then_some(0.0);
            let values = values.filter(usable).chain(zero);
            values.fold((f64::MAX, f64::MIN), |(l, h), v| (l.min(v), h.max(v)))
        });
        // Without data, or if all values are equal, any range that contains them will do.
        let (low, high) = match (low < high, low.is_finite() && low <= high) {
            (true, _) => (low, high),
            (false, true) if axis.logarithmic => (low / 2.0, low * 2.0),
            (false, true) if axis.with_zero && low == 0.0 => (0.0, 1.0),
            (false, true) => (low - 0.5, low + 0.5),
            (false, false) => (if axis.logarithmic { 0.1 } else { 0.0 }, 1.0),
        };
        let mut scale =
            Self { low, high, logarithmic: axis.logarithmic, step: axis.step, from, to };
        if axis.range.is_none() && !axis.logarithmic {
            let step = scale.step();
            scale.low = (low / step).floor() * step;
            scale.high = (high / step).ceil() * step;
        }
        scale
    }

    /// Returns the pixel of a value; `None` outside the axis.
    pub(super) fn pixel(&self, value: f64) -> Option<f64> {
        let slack = 1e-9 * (self.high - self.low);
        if !(self.low - slack..=self.high + slack).contains(&value) {
            return None;
        }
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        Some(self.from + share * (self.to - self.from))
    }

    /// Returns the pixel of a value, clamped to the ends of the axis.
    pub(super) fn clamped(&self, value: f64) -> f64 {
        self.pixel(value.clamp(self.low, self.high)).unwrap_or(self.from)
    }

    /// Returns true if heights above the lower end are not proportional to amounts.
    pub(super) fn begins_above_zero(&self) -> bool {
        self.low > 0.0
    }

    /// Returns values and texts of the ticks. A logarithmic axis has as many of its usual ticks as
    /// fit side by side, or linear ticks if these are fewer than three.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        if self.logarithmic {
            let room = (self.to - self.from).abs();
            let fits = |ticks: &Vec<(f64, String)>| {
                let longest = ticks.iter().map(|(_, text)| text.len()).max().unwrap_or(0);
                ticks.len() as f64 * (longest as f64 * LETTER + GAP) <= room
            };
            let fitting = WITHIN.iter().map(|within| self.decades(within)).find(fits);
            let ticks = fitting.unwrap_or_else(|| self.decades(&[1.0]));
            if ticks.len() >= FEWEST {
                return ticks;
            }
        }
        let step = self.step();
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).map(|v| (v, plain(v, step))).collect()
    }

    /// Returns ticks at these multiples of each power of ten.
    fn decades(&self, within: &[f64]) -> Vec<(f64, String)> {
        let decades = self.low.log10().floor() as i32..=self.high.log10().floor() as i32;
        let all = decades.flat_map(|n| within.iter().map(move |m| m * 10f64.powi(n)));
        let slack = 1.0 + 1e-9;
        let shown = all.filter(|v| (self.low / slack..=self.high * slack).contains(v));
        shown.map(|v| (v, plain(v, v))).collect()
    }

    /// Returns the distance between ticks: as requested, or a round value that gives about six
    /// ticks.
    fn step(&self) -> f64 {
        if let Some(step) = self.step.filter(|step| *step > 0.0) {
            return step;
        }
        let rough = (self.high - self.low) / 6.0;
        let decade = 10f64.powf(rough.log10().floor());
        let round = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().find(|m| m * decade >= rough * 0.999);
        round.unwrap_or(10.0) * decade
    }
}

/// Formats a value with as many decimals as the step needs.
fn plain(value: f64, step: f64) -> String {
    let digits = (0..9).find(|&n| {
        let scaled = step * 10f64.powi(n);
        (scaled - scaled.round()).abs() < 1e-6 * scaled
    });
    let text = format!("{value:.*}", digits.unwrap_or(3) as usize);
    if text.starts_with('-') && text.trim_matches(['-', '0', '.']).is_empty() {
        return text.trim_start_matches('-').to_owned();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_from_zero_with_only_zeros_does_not_go_below() {
        let scale = Scale::new(&Axis::new("lost").from_zero(), [0.0, 0.0].into_iter(), (0.0, 1.0));
        let ticks = scale.ticks();
        assert_eq!(ticks.first().map(|tick| tick.0), Some(0.0));
        assert!(ticks.len() > 2 && !scale.begins_above_zero());
    }

    fn logarithmic_ticks(low: f64, high: f64, room: f64) -> Vec<String> {
        let axis = Axis::new("latency").logarithmic();
        let scale = Scale::new(&axis, [low, high].into_iter(), (0.0, room));
        scale.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn short_logarithmic_axis_has_ticks() {
        assert_eq!(logarithmic_ticks(9.8, 17.0, 486.0), ["10", "12", "15"]);
        assert_eq!(logarithmic_ticks(9.8, 11.4, 486.0), ["10.0", "10.5", "11.0"]);
        assert_eq!(logarithmic_ticks(31.0, 33.0, 486.0), ["31.0", "31.5", "32.0", "32.5", "33.0"]);
        for (low, width) in (1..1000).flat_map(|low| (101..400).map(move |width| (low, width))) {
            let (low, width) = (f64::from(low) / 10.0, f64::from(width) / 100.0);
            let ticks = logarithmic_ticks(low, low * width, 270.0);
            assert!((3..=8).contains(&ticks.len()), "{low} to {}: {ticks:?}", low * width);
        }
    }

    fn ticks(low: f64, high: f64) -> Vec<String> {
        let scale = Scale::new(&Axis::new("x"), [low, high].into_iter(), (0.0, 100.0));
        scale.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_the_data() {
        assert_eq!(ticks(0.0, 29.0), ["0", "5", "10", "15", "20", "25", "30"]);
        assert_eq!(ticks(1.6, 3.3333), ["1.5", "2.0", "2.5", "3.0", "3.5"]);
        assert_eq!(ticks(-0.3, 0.3).first().map(String::as_str), Some("-0.3"));
        assert!(ticks(-0.3, 0.3).contains(&"0.0".to_owned()));
    }

    #[test]
    fn axis_without_data_or_extent_has_a_scale() {
        for values in [vec![], vec![5.0], vec![5.0, 5.0], vec![f64::NAN]] {
            for axis in [Axis::new("x"), Axis::new("x").logarithmic()] {
                let scale = Scale::new(&axis, values.iter().copied(), (0.0, 100.0));
                assert!(scale.ticks().len() < 20);
                for value in &values {
                    assert!(scale.pixel(*value).is_none_or(f64::is_finite));
                }
            }
        }
    }

    #[test]
    fn logarithmic_ticks_are_at_one_two_and_five() {
        let axis = Axis::new("x").logarithmic();
        let scale = Scale::new(&axis, [1.0, 1000.0].into_iter(), (0.0, 486.0));
        assert_eq!(scale.pixel(10.0).map(f64::round), Some(162.0));
        let all = ["1", "2", "5", "10", "20", "50", "100", "200", "500", "1000"];
        assert_eq!(logarithmic_ticks(1.0, 1000.0, 486.0), all);
        assert_eq!(logarithmic_ticks(1.0, 1000.0, 270.0), ["1", "10", "100", "1000"]);
        let longer = logarithmic_ticks(16.0, 25e3, 486.0);
        assert_eq!(longer, ["30", "100", "300", "1000", "3000", "10000"]);
        assert_eq!(logarithmic_ticks(1.0, 1e6, 486.0).len(), 7);
    }
}
