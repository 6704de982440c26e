//! Classes of devices, with the loads at which power counts and their weights.

use serde::Serialize;
use std::str::FromStr;

/// A class of device, with the loads and weights of ETSI ES 203 136 and ITU-T L.1310 as restated in
/// draft-ietf-bmwg-powerbench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Access router: 100, 10 and 0 % of the throughput.
    Access,
    /// Core router: 100, 30 and 0 %.
    Core,
    /// Switch of a data centre: 100, 30 and 0 %.
    DataCentre,
}

/// A load as a share of the throughput, with its weight.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Weighted {
    /// Share of the throughput.
    pub share: f64,
    /// Weight; the weights of a class add up to 1.
    pub weight: f64,
}

impl Class {
    /// Returns the loads, the highest first.
    pub fn loads(self) -> [Weighted; 3] {
        let middle = match self {
            Self::Access => 0.1,
            Self::Core | Self::DataCentre => 0.3,
        };
        let load = |share, weight| Weighted { share, weight };
        [load(1.0, 0.1), load(middle, 0.8), load(0.0, 0.1)]
    }

    /// Returns the name in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Access => "access router",
            Self::Core => "core router",
            Self::DataCentre => "data-centre switch",
        }
    }
}

impl FromStr for Class {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "access" => Ok(Self::Access),
            "core" => Ok(Self::Core),
            // Accepts both spellings.
            "data-centre" | "data-center" => Ok(Self::DataCentre),
            _ => Err("expected access, core or data-centre".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_to_one() {
        for class in [Class::Access, Class::Core, Class::DataCentre] {
            let sum: f64 = class.loads().iter().map(|load| load.weight).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{class:?}");
            assert_eq!(class.loads()[0].share, 1.0);
        }
    }
}
