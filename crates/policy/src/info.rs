//! Registry entries of policies, and the context in which a policy is made.

use crate::{Parameter, Parameters, Platform, Policy};
use serde::Serialize;
use wattline_server::{PacketCost, ServerModel};

/// Context in which a policy is made.
#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    /// The machine that it will govern.
    pub platform: &'a Platform,
    /// A model of that machine, where there is one.
    pub server: Option<&'a ServerModel>,
    /// Cost of a packet and its mean length in bytes, for policies that use the model.
    pub packet: Option<(PacketCost, u32)>,
    /// Seed for policies that draw random numbers.
    pub seed: u64,
}

/// Function that makes a policy of the registry; the error says what the policy lacks.
pub type Maker = fn(&Parameters, &BuildContext<'_>) -> Result<Box<dyn Policy>, String>;

/// Registry entry of a policy.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PolicyInfo {
    /// Its name.
    pub name: &'static str,
    /// One line on what it does.
    pub summary: &'static str,
    /// Publication or program that it comes from.
    pub source: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Makes it.
    #[serde(skip)]
    pub make: Maker,
}
