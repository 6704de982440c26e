//! Plots as SVG: self-contained, readable when printed or by the colour-blind.
//!
//! A small fixed set, so a small writer of our own: lines over two axes ([`Chart`]) and
//! bars ([`Bars`]). What a paper published is drawn in black, ours in colour.

mod axis;
mod bars;
mod chart;
mod frame;
mod labels;
mod scale;
pub(crate) mod svg;

pub use axis::Axis;
pub use bars::{BarSeries, Bars};
pub use chart::{Band, Chart, Mark, Series};
