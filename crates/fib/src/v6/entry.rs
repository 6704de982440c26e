//! Format of a table entry.

/// Bit that is set in entries that name a group.
pub(super) const EXTENDED: u32 = 1 << 31;

/// Number of levels below the root that a chunk descends together: to /48, where nearly all of the
/// Internet table ends. The remaining addresses continue one by one.
pub(super) const LEVELS_TOGETHER: u32 = 3;
