//! How a card's driver chooses the time between two interrupts of a queue.
//!
//! A rule is fed what each interrupt brought and says the period from there on. It works per
//! queue and per interrupt, so it belongs in the driver and not in a policy's timer: a policy
//! says by [`crate::Policy::driver_rule`] that a queue is left to one, and a platform that says
//! [`crate::Policy::driver_rule`] is obeyed runs it there.

pub mod dim;
pub mod ixgbe;
pub mod ixgbe_classic;

use serde::Serialize;
use std::fmt;
use wattline_units::{Span, Time};

/// What one interrupt of a queue brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interrupt {
    /// When it was handled.
    pub at: Time,
    /// Packets received.
    pub received: u32,
    /// Their bytes.
    pub received_bytes: u32,
    /// Transmissions that were completed.
    pub sent: u32,
    /// Their bytes.
    pub sent_bytes: u32,
}

/// Which rule a queue is moderated by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RuleKind {
    /// The adaptive rule of Intel's 10G driver, within the range that Co-PI prints.
    Ixgbe,
    /// The older rule of the same driver, in three classes.
    IxgbeClassic,
    /// Linux's dynamic interrupt moderation.
    Dim,
}

impl RuleKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ixgbe, Self::IxgbeClassic, Self::Dim];

    /// Its name in the text of a policy.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ixgbe => "ixgbe",
            Self::IxgbeClassic => "ixgbe-classic",
            Self::Dim => "dim",
        }
    }
}

impl fmt::Display for RuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A rule at work on one queue.
#[derive(Debug, Clone)]
pub enum Rule {
    /// See [`ixgbe`].
    Ixgbe(ixgbe::Ixgbe),
    /// See [`ixgbe_classic`].
    IxgbeClassic(ixgbe_classic::IxgbeClassic),
    /// See [`dim`].
    Dim(dim::Dim),
}

impl Rule {
    /// As the driver starts it.
    pub fn new(kind: RuleKind) -> Self {
        match kind {
            RuleKind::Ixgbe => Self::Ixgbe(ixgbe::Ixgbe::default()),
            RuleKind::IxgbeClassic => Self::IxgbeClassic(ixgbe_classic::IxgbeClassic::default()),
            RuleKind::Dim => Self::Dim(dim::Dim::default()),
        }
    }

    /// Which one it is.
    pub fn kind(&self) -> RuleKind {
        match self {
            Self::Ixgbe(_) => RuleKind::Ixgbe,
            Self::IxgbeClassic(_) => RuleKind::IxgbeClassic,
            Self::Dim(_) => RuleKind::Dim,
        }
    }

    /// The period from now on.
    pub fn period(&self) -> Span {
        match self {
            Self::Ixgbe(rule) => rule.period(),
            Self::IxgbeClassic(rule) => rule.period(),
            Self::Dim(rule) => rule.period(),
        }
    }

    /// Takes note of an interrupt and gives the period from there on.
    #[inline]
    pub fn interrupt(&mut self, seen: &Interrupt) -> Span {
        match self {
            Self::Ixgbe(rule) => rule.interrupt(seen),
            Self::IxgbeClassic(rule) => rule.interrupt(seen),
            Self::Dim(rule) => rule.interrupt(seen),
        }
    }
}
