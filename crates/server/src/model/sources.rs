//! Parts of a server's power by the source of their figures, and names for them.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use wattline_units::{Watts, named};

named! {
    /// Part of a server whose watts have a source of their own.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum PowerPart {
        /// Cores that execute, without the cycles of a named receive path.
        Cores = "cores",
        /// Cores that execute the named receive path.
        Receive = "receive path",
        /// Cores in idle states shallower than the deepest.
        IdleCores = "idle cores",
        /// Shared part of the processor while any core is awake.
        Uncore = "uncore",
        /// Everything else without cards, with all cores in the deepest idle state.
        Platform = "platform",
        /// Network cards without traffic, except for their measured links.
        Cards = "cards",
        /// Connected links of a card measured by links.
        Links = "links",
        /// Forwarding bits.
        Traffic = "traffic",
    }
}

/// Sources of a model's power, and parts that its components do not distinguish.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sources {
    /// Source of each part's figures.
    pub of: BTreeMap<PowerPart, String>,
    /// Power of connected links, included in that of the cards.
    pub links: Watts,
    /// Clock cycles that the named receive path takes of each packet on the kernel's path.
    pub receive_cycles: f64,
}

/// Power of one part with its source.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PartPower {
    /// The part.
    pub part: PowerPart,
    /// Its mean power, modelled.
    pub watts: Watts,
    /// Server or component file, origin of the figures, and publication.
    pub source: String,
}
