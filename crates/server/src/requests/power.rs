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
    /// Share of the uncore's power drawn while no core executes: 1 if it does not depend on their
    /// activity.
    pub uncore_idle_share: f64,
    /// Power of package and uncore in the package's idle state, entered while all cores are in
    /// their deepest. `None` without such a state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_idle: Option<Watts>,
}

impl RequestPower {
    pub(super) fn read(section: &Section<'_, '_>, states: Option<usize>) -> Option<Self> {
        let volts = section.numbers("volts", 0.1..=5.0);
        let dynamic = section.number("core_watts_per_ghz_v2", 0.0..=1000.0);
        let fixed = section.number("core_watts_per_v2", 0.0..=1000.0);
        let package = section.number("package_watts", 0.0..=10_000.0);
        let uncore = section.numbers("uncore_watts", 0.0..=10_000.0);
        let uncore_idle = section.number_or("uncore_idle_share", 1.0, 0.0..=1.0);
        let package_idle = section.optional_number("package_idle_watts", 0.0..=10_000.0);
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
        let least = uncore.as_ref().and_then(|list| list.first().copied());
        let least = least.zip(package).map(|(uncore, package)| uncore + package);
        if package_idle.zip(least).is_some_and(|(idle, least)| idle > least) {
            let why = "must not be above the power while cores run".into();
            section.contradiction("package_idle_watts", why);
            sound = false;
        }
        sound.then_some(())?;
        Some(Self {
            volts: volts?,
            dynamic_per_gigahertz: dynamic?,
            static_per_square_volt: fixed?,
            package: Watts(package?),
            uncore: uncore?.into_iter().map(Watts).collect(),
            uncore_idle_share: uncore_idle?,
            package_idle: package_idle.map(Watts),
        })
    }

    /// Returns the mean power of package and uncore without cores. `uncore` is the uncore's power
    /// by V/F states alone, `executing` the share of time in which any core executes, and `asleep`
    /// the share in which all cores are in the deepest idle state.
    pub fn without_cores(&self, uncore: Watts, executing: f64, asleep: f64) -> (Watts, Watts) {
        // Power of the uncore without activity, also counted while the package sleeps.
        let still = uncore * self.uncore_idle_share;
        let uncore = still + (uncore - still) * executing;
        match self.package_idle {
            Some(idle) => (self.package * (1.0 - asleep) + idle * asleep, uncore - still * asleep),
            None => (self.package, uncore),
        }
    }

    /// Returns the power of a powered core with stopped clocks, at the V/F state with this index.
    pub fn core_static(&self, state: usize) -> Watts {
        let volts = self.volts.get(state).copied().unwrap_or_default();
        Watts(self.static_per_square_volt * volts * volts)
    }

    /// Returns the power of an executing core at the V/F state with this index and frequency.
    pub fn core_awake(&self, state: usize, frequency: Hertz) -> Watts {
        let volts = self.volts.get(state).copied().unwrap_or_default();
        let dynamic = self.dynamic_per_gigahertz * frequency.gigahertz() * volts * volts;
        self.core_static(state) + Watts(dynamic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn power(uncore_idle_share: f64, package_idle: Option<f64>) -> RequestPower {
        RequestPower {
            volts: vec![0.8],
            dynamic_per_gigahertz: 1.0,
            static_per_square_volt: 1.0,
            package: Watts(16.0),
            uncore: vec![Watts(8.0)],
            uncore_idle_share,
            package_idle: package_idle.map(Watts),
        }
    }

    #[test]
    fn package_and_uncore_follow_the_cores_only_if_the_file_has_the_figures() {
        let of = |power: RequestPower, executing, asleep| {
            let (package, uncore) = power.without_cores(Watts(8.0), executing, asleep);
            (package.0, uncore.0)
        };
        assert_eq!(of(power(1.0, None), 0.25, 0.5), (16.0, 8.0));
        assert_eq!(of(power(0.5, None), 0.25, 0.5), (16.0, 5.0));
        assert_eq!(of(power(0.5, None), 1.0, 0.0), (16.0, 8.0));
        // For half of the time package and uncore together draw 12 W.
        assert_eq!(of(power(1.0, Some(12.0)), 0.25, 0.5), (14.0, 4.0));
        assert_eq!(of(power(0.5, Some(12.0)), 0.0, 1.0), (12.0, 0.0));
    }
}
