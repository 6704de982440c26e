//! Registry entries of policies, and the context in which a policy is built.

use crate::{Parameter, Parameters, Platform, Policy};
use serde::Serialize;
use wattline_server::{PacketCost, ServerModel};

/// Context in which a policy is built.
#[derive(Clone, Copy)]
pub struct BuildContext<'a> {
    /// Machine to govern.
    pub platform: &'a Platform,
    /// Model of that machine, if there is one.
    pub server: Option<&'a ServerModel>,
    /// Cost of a packet and its mean length in bytes, for policies that use the model.
    pub packet: Option<(PacketCost, u32)>,
    /// Seed for policies that draw random numbers.
    pub seed: u64,
}

/// Function that builds a policy of the registry; the error names the needs that are not met.
pub type Maker = fn(&Parameters, &BuildContext<'_>) -> Result<Box<dyn Policy>, String>;

/// Registry entry of a policy.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct PolicyInfo {
    /// Name of the policy.
    pub name: &'static str,
    /// Effect in one line.
    pub summary: &'static str,
    /// Publication or program that the policy comes from.
    pub source: &'static str,
    /// Parameters of the policy.
    pub parameters: &'static [Parameter],
    /// Builds the policy.
    #[serde(skip)]
    pub make: Maker,
}
