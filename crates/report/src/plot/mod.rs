//! Plots as SVG: self-contained, readable when printed or by the colour-blind.
//!
//! A small fixed set needs only a small writer: lines over two axes ([`Chart`]), bars
//! ([`Bars`]), and marks in many small plots ([`Multiples`]). Published values are black, computed ones coloured.

mod axis;
mod bars;
mod chart;
mod colours;
mod frame;
mod labels;
mod mark;
mod multiples;
mod reach;
mod scale;
pub(crate) mod svg;
mod values;

pub use axis::Axis;
pub use bars::{BarSeries, Bars};
pub use chart::{Band, Chart, Series};
pub use mark::Mark;
pub use multiples::{Dot, Multiples, Panel};
