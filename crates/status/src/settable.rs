//! Knobs that a governor may set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Knobs that the machine has and the governor may set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CanSet {
    /// Frequencies.
    pub frequency: bool,
    /// Idle states.
    pub idle: bool,
    /// Interrupt moderation.
    pub moderation: bool,
}
