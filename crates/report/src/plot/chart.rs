//! Lines and points over two axes.

use super::axis::Axis;
use super::colours::{self, Look};
use super::frame;
use super::labels::{Labels, Sign};
use super::mark::Mark;
use super::scale::Scale;
use super::svg::Svg;

/// A named run of points, in order of x for lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Mark that draws the values.
    pub mark: Mark,
    /// Values (x, y); points outside the axes are left out and break a line.
    pub points: Vec<(f64, f64)>,
    /// Half the interval of each point's y; not finite for a point without interval, empty if no
    /// point has one.
    pub halves: Vec<f64>,
}

/// A published range of y, drawn as a grey band, or a published single value, drawn as a dashed
/// line.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Name in the legend.
    pub name: String,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// A plot of series over two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Title above the plot.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Series, the last on top.
    pub series: Vec<Series>,
    /// True if the series are steps of one quantity, such as frequencies; they then have ordered
    /// colours.
    pub ordered: bool,
    /// Bands below the series.
    pub bands: Vec<Band>,
}

impl Chart {
    /// Creates an empty plot.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), ordered: false, bands: Vec::new() }
    }

    /// Adds a series.
    #[must_use]
    pub fn series(
        mut self,
        name: impl Into<String>,
        mark: Mark,
        points: impl IntoIterator<Item = (f64, f64)>,
    ) -> Self {
        let points = points.into_iter().collect();
        self.series.push(Series { name: name.into(), mark, points, halves: Vec::new() });
        self
    }

    /// Adds a series whose values have intervals: (x, y, half the interval of y).
    #[must_use]
    pub fn uncertain(
        self,
        name: impl Into<String>,
        mark: Mark,
        points: impl IntoIterator<Item = (f64, f64, f64)>,
    ) -> Self {
        let (points, halves): (Vec<_>, _) =
            points.into_iter().map(|(x, y, half)| ((x, y), half)).unzip();
        let mut chart = self.series(name, mark, points);
        if let Some(series) = chart.series.last_mut() {
            series.halves = halves;
        }
        chart
    }

    /// Gives the series ordered colours.
    #[must_use]
    pub fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Adds a band.
    #[must_use]
    pub fn band(mut self, name: impl Into<String>, low: f64, high: f64) -> Self {
        self.bands.push(Band { name: name.into(), low, high });
        self
    }

    /// Returns the plot as an SVG document.
    pub fn svg(&self) -> String {
        let (width, height) = (frame::WIDTH, frame::HEIGHT);
        let mut svg = Svg::new(width, height, &self.title, &self.x.label, &self.y.label);
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let edges = self.bands.iter().flat_map(|band| [band.low, band.high]);
        let x = Scale::new(&self.x, points().map(|p| p.0), (frame::LEFT, frame::RIGHT));
        let ends = self.series.iter().flat_map(Series::ends);
        let ys = points().map(|p| p.1).chain(edges).chain(ends);
        let y = Scale::new(&self.y, ys, (frame::BOTTOM, frame::TOP));
        frame::title(&mut svg, &self.title);
        frame::y_axis(&mut svg, &self.y, &y);
        frame::warn_of_distorted_heights(&mut svg, &self.y, &y);
        frame::x_axis(&mut svg, &self.x, &x);
        let mut labels = Labels::default();
        for band in &self.bands {
            let (low, high) = (y.clamped(band.low), y.clamped(band.high));
            let sign = if band.low < band.high {
                let height = (low - high).max(2.0);
                svg.rect((frame::LEFT, high, frame::RIGHT - frame::LEFT, height), "band");
                Sign::Band
            } else {
                // A band of a single value would look like a line of the grid.
                svg.line((frame::LEFT, low), (frame::RIGHT, low), "level");
                Sign::Level
            };
            labels.add(Some(f64::midpoint(low, high)), sign, &band.name);
        }
        let ours = self.series.iter().filter(|series| series.mark != Mark::Published).count();
        let mut looks = colours::line_looks(ours, self.ordered).into_iter();
        for series in &self.series {
            let look = if series.mark == Mark::Published { None } else { looks.next() };
            let end = draw(&mut svg, series, look.as_ref(), &x, &y);
            let sign = look.map_or(Sign::Published, |look| Sign::Series(series.mark, look));
            labels.add(end, sign, &series.name);
        }
        labels.draw(&mut svg, frame::HEIGHT - 12.0);
        frame::border(&mut svg);
        svg.finish()
    }
}

impl Series {
    /// Returns the ends of the intervals. A logarithmic axis cannot show an end below zero.
    fn ends(&self) -> impl Iterator<Item = f64> + '_ {
        let known = self.points.iter().zip(&self.halves).filter(|(_, half)| half.is_finite());
        known.flat_map(|((_, y), half)| [y + half, if half < y { y - half } else { *y }])
    }
}

/// Draws a series and returns the height of its right end.
///
/// Published values have no look; they are drawn as crosses.
fn draw(svg: &mut Svg, series: &Series, look: Option<&Look>, x: &Scale, y: &Scale) -> Option<f64> {
    let pixels: Vec<Option<(f64, f64)>> =
        series.points.iter().map(|p| Some((x.pixel(p.0)?, y.pixel(p.1)?))).collect();
    let shown = pixels.iter().zip(&series.points);
    let values: Vec<_> = shown.filter_map(|(pixel, point)| Some(((*pixel)?, *point))).collect();
    svg.values(&series.name, &values);
    if let (Some(look), Mark::Line | Mark::LineAndPoints) = (look, series.mark) {
        for run in pixels.split(Option::is_none) {
            let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
            if run.len() > 1 {
                svg.polyline(&run, look);
            }
        }
    }
    for ((pixel, (_, value)), half) in pixels.iter().zip(&series.points).zip(&series.halves) {
        if let Some((middle, _)) = pixel
            && half.is_finite()
        {
            svg.interval(*middle, (y.clamped(value + half), y.clamped(value - half)));
        }
    }
    match (look, series.mark) {
        (_, Mark::Line) => {}
        (Some(look), _) => svg.markers(look, pixels.iter().flatten().copied()),
        (None, _) => pixels.iter().flatten().for_each(|at| svg.cross(*at)),
    }
    let rightmost = values.iter().max_by(|a, b| a.0.0.total_cmp(&b.0.0));
    rightmost.map(|((_, y), _)| *y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_published_points_are_crosses() {
        let chart = Chart::new("a < b & \"c\"", Axis::new("x (s)"), Axis::new("y (W)"))
            .series("ours", Mark::Line, [(0.0, 1.0), (1.0, 2.0)])
            .series("paper", Mark::Published, [(0.5, 1.5)])
            .band("paper: 1 to 2", 1.0, 2.0);
        let svg = chart.svg();
        assert!(svg.contains("a &lt; b &amp; &quot;c&quot;"));
        assert!(svg.contains("y (W)") && svg.contains("x (s)"));
        assert!(svg.contains("class=\"cross\"") && svg.contains("<polyline class=\"l0\""));
        assert!(svg.contains("data-name=\"ours\" data-at=\"74,360,0,1 560,44,1,2\""), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
        assert!(svg.contains("class=\"band\"") && !svg.contains("class=\"level\""));
        let level = chart.band("driver's own", 1.5, 1.5).svg();
        assert_eq!(level.matches("class=\"level\"").count(), 2, "in the plot and next to its name");
    }

    #[test]
    fn intervals_are_drawn_within_the_axes() {
        let chart = |half: f64| {
            let plot = Chart::new("t", Axis::new("x").from_zero(), Axis::new("y").from_zero());
            let points = [(1.0, 100.0, half), (2.0, 110.0, half)];
            plot.uncertain("a", Mark::LineAndPoints, points).svg()
        };
        let intervals = |svg: &str| svg.matches("class=\"half\"").count();
        // A line and two ends each.
        assert_eq!([intervals(&chart(f64::NAN)), intervals(&chart(40.0))], [0, 6]);
        assert!(chart(40.0).contains(">150<"), "the axis reaches the interval's end");
        assert!(!chart(f64::NAN).contains(">150<"));
    }

    #[test]
    fn gap_in_the_data_breaks_the_line() {
        let points = [(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 1.0)];
        let chart = Chart::new("", Axis::new("x"), Axis::new("y")).series("s", Mark::Line, points);
        // Two pieces and the sample before its name.
        assert_eq!(chart.svg().matches("<polyline").count(), 3);
    }
}
