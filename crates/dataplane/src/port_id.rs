//! Port numbers.

/// Number of a port: dense from 0, the same in every worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct PortId(pub u16);
