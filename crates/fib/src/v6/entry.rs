//! What an entry of a table says.

/// Set in entries that lead to a group.
pub(super) const EXTENDED: u32 = 1 << 31;

/// Levels below the root that a chunk goes down together: to /48, where nearly all of the
/// Internet table ends. What is left then goes on alone.
pub(super) const LEVELS_TOGETHER: u32 = 3;
