//! Format of a table entry.

/// Bit that is set in entries that name a group.
pub(super) const EXTENDED: u16 = 1 << 15;
