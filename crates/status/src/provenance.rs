//! Origin of a figure, as in [`wattline_units`], with a schema.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// How a figure of power or energy was obtained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Read from a sensor.
    Measured,
    /// Computed from a model of a server.
    Modelled,
    /// Computed from a model whose states real packets passed through.
    Emulated,
    /// Unknown.
    #[default]
    Unavailable,
}

/// Accuracy of a figure, after the IETF GREEN identities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

impl From<wattline_units::Source> for Source {
    fn from(source: wattline_units::Source) -> Self {
        use wattline_units::Source as Of;
        match source {
            Of::Measured => Self::Measured,
            Of::Modelled => Self::Modelled,
            Of::Emulated => Self::Emulated,
            Of::Unavailable => Self::Unavailable,
        }
    }
}

impl From<Source> for wattline_units::Source {
    fn from(source: Source) -> Self {
        match source {
            Source::Measured => Self::Measured,
            Source::Modelled => Self::Modelled,
            Source::Emulated => Self::Emulated,
            Source::Unavailable => Self::Unavailable,
        }
    }
}

impl From<wattline_units::Accuracy> for Accuracy {
    fn from(accuracy: wattline_units::Accuracy) -> Self {
        use wattline_units::Accuracy as Of;
        match accuracy {
            Of::Gold => Self::Gold,
            Of::Silver => Self::Silver,
            Of::Bronze => Self::Bronze,
            Of::Learned => Self::Learned,
            Of::Historic => Self::Historic,
            Of::Static => Self::Static,
            Of::Unavailable => Self::Unavailable,
        }
    }
}

impl From<Accuracy> for wattline_units::Accuracy {
    fn from(accuracy: Accuracy) -> Self {
        match accuracy {
            Accuracy::Gold => Self::Gold,
            Accuracy::Silver => Self::Silver,
            Accuracy::Bronze => Self::Bronze,
            Accuracy::Learned => Self::Learned,
            Accuracy::Historic => Self::Historic,
            Accuracy::Static => Self::Static,
            Accuracy::Unavailable => Self::Unavailable,
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        wattline_units::Source::from(*self).fmt(to)
    }
}

impl fmt::Display for Accuracy {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        wattline_units::Accuracy::from(*self).fmt(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_units() {
        for source in [Source::Measured, Source::Modelled, Source::Emulated, Source::Unavailable] {
            let name = serde_json::to_value(wattline_units::Source::from(source)).unwrap();
            assert_eq!(serde_json::to_value(source).unwrap(), name);
        }
        let name = serde_json::to_value(wattline_units::Accuracy::Historic).unwrap();
        assert_eq!(serde_json::to_value(Accuracy::Historic).unwrap(), name);
    }
}
