//! Tables, charts and pages for people, in a terminal and in a browser.
//!
//! [`columns`] aligns text, and [`sparkline`] draws a curve in one line of text. [`plot`] draws
//! charts as SVG. [`plain`] makes text safe to show. [`Table`] is the data of a figure, and
//! [`Check`] compares a computed figure with a published one. [`machine`] describes the machine of
//! the run. [`page`] combines them into one HTML page without external resources. This crate does
//! not depend on the origin of figures.
#![forbid(unsafe_code)]

mod anchors;
pub mod check;
pub mod columns;
mod contents;
mod escape;
mod figure_page;
pub mod machine;
mod notes;
pub mod page;
mod plain;
pub mod plot;
pub mod runs;
mod sparkline;
mod spread;
pub mod table;

pub use check::{Basis, Check, Grounds, Verdict};
pub use escape::escape;
pub use figure_page::FigurePage;
pub use machine::Machine;
pub use notes::Notes;
pub use plain::{Plain, plain};
pub use sparkline::sparkline;
pub use spread::Spread;
pub use table::Table;
