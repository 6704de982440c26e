//! Reasons of changes, in words.

pub(super) const START: &str = "no rate was measured yet";
pub(super) const RISE: &str = "the load rose suddenly";
pub(super) const CROWDED: &str = "a queue grew though the load did not rise";
pub(super) const NEED: &str = "the load exceeded the capacity";
pub(super) const GUARD: &str = "a sudden rise would have made too many packets late";
pub(super) const SETTLED: &str = "a sudden rise was over and the new load known";
pub(super) const CHEAPER: &str = "waiting had cost as much energy as the change";
