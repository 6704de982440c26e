//! How a card's driver chooses the time between two interrupts of a queue.
//!
//! A rule is fed what each interrupt brought and says the period from there on. It works per
//! queue and per interrupt, so it belongs in the driver and not in a policy's timer: a policy
//! says by [`crate::Policy::driver_rule`] that a queue is left to one, and a platform that has
//! them ([`crate::Can::driver_rules`]) runs it there.

pub mod dim;
mod interrupt;
pub mod ixgbe;
pub mod ixgbe_classic;
mod rule;

pub use interrupt::Interrupt;
pub use rule::{Rule, RuleKind};
