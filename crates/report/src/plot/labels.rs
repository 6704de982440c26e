//! Names of series and bands to the right of the plot, each as near as possible to the end of its
//! line.

use super::colours::Look;
use super::frame::{self, LINE, RIGHT, TOP};
use super::mark::Mark;
use super::svg::{Anchor, Svg};

/// Sign before a name.
#[derive(Debug, Clone)]
pub(super) enum Sign {
    /// Line or point of a series.
    Series(Mark, Look),
    /// A bar.
    Bar(Look),
    /// Published value: a cross.
    Published,
    /// A grey band.
    Band,
    /// A single value, as a dashed line.
    Level,
}

/// Horizontal position of a sign's middle.
const AT: f64 = RIGHT + 22.0;
/// Horizontal position of names.
const TEXT: f64 = AT + 18.0;
/// Letters in a line of a name.
const LETTERS: usize = 22;
/// Distance between two names.
const GAP: f64 = 5.0;

/// Names of a plot.
#[derive(Debug, Default)]
pub(super) struct Labels(Vec<Label>);

#[derive(Debug)]
struct Label {
    /// Desired position of the first line.
    wanted: f64,
    sign: Sign,
    lines: Vec<String>,
}

impl Label {
    fn height(&self) -> f64 {
        LINE * self.lines.len() as f64 + GAP
    }
}

impl Labels {
    /// Adds a name for a line that ends at the pixel `y`, or without a position.
    pub(super) fn add(&mut self, y: Option<f64>, sign: Sign, name: &str) {
        let last = self.0.last().map_or(TOP + 10.0, |last| last.wanted);
        // A word longer than a line is cut into lines.
        let cut = |line: String| -> Vec<String> {
            let letters: Vec<char> = line.chars().collect();
            letters.chunks(LETTERS).map(|line| line.iter().collect()).collect()
        };
        let lines = frame::wrap(name, LETTERS).into_iter().flat_map(cut).collect();
        self.0.push(Label { wanted: y.unwrap_or(last), sign, lines });
    }

    /// Draws the names from the top down without overlap.
    pub(super) fn draw(mut self, svg: &mut Svg, bottom: f64) {
        svg.begin_names();
        // Names with the same position keep their order.
        self.0.sort_by(|a, b| a.wanted.total_cmp(&b.wanted));
        let heights: Vec<f64> = self.0.iter().map(Label::height).collect();
        let mut below: f64 = heights.iter().sum();
        let mut free = TOP + 6.0;
        for (label, height) in self.0.iter().zip(heights) {
            // At the desired position if the following names have room.
            let y = label.wanted.min(bottom - below).max(free);
            svg.begin_name(y, height);
            label.draw(svg, y);
            svg.end_names();
            (below, free) = (below - height, y + height);
        }
        svg.end_names();
        svg.grow(free);
    }
}

impl Label {
    fn draw(&self, svg: &mut Svg, y: f64) {
        let class = match &self.sign {
            Sign::Band => {
                svg.rect((AT - 13.0, y - 6.0, 26.0, 12.0), "band");
                ""
            }
            Sign::Level => {
                svg.line((AT - 13.0, y), (AT + 13.0, y), "level");
                ""
            }
            Sign::Published => {
                svg.cross((AT, y));
                ""
            }
            Sign::Bar(look) => {
                let at = (AT - 8.0, y - 7.0, 16.0, 13.0);
                svg.rect(at, &look.bar());
                svg.texture(at, look);
                &look.name
            }
            Sign::Series(mark, look) => {
                if matches!(mark, Mark::Line | Mark::LineAndPoints) {
                    svg.polyline(&[(AT - 13.0, y), (AT + 13.0, y)], look);
                }
                if matches!(mark, Mark::Points | Mark::LineAndPoints) {
                    svg.markers(look, [(AT, y)].into_iter());
                }
                &look.name
            }
        };
        for (number, line) in self.lines.iter().enumerate() {
            let y = y + 4.5 + LINE * number as f64;
            svg.text((TEXT, y), Anchor::Start, 13, class, line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::colours::line_looks;
    use super::*;

    #[test]
    fn names_neither_overlap_nor_leave_the_plot() {
        let mut labels = Labels::default();
        for (y, name) in [(300.0, "low"), (60.0, "high"), (302.0, "beside low"), (355.0, "least")] {
            labels.add(Some(y), Sign::Series(Mark::Line, line_looks(1, false).remove(0)), name);
        }
        labels.add(None, Sign::Band, "a name so long that it needs two lines");
        let mut svg = Svg::new(760.0, 420.0, "t", "x", "y");
        labels.draw(&mut svg, 400.0);
        let document = svg.finish();
        assert!(document.contains("viewBox=\"0 0 760 420\""), "{document}");
        let mut at: Vec<f64> = Vec::new();
        for text in document.split("<text").skip(1) {
            let y = text.split(" y=\"").nth(1).and_then(|rest| rest.split('"').next());
            at.push(y.and_then(|y| y.parse().ok()).expect("each text has a place"));
        }
        assert_eq!(at.len(), 6);
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= LINE - 0.2), "{at:?}");
        assert!(at.iter().all(|y| (TOP..400.0).contains(y)), "{at:?}");
    }
}
