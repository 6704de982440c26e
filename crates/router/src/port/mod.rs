//! State of one port.

pub(crate) mod guard;
