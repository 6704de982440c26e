//! Marks of series.

/// Mark of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line.
    Line,
    /// Points.
    Points,
    /// A line with its points marked.
    LineAndPoints,
    /// Published points: black crosses.
    Published,
}
