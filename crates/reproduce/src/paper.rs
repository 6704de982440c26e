//! The papers.

use serde::Serialize;
use wattline_units::named;

named! {
    /// A paper that can be reproduced.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Paper {
        /// L. Niccolini et al., Building a power-proportional software router, 2012.
        Powersave = "powersave",
        /// R. Bolla et al., Green support for PC-based software router, 2011.
        Bolla = "bolla",
        /// G. Liao, L. Bhuyan, Analyzing performance and power efficiency of network processing, 2012.
        Liao = "liao",
        /// R. Sohan et al., Characterizing 10 Gbps network interface energy consumption, 2010.
        Sohan = "sohan",
        /// Co-adjusting V/F state and interrupt rate for latency-critical applications, 2020.
        Copi = "copi",
    }
}

impl Paper {
    /// Returns the citation of the paper.
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
}
