//! Parts of all plots: area, title, axes, grid and legend.

use super::axis::Axis;
use super::scale::Scale;
use super::svg::{Anchor, Svg};

pub(super) const WIDTH: f64 = 760.0;
pub(super) const HEIGHT: f64 = 420.0;
pub(super) const LEFT: f64 = 74.0;
pub(super) const RIGHT: f64 = 530.0;
pub(super) const TOP: f64 = 44.0;
pub(super) const BOTTOM: f64 = 360.0;
const GRID: &str = "#dddddd";
const AXIS: &str = "#444444";
/// Length in characters from which a legend entry is broken.
const LEGEND_LETTERS: usize = 26;

pub(super) fn title(svg: &mut Svg, text: &str) {
    svg.text((LEFT, 26.0), Anchor::Start, 16, text);
}

pub(super) fn y_axis(svg: &mut Svg, axis: &Axis, scale: &Scale) {
    for (value, text) in scale.ticks() {
        if let Some(y) = scale.pixel(value) {
            svg.line((LEFT, y), (RIGHT, y), GRID, 1.0);
            svg.text((LEFT - 8.0, y + 4.5), Anchor::End, 13, &text);
        }
    }
    svg.text_upright((20.0, (TOP + BOTTOM) / 2.0), 14, &axis.label);
}

pub(super) fn x_axis(svg: &mut Svg, axis: &Axis, scale: &Scale) {
    for (value, text) in scale.ticks() {
        if let Some(x) = scale.pixel(value) {
            svg.line((x, TOP), (x, BOTTOM), GRID, 1.0);
            svg.text((x, BOTTOM + 18.0), Anchor::Middle, 13, &text);
        }
    }
    x_label(svg, &axis.label);
}

pub(super) fn x_label(svg: &mut Svg, label: &str) {
    svg.text(((LEFT + RIGHT) / 2.0, BOTTOM + 44.0), Anchor::Middle, 14, label);
}

/// Draws the two axes over everything between them.
pub(super) fn border(svg: &mut Svg) {
    svg.line((LEFT, TOP), (LEFT, BOTTOM), AXIS, 1.5);
    svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), AXIS, 1.5);
}

/// Writes legend entries from the top down and breaks long names; `sign` draws the symbol before a
/// name.
#[derive(Debug)]
pub(super) struct Legend {
    y: f64,
}

impl Legend {
    pub(super) const SIGN: f64 = RIGHT + 30.0;

    pub(super) fn new() -> Self {
        Self { y: TOP + 10.0 }
    }

    pub(super) fn entry(&mut self, svg: &mut Svg, name: &str, sign: impl FnOnce(&mut Svg, f64)) {
        sign(svg, self.y);
        let mut line = String::new();
        for word in name.split(' ') {
            if !line.is_empty() && line.chars().count() + word.chars().count() >= LEGEND_LETTERS {
                self.write(svg, &line);
                line.clear();
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.write(svg, &line);
        self.y += 5.0;
    }

    fn write(&mut self, svg: &mut Svg, line: &str) {
        svg.text((Self::SIGN + 22.0, self.y + 4.5), Anchor::Start, 13, line);
        self.y += 16.0;
    }
}
