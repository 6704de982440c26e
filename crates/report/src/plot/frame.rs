//! Common parts of all plots: area, title, axes and grid.

use super::axis::Axis;
use super::scale::Scale;
use super::svg::{Anchor, Svg};

pub(super) const WIDTH: f64 = 760.0;
pub(super) const HEIGHT: f64 = 420.0;
pub(super) const LEFT: f64 = 74.0;
pub(super) const RIGHT: f64 = 560.0;
pub(super) const TOP: f64 = 44.0;
pub(super) const BOTTOM: f64 = 360.0;
/// Distance between two lines of text.
pub(super) const LINE: f64 = 15.0;

/// Letters of a title that fit above a plot; the plot's label has the complete title.
const TITLE_LETTERS: usize = 76;

/// Letters of the axes' names that fit below and next to a plot.
const ACROSS_LETTERS: usize = 72;
const UPRIGHT_LETTERS: usize = 42;

pub(super) fn title(svg: &mut Svg, text: &str) {
    svg.text((LEFT, 26.0), Anchor::Start, 16, "title", &shortened(text, TITLE_LETTERS));
}

/// Cuts a text to this many letters, the last of which is then an ellipsis.
fn shortened(text: &str, letters: usize) -> String {
    match text.chars().count() > letters {
        true => text.chars().take(letters.saturating_sub(1)).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// Letters of a tick that fit between the plot and the name of its vertical axis.
const TICK_LETTERS: usize = 6;

pub(super) fn y_axis(svg: &mut Svg, axis: &Axis, scale: &Scale) {
    let ticks = scale.ticks();
    let long = ticks.iter().any(|(_, text)| text.chars().count() > TICK_LETTERS);
    let heights = ticks.iter().filter_map(|(value, _)| scale.pixel(*value));
    svg.grid(heights.map(|y| ((LEFT, y), (RIGHT, y))));
    let texts = ticks.into_iter().filter_map(|(value, text)| {
        let text = if long { with_power(value) } else { text };
        Some(((LEFT - 8.0, scale.pixel(value)? + 4.5), text))
    });
    svg.ticks(Anchor::End, texts);
    let name = shortened(&axis.label, UPRIGHT_LETTERS);
    svg.text_upright((17.0, f64::midpoint(TOP, BOTTOM)), Anchor::Middle, 14, &name);
}

/// Formats a very small or large value with a power of ten: `2.5e-6`.
fn with_power(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let text = format!("{value:.2e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    format!("{}e{power}", digits.trim_end_matches('0').trim_end_matches('.'))
}

/// Labels a vertical axis that does not begin at 0 or is logarithmic, since readers take heights
/// for amounts.
pub(super) fn warn_of_distorted_heights(svg: &mut Svg, axis: &Axis, scale: &Scale) {
    let words = match (axis.logarithmic, scale.begins_above_zero()) {
        (true, _) => "vertical axis logarithmic",
        (false, true) => "vertical axis does not begin at 0",
        (false, false) => return,
    };
    svg.text((RIGHT, TOP - 5.0), Anchor::End, 11, "", words);
}

pub(super) fn x_axis(svg: &mut Svg, axis: &Axis, scale: &Scale) {
    let ticks = scale.ticks();
    let places = ticks.iter().filter_map(|(value, _)| scale.pixel(*value));
    svg.grid(places.map(|x| ((x, TOP), (x, BOTTOM))));
    let texts = ticks
        .into_iter()
        .filter_map(|(value, text)| Some(((scale.pixel(value)?, BOTTOM + 18.0), text)));
    svg.ticks(Anchor::Middle, texts);
    x_label(svg, &axis.label, LINE);
}

/// Draws the name of the horizontal axis, below the labels of the ticks, which have this height.
pub(super) fn x_label(svg: &mut Svg, label: &str, height: f64) {
    let below = BOTTOM + 29.0 + height;
    let name = shortened(label, ACROSS_LETTERS);
    svg.text((f64::midpoint(LEFT, RIGHT), below), Anchor::Middle, 14, "", &name);
    svg.grow(below + 16.0);
}

/// Draws the two axes over everything between them.
pub(super) fn border(svg: &mut Svg) {
    svg.line((LEFT, TOP), (LEFT, BOTTOM), "axis");
    svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "axis");
}

/// Width of a letter below a group, in pixels.
const LETTER: f64 = 7.2;
/// Letters of a slanted name, and lines of a horizontal one.
const LEANING_LETTERS: usize = 26;
const LINES: usize = 4;

/// Draws the names of groups on the horizontal axis and returns their height. They are slanted if
/// neighbours would touch.
pub(super) fn groups(svg: &mut Svg, names: &[String]) -> f64 {
    let step = (RIGHT - LEFT) / names.len().max(1) as f64;
    let middle = |index: usize| LEFT + step * (index as f64 + 0.5);
    let fitting = ((step - 4.0).max(0.0) / LETTER) as usize;
    let wrapped: Vec<Vec<String>> = names.iter().map(|name| wrap(name, fitting)).collect();
    let fits = |lines: &Vec<String>| {
        lines.len() <= LINES && lines.iter().all(|line| line.chars().count() <= fitting)
    };
    if wrapped.iter().all(fits) {
        for (index, lines) in wrapped.iter().enumerate() {
            for (number, line) in lines.iter().enumerate() {
                let below = BOTTOM + 18.0 + LINE * number as f64;
                svg.text((middle(index), below), Anchor::Middle, 13, "", line);
            }
        }
        return LINE * wrapped.iter().map(Vec::len).max().unwrap_or(1).max(1) as f64;
    }
    let diagonal = std::f64::consts::FRAC_1_SQRT_2;
    // Slanted names are a line of text apart; otherwise only every second, third, … is shown.
    let every = ((LINE / (step * diagonal)).ceil() as usize).max(1);
    let mut longest = 0;
    for (index, name) in names.iter().enumerate().step_by(every) {
        let room = (middle(index) - 10.0) / (LETTER * diagonal);
        let letters = LEANING_LETTERS.min(room as usize);
        let shown = shortened(name, letters);
        longest = longest.max(shown.chars().count());
        svg.text_leaning((middle(index) + 4.0, BOTTOM + 14.0), 13, &shown);
    }
    longest as f64 * LETTER * diagonal + LINE
}

/// Wraps a text into lines of at most this many letters, between words or before a bracket; a
/// longer word has its own line.
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
