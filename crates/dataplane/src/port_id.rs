//! The number of a port.

/// A port's number, dense from 0, the same in every worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct PortId(pub u16);
