//! Rules by which a card's driver chooses the time between two interrupts of a queue.
//!
//! A rule gets the packets of each interrupt and returns the next period. It works per queue and
//! per interrupt, so it belongs in the driver and not in a policy's timer. A policy leaves a queue
//! to a rule by [`crate::Policy::driver_rule`]; a platform that has rules
//! ([`crate::Can::driver_rules`]) runs it in the driver.

pub mod dim;
mod interrupt;
pub mod ixgbe;
pub mod ixgbe_classic;
mod rule;

pub use interrupt::Interrupt;
pub use rule::{Rule, RuleKind};
