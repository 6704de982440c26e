//! Source of a figure, and its accuracy.
//!
//! The accuracy classes follow the IETF GREEN data-source-accuracy identities: measured (gold,
//! silver, bronze), estimated (learned, historic, static), unavailable.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Source of a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Read from a sensor.
    Measured,
    /// Computed from a model of a server, in virtual time or on paper.
    Modelled,
    /// Computed from a model whose states real packets passed through (`scale`).
    Emulated,
    /// Unknown.
    #[default]
    Unavailable,
}

/// Accuracy of a figure, after the IETF GREEN identities.
// Ordered: the greater, the less accurate.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Accuracy {
    /// Measured, within 5 %.
    Gold,
    /// Measured, within 10 %.
    Silver,
    /// Measured, within 30 %.
    Bronze,
    /// Estimated by a model that was fitted to measurements of this machine.
    Learned,
    /// Estimated from earlier measurements.
    Historic,
    /// Estimated from a data sheet or a published model.
    Static,
    /// Unknown.
    #[default]
    Unavailable,
}

/// Provenance of every figure of power or energy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Provenance {
    /// Source of the figure.
    pub source: Source,
    /// Accuracy of the figure.
    pub accuracy: Accuracy,
}

impl Provenance {
    /// Provenance of a published or hand-written model's figure.
    pub const MODELLED: Self = Self { source: Source::Modelled, accuracy: Accuracy::Static };
    /// Provenance of a published or hand-written model's figure whose states real packets passed
    /// through.
    pub const EMULATED: Self = Self { source: Source::Emulated, accuracy: Accuracy::Static };
    /// Provenance of a missing figure.
    pub const UNAVAILABLE: Self =
        Self { source: Source::Unavailable, accuracy: Accuracy::Unavailable };
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Measured => "measured",
            Self::Modelled => "modelled",
            Self::Emulated => "emulated",
            Self::Unavailable => "unavailable",
        })
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gold => "gold",
            Self::Silver => "silver",
            Self::Bronze => "bronze",
            Self::Learned => "learned",
            Self::Historic => "historic",
            Self::Static => "static",
            Self::Unavailable => "unavailable",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_display_agree() {
        let json = serde_json::to_string(&Provenance::MODELLED).unwrap();
        assert_eq!(json, r#"{"source":"modelled","accuracy":"static"}"#);
        assert_eq!(Source::Emulated.to_string(), "emulated");
    }
}
