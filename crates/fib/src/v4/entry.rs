//! What an entry of a table says.

/// Set in entries that lead to a group.
pub(super) const EXTENDED: u16 = 1 << 15;
