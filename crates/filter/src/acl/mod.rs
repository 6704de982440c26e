//! Access lists: rules that permit or deny packets by prefix, protocol and port, without state.
//!
//! The rules that hold for a port are compared in the order of the configuration, and the first that
//! matches decides. What none matches is dropped. [`compiled`] finds that rule without a walk over
//! all of them.
//!
//! A later fragment carries no ports. A rule that permits certain ports matches it by its other
//! fields, and a rule that denies certain ports does not: the datagram cannot be put together
//! where its first fragment is denied. A packet that is too short for its ports is matched the other
//! way round (tiny fragments, RFC 1858 section 3).

pub mod compiled;
pub(crate) mod control;
mod counts;
mod intervals;
mod lists;
mod node;
pub mod rule;
mod section;
pub mod subject;

pub use section::{AclSection, AclSettings};
