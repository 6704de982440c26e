//! Small multiples: many small plots over the same two axes, each with a mark for every name.

use super::axis::Axis;
use super::colours::{Look, line_looks};
use super::frame::wrap;
use super::scale::Scale;
use super::svg::{Anchor, Svg};
use crate::escape::escape;
use std::fmt::Write as _;

const WIDTH: f64 = 330.0;
const HEIGHT: f64 = 252.0;
const LEFT: f64 = 54.0;
const RIGHT: f64 = 312.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 206.0;
/// Letters in a line of the title, and number of lines.
const TITLE_LETTERS: usize = 46;
const TITLE_LINES: usize = 2;

/// Ends of a logarithmic axis, as multiples of its outermost values.
const BEYOND: f64 = 1.15;

/// A point of a panel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// True to draw only an outline, for example of a point that broke a rule.
    pub hollow: bool,
}

/// One of the small plots.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Title above the panel.
    pub title: String,
    /// Point of each name, if it has one.
    pub dots: Vec<Option<Dot>>,
    /// Dashed vertical and horizontal line, such as a limit and a bound.
    pub limits: [Option<f64>; 2],
}

/// Panels over the same axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Multiples {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Names of the points.
    pub names: Vec<String>,
    /// The panels.
    pub panels: Vec<Panel>,
}

impl Multiples {
    /// Returns the legend of all panels of a page as HTML: the sign of each name.
    pub fn legend(names: &[String]) -> String {
        let mut list = String::from("<ul class=\"signs\">\n");
        for (name, look) in names.iter().zip(line_looks(names.len(), false)) {
            let mut svg = Svg::new(14.0, 14.0, name, "", "");
            svg.markers(&look, std::iter::once((7.0, 7.0)));
            // Writing into a string cannot fail.
            let _ = writeln!(list, "<li>{}{}</li>", svg.finish(), escape(name));
        }
        list.push_str("</ul>\n");
        list
    }

    /// Returns the panels as HTML.
    pub fn html(&self) -> String {
        let dots = || self.panels.iter().flat_map(|panel| panel.dots.iter().flatten());
        let limits = |at: usize| self.panels.iter().filter_map(move |panel| panel.limits[at]);
        let across: Vec<f64> = dots().map(|dot| dot.x).chain(limits(0)).collect();
        // A mark or line at the end of a logarithmic axis would lie on its border.
        let beyond = if self.x.logarithmic { BEYOND } else { 1.0 };
        let x = across.iter().flat_map(|value| [value / beyond, value * beyond]);
        let x = Scale::new(&self.x, x, (LEFT, RIGHT));
        let y = Scale::new(&self.y, dots().map(|dot| dot.y).chain(limits(1)), (BOTTOM, TOP));
        let looks = line_looks(self.names.len(), false);
        let mut grid = String::from("<div class=\"multiples\">\n");
        for panel in &self.panels {
            grid.push_str(&self.panel(panel, &looks, &x, &y));
        }
        grid.push_str("</div>\n");
        grid
    }

    fn panel(&self, panel: &Panel, looks: &[Look], x: &Scale, y: &Scale) -> String {
        let mut svg = Svg::new(WIDTH, HEIGHT, &panel.title, &self.x.label, &self.y.label);
        let title = panel.title.replace(", ", ",").replace(',', ", ");
        for (number, line) in wrap(&title, TITLE_LETTERS).iter().take(TITLE_LINES).enumerate() {
            let at = (8.0, 15.0 + 15.0 * number as f64);
            svg.text(at, Anchor::Start, 12, "", line);
        }
        let (across, up) = (x.ticks(), y.ticks());
        let upright = across.iter().filter_map(|(value, _)| x.pixel(*value));
        let level = up.iter().filter_map(|(value, _)| y.pixel(*value));
        let upright = upright.map(|at| ((at, TOP), (at, BOTTOM)));
        svg.grid(upright.chain(level.map(|at| ((LEFT, at), (RIGHT, at)))));
        let texts = across.into_iter();
        let texts =
            texts.filter_map(|(value, text)| Some(((x.pixel(value)?, BOTTOM + 15.0), text)));
        svg.ticks(Anchor::Middle, texts);
        let texts = up.into_iter();
        let texts =
            texts.filter_map(|(value, text)| Some(((LEFT - 5.0, y.pixel(value)? + 4.0), text)));
        svg.ticks(Anchor::End, texts);
        let [x_label, y_label] =
            [(&self.x, x), (&self.y, y)].map(|(axis, scale)| label(axis, scale));
        let below = (f64::midpoint(LEFT, RIGHT), BOTTOM + 33.0);
        svg.text(below, Anchor::Middle, 12, "", &x_label);
        let place = (13.0, f64::midpoint(TOP, BOTTOM));
        svg.text_upright(place, Anchor::Middle, 12, &y_label);
        if let Some(at) = panel.limits[0].and_then(|value| x.pixel(value)) {
            svg.line((at, TOP), (at, BOTTOM), "level");
        }
        if let Some(at) = panel.limits[1].and_then(|value| y.pixel(value)) {
            svg.line((LEFT, at), (RIGHT, at), "level");
        }
        svg.line((LEFT, TOP), (LEFT, BOTTOM), "axis");
        svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "axis");
        // Draws the first on top.
        for ((name, look), dot) in self.names.iter().zip(looks).zip(&panel.dots).rev() {
            let Some(dot) = dot else { continue };
            let Some(at) = x.pixel(dot.x).zip(y.pixel(dot.y)) else { continue };
            svg.values(name, &[(at, (dot.x, dot.y))]);
            if dot.hollow {
                svg.hollow_marker(look, at);
            } else {
                svg.markers(look, std::iter::once(at));
            }
        }
        svg.finish()
    }
}

/// Returns the label of an axis, with a warning if distances are not proportional to amounts.
fn label(axis: &Axis, scale: &Scale) -> String {
    let remark = match (axis.logarithmic, scale.begins_above_zero()) {
        (true, _) => ", logarithmic",
        (false, true) => ", not from 0",
        (false, false) => "",
    };
    format!("{}{remark}", axis.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn multiples() -> Multiples {
        let dot = |x, y, hollow| Some(Dot { x, y, hollow });
        let panel = |title: &str, dots| Panel {
            title: title.to_owned(),
            dots,
            limits: [Some(100.0), Some(90.0)],
        };
        Multiples {
            x: Axis::new("99 % within (µs)").logarithmic(),
            y: Axis::new("power (W)"),
            names: vec!["poll".to_owned(), "<hare>".to_owned()],
            panels: vec![
                panel(
                    "mmpp:5Mpps,size=64,ratio=10,high=10ms,low=90ms",
                    vec![dot(20.0, 130.0, false), None],
                ),
                panel("poisson:1Mpps", vec![dot(2.0, 120.0, false), dot(500.0, 100.0, true)]),
            ],
        }
    }

    #[test]
    fn panels_share_axes_and_have_a_mark_for_each_known_point() {
        let html = multiples().html();
        let panels: Vec<&str> = html.split("<svg").skip(1).collect();
        assert_eq!(panels.len(), 2);
        let ticks = |panel: &str| -> Vec<String> {
            let groups = panel.split("<g class=\"tick\"").skip(1);
            groups.map(|rest| rest.split("</g>").next().unwrap_or_default().to_owned()).collect()
        };
        assert_eq!(ticks(panels[0]), ticks(panels[1]));
        assert!(ticks(panels[0])[0].contains(">100<") && ticks(panels[0])[1].contains(">130<"));
        let names = panels.iter().map(|panel| panel.matches("data-name").count());
        assert_eq!(names.collect::<Vec<_>>(), [1, 2]);
        let hollow = panels.iter().map(|panel| panel.matches("\"hollow ").count());
        assert_eq!(hollow.collect::<Vec<_>>(), [0, 1]);
        assert!(panels.iter().all(|panel| panel.matches("class=\"level\"").count() == 2));
        assert!(html.contains(">power (W), not from 0<") && html.contains(" (µs), logarithmic<"));
        assert!(html.contains("data-name=\"&lt;hare&gt;\"") && !html.contains("<hare>"));
    }

    #[test]
    fn long_title_has_two_lines_and_the_legend_every_name() {
        let html = multiples().html();
        assert!(html.contains(">mmpp:5Mpps, size=64, ratio=10, high=10ms,<"), "{html}");
        assert!(html.contains(">low=90ms<"));
        let legend = Multiples::legend(&multiples().names);
        assert_eq!(legend.matches("<li>").count(), 2);
        assert!(legend.contains("</svg>\n&lt;hare&gt;</li>"), "{legend}");
    }
}
