//! Reproduced figures.

use serde::Serialize;
use wattline_report::{Check, Table};

/// A reproduction of one figure or table of a paper.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Identifier as used in file names: `fig3`, `table1`.
    pub id: &'static str,
    /// Title of the figure.
    pub title: String,
    /// Description of the inputs and of the method.
    pub about: String,
    /// Data of the figure.
    pub table: Table,
    /// Plots of the figure as SVG documents.
    #[serde(skip)]
    pub plots: Vec<String>,
    /// Comparisons of reproduced values with published ones.
    pub checks: Vec<Check>,
}
