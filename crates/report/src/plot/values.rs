//! Values on top of bars.

use super::svg::{Anchor, Svg};
use crate::table::number;

/// Width of a letter on top of a bar, in pixels.
pub(super) const SMALL_LETTER: f64 = 6.4;
/// Smallest width of a bar with an upright value.
const UPRIGHT: f64 = 11.0;

/// Orientation of all values on top of bars, or none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Values {
    Across,
    Upright,
    None,
}

impl Values {
    /// Chooses the orientation of these values on bars of a width, and the room that they need
    /// above the highest bar; upright values need an axis that provides it.
    pub fn choose(
        values: impl Iterator<Item = f64>,
        width: f64,
        axis_gives_room: bool,
    ) -> (Self, f64) {
        let longest =
            values.filter(|value| value.is_finite()).map(|value| short(value).len()).max();
        let text = longest.unwrap_or(0) as f64 * SMALL_LETTER;
        match () {
            () if text <= width => (Self::Across, 24.0),
            () if width >= UPRIGHT && axis_gives_room => (Self::Upright, text + 12.0),
            () => (Self::None, 12.0),
        }
    }

    /// Writes a value above a point.
    pub fn draw(self, svg: &mut Svg, (x, y): (f64, f64), text: &str) {
        match self {
            Self::Across => svg.text((x, y - 4.0), Anchor::Middle, 11, "", text),
            Self::Upright => svg.text_upright((x + 4.0, y - 5.0), Anchor::Start, 11, text),
            Self::None => {}
        }
    }
}

/// Formats a value in three digits; a bar has no room for more.
pub(super) fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return number(value);
    }
    let step = 10_f64.powi(value.abs().log10().floor() as i32 - 2);
    number((value / step).round() * step)
}
