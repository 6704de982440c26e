//! Figures as they are made anew.

use serde::Serialize;
use wattline_report::{Check, Table};

/// One figure or table of a paper, ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// As files are named: `fig3`, `table1`.
    pub id: &'static str,
    /// What it shows.
    pub title: String,
    /// What it rests on and how it was made.
    pub about: String,
    /// Its data.
    pub table: Table,
    /// Its plots as SVG documents.
    #[serde(skip)]
    pub plots: Vec<String>,
    /// Ours beside the paper's.
    pub checks: Vec<Check>,
}
