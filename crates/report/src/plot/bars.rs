//! Grouped bars, side by side or stacked.

use super::axis::Axis;
use super::colours::{self, Look};
use super::frame;
use super::labels::{Labels, Sign};
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use super::values::{SMALL_LETTER, Values, short};
use crate::table::number;

/// Half the height of a cross, and some room.
const CROSS: f64 = 7.0;
/// Bars of one colour, one per group.
#[derive(Debug, Clone, PartialEq)]
pub struct BarSeries {
    /// Name in the legend.
    pub name: String,
    /// One value per group; NaN leaves the bar out.
    pub values: Vec<f64>,
    /// Published value of each bar, if any.
    pub published: Vec<Option<f64>>,
}

/// A plot of grouped bars.
#[derive(Debug, Clone, PartialEq)]
pub struct Bars {
    /// Text above the plot.
    pub title: String,
    /// Text below the plot.
    pub x_label: String,
    /// Vertical axis. Unless it has a range, it begins at zero, or at the lowest negative bar.
    pub y: Axis,
    /// Names of the groups.
    pub groups: Vec<String>,
    /// Bars by colour.
    pub series: Vec<BarSeries>,
    /// True if bars are stacked instead of side by side.
    pub stacked: bool,
    /// True if the series are steps of one quantity, such as frequencies; they then have ordered
    /// colours.
    pub ordered: bool,
    /// Half the interval of each bar, by series and group, if known; not for stacks.
    pub halves: Vec<Vec<f64>>,
    /// Published value of each whole group, if any.
    pub published: Vec<Option<f64>>,
}

impl Bars {
    /// Creates a plot with these groups and without bars.
    pub fn new(
        title: impl Into<String>,
        x_label: impl Into<String>,
        y: Axis,
        groups: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            title: title.into(),
            x_label: x_label.into(),
            y,
            groups: groups.into_iter().map(Into::into).collect(),
            series: Vec::new(),
            stacked: false,
            ordered: false,
            halves: Vec::new(),
            published: Vec::new(),
        }
    }

    /// Adds bars of one colour, one per group.
    #[must_use]
    pub fn series(self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) -> Self {
        self.uncertain(name, values.into_iter().map(|value| (value, 0.0)))
    }

    /// Adds bars of one colour, each with half its interval; zero if unknown.
    #[must_use]
    pub fn uncertain(
        mut self,
        name: impl Into<String>,
        values: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let (values, halves) = values.into_iter().unzip();
        self.series.push(BarSeries { name: name.into(), values, published: Vec::new() });
        self.halves.push(halves);
        self
    }

    /// Sets the published value of each bar of the last series.
    #[must_use]
    pub fn published_values(mut self, published: impl IntoIterator<Item = Option<f64>>) -> Self {
        if let Some(series) = self.series.last_mut() {
            series.published = published.into_iter().collect();
        }
        self
    }

    /// Stacks the bars, with the published value of each whole group.
    #[must_use]
    pub fn stacked(self, published: impl IntoIterator<Item = Option<f64>>) -> Self {
        Self { stacked: true, published: published.into_iter().collect(), ..self }
    }

    /// Colours the series as steps of one quantity.
    #[must_use]
    pub fn ordered(self) -> Self {
        Self { ordered: true, ..self }
    }

    /// Returns the plot as an SVG document.
    pub fn svg(&self) -> String {
        let (width, height) = (frame::WIDTH, frame::HEIGHT);
        let mut svg = Svg::new(width, height, &self.title, &self.x_label, &self.y.label);
        let looks = colours::bar_looks(self.series.len(), self.ordered);
        let step = (frame::RIGHT - frame::LEFT) / self.groups.len().max(1) as f64;
        let numbers = self.series.iter().flat_map(|series| &series.values).copied();
        let (values, above) = match self.stacked {
            true => (Values::None, 24.0),
            false => {
                let width = 0.8 * step / self.series.len().max(1) as f64;
                Values::choose(numbers, width, self.y.range.is_none())
            }
        };
        let mut axis = self.y.clone();
        let free = 1.0 - (above / (frame::BOTTOM - frame::TOP)).min(0.5);
        let lowest = self.lowest();
        axis.range =
            axis.range.or_else(|| Some((lowest, lowest + (self.highest() - lowest) / free)));
        let y = Scale::new(&axis, std::iter::empty(), (frame::BOTTOM, frame::TOP));
        frame::title(&mut svg, &self.title);
        frame::y_axis(&mut svg, &axis, &y);
        for index in 0..self.groups.len() {
            let left = frame::LEFT + step * index as f64;
            if self.stacked {
                self.stack(&mut svg, &looks, index, (left + 0.2 * step, 0.6 * step), &y);
            } else {
                let place = (left + 0.1 * step, 0.8 * step);
                self.side_by_side(&mut svg, &looks, index, place, (&y, values));
            }
            if let Some(value) = self.published.get(index).copied().flatten()
                && let Some(at) = y.pixel(value)
            {
                svg.cross((left + step / 2.0, at));
            }
        }
        if let Some(zero) = y.pixel(0.0).filter(|zero| *zero < frame::BOTTOM) {
            svg.line((frame::LEFT, zero), (frame::RIGHT, zero), "axis");
        }
        let height = frame::groups(&mut svg, &self.groups);
        frame::x_label(&mut svg, &self.x_label, height);
        let mut labels = Labels::default();
        let mut named: Vec<_> = self.series.iter().zip(looks).collect();
        if self.stacked {
            // From the top down, in the order of the stack.
            named.reverse();
        }
        for (series, look) in named {
            labels.add(None, Sign::Bar(look), &series.name);
        }
        let of_series = self.series.iter().flat_map(|series| &series.published);
        if self.published.iter().chain(of_series).any(Option::is_some) {
            labels.add(None, Sign::Published, "published");
        }
        labels.draw(&mut svg, frame::HEIGHT - 12.0);
        frame::border(&mut svg);
        svg.bar_values(&self.groups, &self.data());
        svg.finish()
    }

    /// Returns all values by series, with the published ones.
    fn data(&self) -> Vec<(&str, Vec<String>)> {
        let mut data: Vec<(&str, Vec<String>)> = Vec::new();
        let texts = |values: &[f64]| values.iter().map(|value| number(*value)).collect();
        let printed = |values: &[Option<f64>]| {
            values.iter().map(|value| number(value.unwrap_or(f64::NAN))).collect()
        };
        for series in &self.series {
            data.push((&series.name, texts(&series.values)));
            if series.published.iter().any(Option::is_some) {
                data.push(("published", printed(&series.published)));
            }
        }
        if self.published.iter().any(Option::is_some) {
            data.push(("published, whole group", printed(&self.published)));
        }
        data
    }

    fn stack(
        &self,
        svg: &mut Svg,
        looks: &[Look],
        group: usize,
        (left, width): (f64, f64),
        y: &Scale,
    ) {
        let mut sum = 0.0;
        for (series, look) in self.series.iter().zip(looks) {
            let value = series.values.get(group).copied().unwrap_or(f64::NAN);
            if value > 0.0 {
                let (low, high) = (y.clamped(sum), y.clamped(sum + value));
                let name = self.groups.get(group).map_or("", String::as_str);
                let (series, exact) = (&series.name, number(value));
                let class = format!("edge {}", look.bar());
                let title = format!("{name}, {series}: {exact}");
                let at = (left, high, width, low - high);
                svg.titled_rect(at, &class, &title);
                svg.texture(at, look);
                sum += value;
            }
        }
        let at = (left + width / 2.0, y.clamped(sum) - 8.0);
        svg.text(at, Anchor::Middle, 13, "", &short(sum));
    }

    fn side_by_side(
        &self,
        svg: &mut Svg,
        looks: &[Look],
        group: usize,
        (left, width): (f64, f64),
        (y, values): (&Scale, Values),
    ) {
        let step = width / self.series.len().max(1) as f64;
        for (index, (series, look)) in self.series.iter().zip(looks).enumerate() {
            let x = left + step * index as f64;
            let value = series.values.get(group).copied().unwrap_or(f64::NAN);
            let printed = series.published.get(group).copied().flatten();
            if value.is_finite() {
                let (base, top) = (y.clamped(0.0), y.clamped(value));
                let at = (x, top.min(base), 0.92 * step, (base - top).abs());
                let name = self.groups.get(group).map_or("", String::as_str);
                let (series, exact) = (&series.name, number(value));
                svg.titled_rect(at, &look.bar(), &format!("{name}, {series}: {exact}"));
                svg.texture(at, look);
                let half = self.half(index, group);
                let (text, middle) = (short(value), x + 0.46 * step);
                let mut above = top.min(base);
                if half > 0.0 {
                    above = above.min(y.clamped(value + half));
                    svg.interval(middle, (above, y.clamped(value - half)));
                }
                if let Some(cross) = printed.and_then(|value| y.pixel(value))
                    && (above - CROSS - SMALL_LETTER * text.len() as f64..above).contains(&cross)
                {
                    above = cross - CROSS;
                }
                values.draw(svg, (middle, above), &text);
            }
            if let Some(at) = printed.and_then(|value| y.pixel(value)) {
                svg.cross((x + 0.46 * step, at));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_both_kinds_stay_within_the_plot() {
        for stacked in [false, true] {
            let bars = Bars::new("t", "group", Axis::new("power (W)"), ["a", "b"])
                .uncertain("one", [(1.0, 0.5), (f64::NAN, 0.0)])
                .published_values([Some(1.1), None])
                .series("two", [3.0]);
            let totals = [Some(4.0), None];
            let bars = if stacked { bars.stacked(totals) } else { bars };
            let svg = bars.svg();
            assert!(svg.contains("published"));
            assert_eq!(svg.contains("class=\"half\""), !stacked);
            assert!(!svg.contains("NaN") && !svg.contains("height=\"-"), "{svg}");
        }
    }

    /// Returns the texts on top of bars, which have 11 pixels.
    fn values_of(groups: usize, values: &[f64]) -> Vec<String> {
        let names = (0..groups).map(|group| group.to_string());
        let bars = Bars::new("t", "run", Axis::new("mean"), names);
        let bars = values.iter().fold(bars, |bars, value| bars.series("s", vec![*value; groups]));
        let svg = bars.svg();
        let texts = svg.split("font-size=\"11\">").skip(1);
        texts.map(|rest| rest.split('<').next().unwrap_or_default().to_owned()).collect()
    }

    #[test]
    fn either_all_bars_have_values_or_none() {
        assert_eq!(values_of(1, &[7.0e-6, 1.9e-5]), ["7e-6", "1.9e-5"]);
        assert_eq!(values_of(6, &[0.4123, 0.4, 12.0]).len(), 18, "upright where they are narrow");
        assert_eq!(values_of(1, &[0.4123, 41_234.0]), ["0.412", "41200"]);
        assert!(values_of(40, &[0.4123, 0.4]).is_empty());
    }
}
