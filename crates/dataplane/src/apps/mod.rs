//! Applications on the packets' way, one folder each.

pub mod redundancy;
