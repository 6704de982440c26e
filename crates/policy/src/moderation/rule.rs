//! The rules by name, and an active rule.

use super::{Interrupt, dim, ixgbe, ixgbe_classic};
use serde::Serialize;
use std::fmt;
use wattline_units::{Span, named};

named! {
    /// Rule by which a queue is moderated.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum RuleKind {
        /// The adaptive rule of Intel's 10G driver, within the range that Co-PI prints.
        Ixgbe = "ixgbe",
        /// The older rule of the same driver, in three classes.
        IxgbeClassic = "ixgbe-classic",
        /// Linux's dynamic interrupt moderation.
        Dim = "dim",
    }
}

impl fmt::Display for RuleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An active rule of one queue.
#[derive(Debug, Clone)]
pub enum Rule {
    /// See [`super::ixgbe`].
    Ixgbe(ixgbe::Ixgbe),
    /// See [`super::ixgbe_classic`].
    IxgbeClassic(ixgbe_classic::IxgbeClassic),
    /// See [`super::dim`].
    Dim(dim::Dim),
}

impl Rule {
    /// Starts as the driver does.
    pub fn new(kind: RuleKind) -> Self {
        match kind {
            RuleKind::Ixgbe => Self::Ixgbe(ixgbe::Ixgbe::default()),
            RuleKind::IxgbeClassic => Self::IxgbeClassic(ixgbe_classic::IxgbeClassic::default()),
            RuleKind::Dim => Self::Dim(dim::Dim::default()),
        }
    }

    /// Returns the kind of this rule.
    pub fn kind(&self) -> RuleKind {
        match self {
            Self::Ixgbe(_) => RuleKind::Ixgbe,
            Self::IxgbeClassic(_) => RuleKind::IxgbeClassic,
            Self::Dim(_) => RuleKind::Dim,
        }
    }

    /// Returns the present period.
    pub fn period(&self) -> Span {
        match self {
            Self::Ixgbe(rule) => rule.period(),
            Self::IxgbeClassic(rule) => rule.period(),
            Self::Dim(rule) => rule.period(),
        }
    }

    /// Records an interrupt and returns the period from there on.
    #[inline]
    pub fn interrupt(&mut self, seen: &Interrupt) -> Span {
        match self {
            Self::Ixgbe(rule) => rule.interrupt(seen),
            Self::IxgbeClassic(rule) => rule.interrupt(seen),
            Self::Dim(rule) => rule.interrupt(seen),
        }
    }
}
