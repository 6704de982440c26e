//! What all plots share: the area, title, axes and grid.

use super::axis::Axis;
use super::scale::Scale;
use super::svg::{Anchor, Svg};

pub(super) const WIDTH: f64 = 760.0;
pub(super) const HEIGHT: f64 = 420.0;
pub(super) const LEFT: f64 = 74.0;
pub(super) const RIGHT: f64 = 560.0;
pub(super) const TOP: f64 = 44.0;
pub(super) const BOTTOM: f64 = 360.0;
/// Between two lines of text.
pub(super) const LINE: f64 = 15.0;

/// Letters of a title that fit above a plot; all of it is in the plot's label.
const TITLE_LETTERS: usize = 76;

pub(super) fn title(svg: &mut Svg, text: &str) {
    let mut shown: String = text.chars().take(TITLE_LETTERS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    svg.text((LEFT, 26.0), Anchor::Start, 16, "", &shown);
}

pub(super) fn y_axis(svg: &mut Svg, axis: &Axis, scale: &Scale) {
    for (value, text) in scale.ticks() {
        if let Some(y) = scale.pixel(value) {
            svg.line((LEFT, y), (RIGHT, y), "grid");
            svg.text((LEFT - 8.0, y + 4.5), Anchor::End, 13, "", &text);
        }
    }
    svg.text_upright((20.0, f64::midpoint(TOP, BOTTOM)), 14, &axis.label);
}

/// A reader takes heights for amounts: an axis that does not begin at 0, or is logarithmic, says so.
pub(super) fn say_where_it_begins(svg: &mut Svg, axis: &Axis, scale: &Scale) {
    let words = match (axis.logarithmic, scale.begins_above_zero()) {
        (true, _) => "vertical axis logarithmic",
        (false, true) => "vertical axis does not begin at 0",
        (false, false) => return,
    };
    svg.text((RIGHT, TOP - 5.0), Anchor::End, 11, "", words);
}

pub(super) fn x_axis(svg: &mut Svg, axis: &Axis, scale: &Scale) {
    for (value, text) in scale.ticks() {
        if let Some(x) = scale.pixel(value) {
            svg.line((x, TOP), (x, BOTTOM), "grid");
            svg.text((x, BOTTOM + 18.0), Anchor::Middle, 13, "", &text);
        }
    }
    x_label(svg, &axis.label, 1);
}

/// The name of the horizontal axis, below so many lines of text at the ticks.
pub(super) fn x_label(svg: &mut Svg, label: &str, lines: usize) {
    let below = BOTTOM + 44.0 + LINE * (lines.max(1) - 1) as f64;
    svg.text((f64::midpoint(LEFT, RIGHT), below), Anchor::Middle, 14, "", label);
    svg.grow(below + 16.0);
}

/// The two axes over everything drawn between them.
pub(super) fn border(svg: &mut Svg) {
    svg.line((LEFT, TOP), (LEFT, BOTTOM), "axis");
    svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "axis");
}

/// A text in lines of at most so many letters, broken between words or before a bracket; a longer
/// word stands alone.
pub(super) fn wrap(text: &str, letters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let bracket = word.find('(').filter(|at| *at > 0).unwrap_or(word.len());
        let (name, rest) = word.split_at(bracket);
        for (part, space) in [(name, " "), (rest, "")] {
            let line = lines.last_mut().filter(|line| {
                line.is_empty()
                    || (line.chars().count() + space.len() + part.chars().count()) <= letters
            });
            match line {
                Some(line) if line.is_empty() => line.push_str(part),
                Some(line) if !part.is_empty() => {
                    line.push_str(space);
                    line.push_str(part);
                }
                Some(_) => {}
                None => lines.push(part.to_owned()),
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_between_words_or_before_brackets() {
        assert_eq!(wrap("a bb ccc", 4), ["a bb", "ccc"]);
        assert_eq!(wrap("Intel(Base-T)", 9), ["Intel", "(Base-T)"]);
        assert_eq!(wrap("Intel(CX4) 1G", 13), ["Intel(CX4) 1G"]);
        assert_eq!(wrap("two  blanks", 20), ["two blanks"]);
        assert_eq!(wrap("overlong a", 4), ["overlong", "a"]);
        assert_eq!(wrap("", 4), [""]);
    }
}
