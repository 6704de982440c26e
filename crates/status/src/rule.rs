//! The rule that determines the operating point of a governor.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wattline_units::named;

named! {
    /// Rule that determines the operating point.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum RuleName {
        /// The policy.
        #[default]
        Policy = "policy",
        /// The highest capacity, because the latency target is missed.
        LatencyTarget = "latency-target",
        /// The highest capacity, because a source of latency is silent.
        SilentSource = "silent-source",
        /// The safe point, because tasks wait longer for a CPU than usual.
        CpuPressure = "cpu-pressure",
    }
}
