//! Power of the processor's package, the scope of RAPL's package counter.

use crate::input::Section;
use serde::Serialize;
use wattline_units::{Hertz, Watts};

/// The parameters of a package's power.
///
/// An executing core draws `dynamic × f × V² + static × V²`. The power of the uncore depends on the
/// fastest V/F state of any core, since its frequency follows that.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestPower {
    /// Voltage of each V/F state, in the order of the frequencies.
    pub volts: Vec<f64>,
    /// Dynamic power of an executing core per GHz and V².
    pub dynamic_per_gigahertz: f64,
    /// Static power of a powered core, executing or not, per V².
    pub static_per_square_volt: f64,
    /// Power of the package without cores.
    pub package: Watts,
    /// Power of the uncore by the fastest V/F state of any core, in the order of the frequencies.
    pub uncore: Vec<Watts>,
}

impl RequestPower {
    pub(super) fn read(section: &Section<'_, '_>, states: Option<usize>) -> Option<Self> {
        let volts = section.numbers("volts", 0.1..=5.0);
        let dynamic = section.number("core_watts_per_ghz_v2", 0.0..=1000.0);
        let fixed = section.number("core_watts_per_v2", 0.0..=1000.0);
        let package = section.number("package_watts", 0.0..=10_000.0);
        let uncore = section.numbers("uncore_watts", 0.0..=10_000.0);
        let mut sound = true;
        for (key, list) in [("volts", &volts), ("uncore_watts", &uncore)] {
            let (Some(list), Some(states)) = (list, states) else { continue };
            if list.len() != states {
                let why = format!("must have one figure for each of the {states} frequencies");
                section.contradiction(key, why);
                sound = false;
            }
            if list.windows(2).any(|pair| pair[0] > pair[1]) {
                section.contradiction(key, "must not fall with frequency".into());
                sound = false;
            }
        }
        sound.then_some(())?;
        Some(Self {
            volts: volts?,
            dynamic_per_gigahertz: dynamic?,
            static_per_square_volt: fixed?,
            package: Watts(package?),
            uncore: uncore?.into_iter().map(Watts).collect(),
        })
    }

    /// Power of a powered core with stopped clocks, at the V/F state with this index.
    pub fn core_static(&self, state: usize) -> Watts {
        let volts = self.volts.get(state).copied().unwrap_or_default();
        Watts(self.static_per_square_volt * volts * volts)
    }

    /// Power of an executing core at the V/F state with this index and frequency.
    pub fn core_awake(&self, state: usize, frequency: Hertz) -> Watts {
        let volts = self.volts.get(state).copied().unwrap_or_default();
        let dynamic = self.dynamic_per_gigahertz * frequency.gigahertz() * volts * volts;
        self.core_static(state) + Watts(dynamic)
    }
}
