//! Tables, charts and pages: what people look at, in a terminal and in a browser.
//!
//! [`columns`] lines up text and [`sparkline`] draws a curve in one line of it; [`plot`] draws
//! charts as SVG; [`Table`] is the data of a figure; [`Check`] holds a figure of ours against a
//! published one; [`page`] joins them into one HTML page that needs nothing from elsewhere.
//! Nothing here knows where a figure comes from.
#![forbid(unsafe_code)]

pub mod check;
pub mod columns;
mod escape;
pub mod page;
pub mod plot;
mod sparkline;
pub mod table;

pub use check::{Check, Grounds, Verdict};
pub use escape::escape;
pub use sparkline::sparkline;
pub use table::Table;
