//! Applications on the packets' way, one directory each: what [`crate::feature`] puts into the
//! graph.

pub mod esp;
pub mod flow_records;
pub mod redundancy;
