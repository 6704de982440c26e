//! Charts of lines and points over two axes.

use super::axis::Axis;
use super::frame::{self, Legend};
use super::palette::colour;
use super::scale::Scale;
use super::svg::Svg;

/// Drawing style of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line.
    Line,
    /// Points.
    Points,
    /// A line with its points marked.
    LineAndPoints,
    /// Published points, as black crosses.
    Published,
}

/// A named list of points, ordered by x for lines.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Drawing style.
    pub mark: Mark,
    /// Points (x, y); those outside the axes are left out and interrupt a line.
    pub points: Vec<(f64, f64)>,
}

/// A published range of y, drawn as a grey band.
#[derive(Debug, Clone, PartialEq)]
pub struct Band {
    /// Name in the legend.
    pub name: String,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
}

/// A plot of series over two axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Text above the plot.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Series in drawing order; the last one is on top.
    pub series: Vec<Series>,
    /// Bands below the series.
    pub bands: Vec<Band>,
}

/// Line styles, which distinguish more than six lines.
const DASHES: [&str; 3] = ["none", "7 4", "2 3"];

impl Chart {
    /// An empty plot.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, series: Vec::new(), bands: Vec::new() }
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
        self.series.push(Series { name: name.into(), mark, points });
        self
    }

    /// Adds a band.
    #[must_use]
    pub fn band(mut self, name: impl Into<String>, low: f64, high: f64) -> Self {
        self.bands.push(Band { name: name.into(), low, high });
        self
    }

    /// The plot as an SVG document.
    pub fn svg(&self) -> String {
        let mut svg = Svg::new(frame::WIDTH, frame::HEIGHT);
        let points = || self.series.iter().flat_map(|series| series.points.iter().copied());
        let edges = self.bands.iter().flat_map(|band| [band.low, band.high]);
        let x = Scale::new(&self.x, points().map(|p| p.0), (frame::LEFT, frame::RIGHT));
        let ys = points().map(|p| p.1).chain(edges);
        let y = Scale::new(&self.y, ys, (frame::BOTTOM, frame::TOP));
        frame::title(&mut svg, &self.title);
        frame::y_axis(&mut svg, &self.y, &y);
        frame::x_axis(&mut svg, &self.x, &x);
        for band in &self.bands {
            let (low, high) = (y.clamped(band.low), y.clamped(band.high));
            // A single value is a thin band.
            let height = (low - high).max(2.0);
            svg.band((frame::LEFT, high, frame::RIGHT - frame::LEFT, height));
        }
        let mut legend = Legend::new();
        let mut next = 0;
        for series in &self.series {
            let index = next;
            next += usize::from(series.mark != Mark::Published);
            draw(&mut svg, series, index, &x, &y);
            legend.entry(&mut svg, &series.name, |svg, y| sample(svg, series.mark, index, y));
        }
        for band in &self.bands {
            legend.entry(&mut svg, &band.name, |svg, y| {
                svg.band((Legend::SIGN - 13.0, y - 6.0, 26.0, 12.0));
            });
        }
        frame::border(&mut svg);
        svg.finish()
    }
}

fn draw(svg: &mut Svg, series: &Series, index: usize, x: &Scale, y: &Scale) {
    let pixels: Vec<Option<(f64, f64)>> =
        series.points.iter().map(|p| Some((x.pixel(p.0)?, y.pixel(p.1)?))).collect();
    if matches!(series.mark, Mark::Line | Mark::LineAndPoints) {
        for run in pixels.split(Option::is_none) {
            let run: Vec<(f64, f64)> = run.iter().flatten().copied().collect();
            if run.len() > 1 {
                svg.polyline(&run, colour(index), DASHES[index / 6 % 3]);
            }
        }
    }
    for at in pixels.into_iter().flatten() {
        point(svg, series.mark, index, at);
    }
}

fn point(svg: &mut Svg, mark: Mark, index: usize, at: (f64, f64)) {
    match mark {
        Mark::Line => {}
        Mark::Points | Mark::LineAndPoints => svg.marker(index, at, colour(index)),
        Mark::Published => svg.cross(at),
    }
}

fn sample(svg: &mut Svg, mark: Mark, index: usize, y: f64) {
    if matches!(mark, Mark::Line | Mark::LineAndPoints) {
        let ends = [(Legend::SIGN - 13.0, y), (Legend::SIGN + 13.0, y)];
        svg.polyline(&ends, colour(index), DASHES[index / 6 % 3]);
    }
    point(svg, mark, index, (Legend::SIGN, y));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_published_points_are_black() {
        let chart = Chart::new("a < b & \"c\"", Axis::new("x (s)"), Axis::new("y (W)"))
            .series("ours", Mark::Line, [(0.0, 1.0), (1.0, 2.0)])
            .series("paper", Mark::Published, [(0.5, 1.5)])
            .band("paper: 1 to 2", 1.0, 2.0);
        let svg = chart.svg();
        assert!(svg.contains("a &lt; b &amp; &quot;c&quot;"));
        assert!(svg.contains("y (W)") && svg.contains("x (s)"));
        assert!(svg.contains("#000000") && svg.contains(COLOUR));
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    const COLOUR: &str = "#0072B2";

    #[test]
    fn a_gap_in_the_data_breaks_the_line() {
        let points = [(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0), (4.0, 1.0)];
        let chart = Chart::new("", Axis::new("x"), Axis::new("y")).series("s", Mark::Line, points);
        // Two pieces, and the sample in the legend.
        assert_eq!(chart.svg().matches("<polyline").count(), 3);
    }
}
