//! Plots as SVG: self-contained, readable when printed or by the colour-blind.
//!
//! A small fixed set, so a small writer of our own: lines over two axes ([`Chart`]) and
//! bars ([`Bars`]). What a paper published is drawn in black, ours in colour.

mod bars;
mod chart;
mod frame;
mod scale;
mod svg;

pub use bars::{BarSeries, Bars};
pub use chart::{Band, Chart, Mark, Series};
pub(crate) use svg::escape;

/// One axis. The label has the unit, as in `power (W)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// From and to; by the data where not given.
    pub range: Option<(f64, f64)>,
    /// Whether it is logarithmic; only positive values are drawn then.
    pub logarithmic: bool,
    /// Whether an axis by the data begins at zero.
    pub with_zero: bool,
    /// Distance between ticks; a round one where not given.
    pub step: Option<f64>,
}

impl Axis {
    /// A linear axis that fits the data.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), range: None, logarithmic: false, with_zero: false, step: None }
    }
    /// From and to given.
    #[must_use]
    pub fn range(mut self, from: f64, to: f64) -> Self {
        self.range = Some((from, to));
        self
    }
    /// From zero on, as far as the data goes.
    #[must_use]
    pub fn from_zero(mut self) -> Self {
        self.with_zero = true;
        self
    }
    /// Ticks every so much, such as every six hours.
    #[must_use]
    pub fn ticks_every(mut self, step: f64) -> Self {
        self.step = Some(step);
        self
    }
    /// Logarithmic.
    #[must_use]
    pub fn logarithmic(mut self) -> Self {
        self.logarithmic = true;
        self
    }
}

/// The palette of Okabe and Ito, which the colour-blind can tell apart; without black,
/// which is for what was published, and yellow, which is too pale for lines.
const COLOURS: [&str; 6] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}
