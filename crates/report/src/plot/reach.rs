//! Extent of the bars of a plot, up and down.

use super::bars::{BarSeries, Bars};

impl Bars {
    /// Returns half the interval of a bar, or 0.
    pub(super) fn half(&self, series: usize, group: usize) -> f64 {
        let half = self.halves.get(series).and_then(|halves| halves.get(group)).copied();
        half.filter(|half| half.is_finite()).unwrap_or(0.0)
    }

    /// Returns the highest end of a bar, stack or published value.
    pub(super) fn highest(&self) -> f64 {
        let value = |(index, series): (usize, &BarSeries), group: usize| {
            let value = series.values.get(group).copied().filter(|v| v.is_finite());
            value.unwrap_or(0.0) + self.half(index, group)
        };
        let groups = (0..self.groups.len()).map(|group| {
            let values = self.series.iter().enumerate().map(|series| value(series, group));
            if self.stacked { values.sum() } else { values.fold(0.0, f64::max) }
        });
        let printed = self.published.iter().flatten().copied();
        let of_series = self.series.iter().flat_map(|s| s.published.iter().flatten().copied());
        let highest = groups.chain(printed).chain(of_series).fold(0.0, f64::max);
        // If all bars are negative, the upper end is the zero line.
        if highest > 0.0 || self.lowest() < 0.0 { highest } else { 1.0 }
    }

    /// Returns the lowest end of a bar below zero; stacks have none.
    pub(super) fn lowest(&self) -> f64 {
        if self.stacked {
            return 0.0;
        }
        let ends = self.series.iter().enumerate().flat_map(|(index, series)| {
            let values = series.values.iter().take(self.groups.len()).enumerate();
            values.map(move |(group, value)| value - self.half(index, group))
        });
        let published = self.series.iter().flat_map(|series| series.published.iter().flatten());
        let ends = ends.filter(|end| end.is_finite()).chain(published.copied());
        ends.fold(0.0, f64::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::axis::Axis;
    use crate::plot::frame;

    /// Returns the upper end and the height of every bar.
    fn bars_of(values: &[f64]) -> Vec<(f64, f64)> {
        let bars = Bars::new("t", "traffic", Axis::new("beside the first (%)"), ["1"]);
        let bars = values.iter().fold(bars, |bars, value| bars.series("s", [*value]));
        let svg = bars.svg();
        let bars = svg.split("<rect ").skip(1).filter(|rest| rest.contains("<title>"));
        let number = |rest: &str, key: &str| {
            let (_, rest) = rest.split_once(&format!(" {key}=\"")).unwrap();
            rest.split_once('"').unwrap().0.parse().unwrap()
        };
        bars.map(|rest| (number(rest, "y"), number(rest, "height"))).collect()
    }

    #[test]
    fn negative_bar_hangs_from_the_zero_line() {
        for values in [&[10.0, -5.0][..], &[0.0, -5.0], &[-5.0, -10.0]] {
            let found = bars_of(values);
            assert_eq!(found.len(), values.len(), "{values:?}");
            let scale = found.iter().zip(values).map(|((_, height), value)| height / value.abs());
            let scale: Vec<f64> = scale.filter(|scale| scale.is_finite()).collect();
            assert!(scale.iter().all(|of| (of - scale[0]).abs() < 0.1 && *of > 5.0), "{found:?}");
            let zero = |((top, height), value): (&(f64, f64), &f64)| {
                if *value > 0.0 { top + height } else { *top }
            };
            let zeros: Vec<f64> = found.iter().zip(values).map(zero).collect();
            assert!(zeros.iter().all(|at| (at - zeros[0]).abs() < 0.2), "{zeros:?}");
            assert!(found.iter().all(|(top, height)| top + height <= frame::BOTTOM + 0.1));
        }
    }
}
