//! Remarks on figures.

/// First word of a remark that puts all figures in doubt.
pub(crate) const DISTURBED: &str = "DISTURBED";
