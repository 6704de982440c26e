//! Attribution of a loaded machine's watts by subtraction: the same machine is measured in states
//! that differ in one thing at a time, after the method of Sohan et al. (section 3) and of Liao and
//! Bhuyan (section 4).
//!
//! | state | cores | card | packets |
//! |---|---|---|---|
//! | idle | asleep | down | none |
//! | idle+ | asleep | up, with link | none |
//! | polling (optional) | polling empty rings | up | none |
//! | loaded | as governed | up | traffic |
//!
//! The parts of the loaded machine add up to its power. Package and memory are measured. The card's
//! part is the increase of the whole over idle, less the increase of package and memory. The rest
//! is the remainder when idle. Losses of the supply and faster fans are in the card's figure; a
//! card with its own meter needs no subtraction.

use serde::Serialize;
use wattline_units::Watts;

/// A mean power with its standard uncertainty.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Power {
    /// Mean.
    #[serde(rename = "power_watts")]
    pub mean: Watts,
    /// Standard uncertainty of the mean: from the meter, and from its variation.
    #[serde(rename = "uncertainty_watts")]
    pub uncertainty: Watts,
}

/// One state, measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct State {
    /// The whole machine.
    pub platform: Power,
    /// All processor packages.
    pub package: Power,
    /// All memory; `None` without a meter for it: it is in the rest and the card's part then.
    pub memory: Option<Power>,
}

/// Time of the loaded cores, in shares of all cores' time; they sleep the rest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CoreTime {
    /// Share of their time with work, 0 to 1.
    pub useful_share: f64,
    /// Share of their time without work, polling, 0 to 1.
    pub empty_share: f64,
}

/// The experiment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Experiment {
    /// Cores asleep, card down.
    pub idle: State,
    /// Cores asleep, card up.
    pub idle_plus: State,
    /// All cores polling empty rings.
    pub polling: Option<State>,
    /// Under traffic.
    pub loaded: State,
    /// Time of the cores under traffic.
    pub cores: CoreTime,
}

/// The loaded machine's power by component; platform = package + memory + card + rest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Attribution {
    /// The whole.
    pub platform: Power,
    /// Packages.
    pub package: Power,
    /// Memory, if measured.
    pub memory: Option<Power>,
    /// The card, idle and active.
    pub card: Power,
    /// Card power without traffic.
    pub card_idle: Power,
    /// Card power that traffic adds.
    pub card_active: Power,
    /// Power of everything else: board, fans, disks, the supply's own loss.
    pub rest: Power,
    /// Package power of polling in vain; package = idle + empty + useful. None without the polling
    /// state.
    pub package_empty: Option<Power>,
    /// Package power for useful work of the cores.
    pub package_useful: Option<Power>,
    /// Package power when all cores sleep.
    pub package_idle: Power,
    /// Additional package power under load: in vain and for work.
    pub package_active: Power,
}

/// An invalid experiment.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum AttributionError {
    /// A figure that is not finite, or an uncertainty below zero.
    #[error("{state}, {what}: {mean} with uncertainty {uncertainty} is not a measurement")]
    Figure {
        /// The state.
        state: &'static str,
        /// Measured quantity.
        what: &'static str,
        /// The mean.
        mean: Watts,
        /// Its uncertainty.
        uncertainty: Watts,
    },
    /// Memory measured in one state and not in another.
    #[error("memory must be measured in every state or in none")]
    Memory,
    /// Shares below 0 or together above 1.
    #[error("shares of the cores' time must be 0 to 1 and at most 1 together, not {0} and {1}")]
    Shares(f64, f64),
}

/// Attributes the power of the loaded machine.
///
/// # Errors
/// [`AttributionError`].
pub fn attribute(experiment: &Experiment) -> Result<Attribution, AttributionError> {
    let Experiment { idle, idle_plus, polling, loaded, cores } = experiment;
    let mut states = vec![("idle", idle), ("idle+", idle_plus), ("loaded", loaded)];
    states.extend(polling.as_ref().map(|state| ("polling", state)));
    for (name, state) in &states {
        state.check(name)?;
    }
    if states.iter().any(|(_, state)| state.memory.is_some() != idle.memory.is_some()) {
        return Err(AttributionError::Memory);
    }
    let CoreTime { useful_share: useful, empty_share: empty } = *cores;
    if !(useful >= 0.0 && empty >= 0.0 && useful + empty <= 1.0 + 1e-9) {
        return Err(AttributionError::Shares(useful, empty));
    }
    let [mi, mp, ml] = [idle, idle_plus, loaded].map(State::memory);
    // Each figure is a sum of measurements, each contained once. Only then does the uncertainty of
    // a measurement in two terms count once, with its sign.
    let card = sum(&[
        (1.0, loaded.platform),
        (-1.0, idle.platform),
        (-1.0, loaded.package),
        (1.0, idle.package),
        (-1.0, ml),
        (1.0, mi),
    ]);
    let card_idle = sum(&[
        (1.0, idle_plus.platform),
        (-1.0, idle.platform),
        (-1.0, idle_plus.package),
        (1.0, idle.package),
        (-1.0, mp),
        (1.0, mi),
    ]);
    let card_active = sum(&[
        (1.0, loaded.platform),
        (-1.0, idle_plus.platform),
        (-1.0, loaded.package),
        (1.0, idle_plus.package),
        (-1.0, ml),
        (1.0, mp),
    ]);
    let package_active = sum(&[(1.0, loaded.package), (-1.0, idle_plus.package)]);
    let rest = sum(&[(1.0, idle.platform), (-1.0, idle.package), (-1.0, mi)]);
    // Cost of a share of polling: the same share of the cost of polling all the time.
    let package_empty = polling.map(|p| sum(&[(empty, p.package), (-empty, idle_plus.package)]));
    let package_useful = polling.map(|p| {
        sum(&[(1.0, loaded.package), (empty - 1.0, idle_plus.package), (-empty, p.package)])
    });
    Ok(Attribution {
        platform: loaded.platform,
        package: loaded.package,
        memory: loaded.memory,
        card,
        card_idle,
        card_active,
        rest,
        package_empty,
        package_useful,
        package_idle: idle_plus.package,
        package_active,
    })
}

impl State {
    fn check(&self, state: &'static str) -> Result<(), AttributionError> {
        let figures = [
            ("platform", Some(self.platform)),
            ("package", Some(self.package)),
            ("memory", self.memory),
        ];
        for (what, figure) in figures {
            let Some(Power { mean, uncertainty }) = figure else { continue };
            let sound = mean.get().is_finite() && uncertainty.get().is_finite();
            if !sound || uncertainty.get() < 0.0 {
                return Err(AttributionError::Figure { state, what, mean, uncertainty });
            }
        }
        Ok(())
    }

    fn memory(&self) -> Power {
        self.memory.unwrap_or(Power { mean: Watts(0.0), uncertainty: Watts(0.0) })
    }
}

/// Adds independent measurements (GUM, equation 10).
fn sum(terms: &[(f64, Power)]) -> Power {
    let mean = terms.iter().map(|(factor, power)| factor * power.mean.get()).sum();
    let variance: f64 =
        terms.iter().map(|(factor, power)| (factor * power.uncertainty.get()).powi(2)).sum();
    Power { mean: Watts(mean), uncertainty: Watts(variance.sqrt()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn power(mean: f64, uncertainty: f64) -> Power {
        Power { mean: Watts(mean), uncertainty: Watts(uncertainty) }
    }

    fn state(platform: f64, package: f64, memory: Option<f64>) -> State {
        let memory = memory.map(|watts| power(watts, 0.2));
        State { platform: power(platform, 1.0), package: power(package, 0.5), memory }
    }

    #[test]
    fn invalid_measurement_is_named() {
        let good = state(100.0, 30.0, None);
        let cores = CoreTime { useful_share: 0.5, empty_share: 0.1 };
        let all = Experiment { idle: good, idle_plus: good, polling: None, loaded: good, cores };
        assert!(attribute(&all).is_ok());
        let bad = Experiment { loaded: state(f64::NAN, 30.0, None), ..all };
        let error = attribute(&bad).unwrap_err().to_string();
        assert!(error.starts_with("loaded, platform"), "{error}");
        let mixed = Experiment { loaded: state(100.0, 30.0, Some(3.0)), ..all };
        assert_eq!(attribute(&mixed), Err(AttributionError::Memory));
        let shares = CoreTime { useful_share: 0.9, empty_share: 0.2 };
        let error = attribute(&Experiment { cores: shares, ..all }).unwrap_err();
        assert_eq!(error, AttributionError::Shares(0.9, 0.2));
    }

    fn any_state() -> impl Strategy<Value = State> {
        ((0.0f64..1000.0, 0.0f64..50.0), (0.0f64..400.0, 0.0f64..20.0), (0.0f64..80.0, 0.0f64..5.0))
            .prop_map(|(platform, package, memory)| State {
                platform: power(platform.0, platform.1),
                package: power(package.0, package.1),
                memory: Some(power(memory.0, memory.1)),
            })
    }

    proptest! {
        /// Parts add up to the whole for any measurements, and no figure is more certain than the
        /// measurements that it is the difference of.
        #[test]
        fn parts_add_up_and_uncertainties_do_not_shrink(
            idle in any_state(), idle_plus in any_state(), polling in any_state(),
            loaded in any_state(), useful in 0.0f64..0.5, empty in 0.0f64..0.5,
        ) {
            let cores = CoreTime { useful_share: useful, empty_share: empty };
            let experiment = Experiment { idle, idle_plus, polling: Some(polling), loaded, cores };
            let found = attribute(&experiment).unwrap();
            let parts = found.package.mean.get() + found.memory.unwrap().mean.get()
                + found.card.mean.get() + found.rest.mean.get();
            prop_assert!((parts - found.platform.mean.get()).abs() < 1e-6);
            let package = found.package_idle.mean.get()
                + found.package_empty.unwrap().mean.get() + found.package_useful.unwrap().mean.get();
            prop_assert!((package - found.package.mean.get()).abs() < 1e-6);
            let halves = [
                (found.card_idle, found.card_active, found.card),
                (found.package_idle, found.package_active, found.package),
            ];
            for (one, other, both) in halves {
                prop_assert!((one.mean.get() + other.mean.get() - both.mean.get()).abs() < 1e-6);
            }
            let least = loaded.platform.uncertainty.get().max(idle.platform.uncertainty.get());
            prop_assert!(found.card.uncertainty.get() >= least - 1e-9);
            prop_assert!(found.rest.uncertainty.get() >= idle.platform.uncertainty.get() - 1e-9);
        }
    }
}
