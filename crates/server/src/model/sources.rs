//! Parts of a server's power by the source of their figures.

use super::{Path, PowerTerms, ServerModel};
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
        /// Network cards without traffic, their measured links excepted.
        Cards = "cards",
        /// Connected links, where a card was measured by links.
        Links = "links",
        /// Forwarding bits.
        Traffic = "traffic",
    }
}

/// Sources of a model's power, and the divisions that its components do not show.
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

impl ServerModel {
    /// Returns the cycles that the named receive path takes of each packet on the model's path.
    pub fn receive_cycles(&self) -> f64 {
        if self.path == Path::Kernel { self.sources.receive_cycles } else { 0.0 }
    }

    /// Divides power by the source of its figures; the parts add up to the total. `receive` is the
    /// part of the awake cores' power that the named receive path takes.
    pub fn power_by_source(&self, terms: &PowerTerms, receive: Watts) -> Vec<PartPower> {
        let cards = self.power.base.nic;
        let parts = PowerPart::ALL.map(|part| {
            let watts = match part {
                PowerPart::Cores => terms.awake_cores - receive,
                PowerPart::Receive => receive,
                PowerPart::IdleCores => terms.idle_cores,
                PowerPart::Uncore => terms.uncore,
                PowerPart::Platform => terms.base - cards,
                PowerPart::Cards => cards - self.sources.links,
                PowerPart::Links => self.sources.links,
                PowerPart::Traffic => terms.traffic,
            };
            let source = self.sources.of.get(&part).cloned().unwrap_or_default();
            PartPower { part, watts, source }
        });
        let named = |it: &PartPower| match it.part {
            PowerPart::Receive => self.receive_cycles() > 0.0,
            _ => !it.source.is_empty() || it.watts != Watts::ZERO,
        };
        parts.into_iter().filter(named).collect()
    }
}
