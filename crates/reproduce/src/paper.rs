//! The papers and their reproductions.

use crate::step::Step;
use crate::{bolla, copi, liao, powersave, sohan};
use serde::Serialize;

/// A paper that can be reproduced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// L. Niccolini et al., Building a power-proportional software router, 2012.
    Powersave,
    /// R. Bolla et al., Green support for PC-based software router, 2011.
    Bolla,
    /// G. Liao, L. Bhuyan, Analyzing performance and power efficiency of network processing, 2012.
    Liao,
    /// R. Sohan et al., Characterizing 10 Gbps network interface energy consumption, 2010.
    Sohan,
    /// Co-adjusting V/F state and interrupt rate for latency-critical applications, 2020.
    Copi,
}

impl Paper {
    /// All papers.
    pub const ALL: [Self; 5] = [Self::Powersave, Self::Bolla, Self::Liao, Self::Sohan, Self::Copi];

    /// Name of the paper on the command line and in `claims.csv`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Powersave => "powersave",
            Self::Bolla => "bolla",
            Self::Liao => "liao",
            Self::Sohan => "sohan",
            Self::Copi => "copi",
        }
    }

    /// Citation of the paper.
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
            Self::Liao => {
                "G. Liao, L. Bhuyan: Analyzing performance and power efficiency of network \
                 processing over 10 GbE"
            }
            Self::Sohan => {
                "R. Sohan, A. Rice, A. W. Moore, K. Mansley: Characterizing 10 Gbps network \
                 interface energy consumption"
            }
            Self::Copi => {
                "Co-PI: co-adjusting V/F state and interrupt rate for latency-critical \
                 applications (IEEE Access 8, 2020)"
            }
        }
    }

    /// Steps that make the paper's figures, in the order of the figures.
    pub(crate) fn steps(self) -> &'static [Step] {
        match self {
            Self::Powersave => powersave::STEPS,
            Self::Bolla => bolla::STEPS,
            Self::Liao => liao::STEPS,
            Self::Sohan => sohan::STEPS,
            Self::Copi => copi::STEPS,
        }
    }
}
