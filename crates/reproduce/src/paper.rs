//! The papers, and what is made of each.

use crate::step::{Context, Step};
use crate::{bolla, powersave};
use serde::Serialize;

/// A paper that can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// L. Niccolini et al., Building a power-proportional software router, 2012.
    Powersave,
    /// R. Bolla et al., Green support for PC-based software router, 2011.
    Bolla,
}

impl Paper {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Powersave, Self::Bolla];

    /// Its name on the command line and in `claims.csv`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Powersave => "powersave",
            Self::Bolla => "bolla",
        }
    }

    /// As one would cite it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Powersave => {
                "L. Niccolini, G. Iannaccone, S. Ratnasamy, J. Chandrashekar, L. Rizzo: \
                 Building a power-proportional software router"
            }
            Self::Bolla => {
                "R. Bolla, R. Bruschi, A. Ranieri: Green support for PC-based software router: \
                 performance evaluation and modeling"
            }
        }
    }

    /// What gives its figures, in their order.
    pub(crate) fn steps(self) -> &'static [Step] {
        match self {
            Self::Powersave => powersave::STEPS,
            Self::Bolla => bolla::STEPS,
        }
    }

    /// What is said to claims that no figure checks.
    pub(crate) fn context(self) -> &'static [Context] {
        match self {
            Self::Powersave => powersave::CONTEXT,
            Self::Bolla => bolla::CONTEXT,
        }
    }
}
