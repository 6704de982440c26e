//! The rule that determines the operating point of a governor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rule that determines the operating point.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleName {
    /// The policy.
    #[default]
    Policy,
    /// The highest capacity, because the latency target is missed.
    LatencyTarget,
    /// The highest capacity, because a source of latency is silent.
    SilentSource,
    /// The safe point, because tasks wait longer for a CPU than usual.
    CpuPressure,
}

impl RuleName {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Policy, Self::LatencyTarget, Self::SilentSource, Self::CpuPressure];

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::LatencyTarget => "latency-target",
            Self::SilentSource => "silent-source",
            Self::CpuPressure => "cpu-pressure",
        }
    }
}
