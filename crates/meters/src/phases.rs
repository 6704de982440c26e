//! The experiment of [`crate::attribution`] from recordings of its phases.
//!
//! A meter that shows 3 % too much does so in every phase, so its error of a difference is 3 % of
//! the difference, not of two wholes. Hence two uncertainties, added as squares: of the means, from
//! the variation of readings in each phase; and of each meter's scale, from its accuracy class, for
//! its contribution to the part. Successive readings count as independent, which flatters fast
//! sampling.

use crate::attribution::{
    Attribution, AttributionError, CoreTime, Experiment, Power, State, attribute,
};
use crate::reading::Scope;
use crate::recording::Row;
use serde::Serialize;
use std::collections::BTreeMap;
use wattline_units::{Accuracy, Source, Watts};

/// Fewest readings for a mean with an uncertainty.
const FEWEST: usize = 2;
const NOTHING: Power = Power { mean: Watts(0.0), uncertainty: Watts(0.0) };

/// The recordings.
#[derive(Debug, Clone, Copy)]
pub struct Phases<'a> {
    /// Cores asleep, card down.
    pub idle: &'a [Row],
    /// Cores asleep, card up.
    pub idle_plus: &'a [Row],
    /// All cores polling empty rings.
    pub polling: Option<&'a [Row]>,
    /// Under traffic.
    pub loaded: &'a [Row],
    /// Time of the cores under traffic.
    pub cores: CoreTime,
}

/// A part of the loaded machine's power.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Part of the machine.
    pub part: &'static str,
    /// Its power.
    #[serde(flatten)]
    pub power: Power,
}

/// The loaded machine's power; its parts add up to the whole.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The whole.
    #[serde(flatten)]
    pub whole: Power,
    /// The parts; the last one is the rest.
    pub parts: Vec<Part>,
    /// Source of the figures.
    pub source: Source,
    /// Accuracy of the least accurate meter.
    pub accuracy: Accuracy,
    /// The meters of the whole, of packages and of memory, with their classes.
    pub meters: BTreeMap<String, Accuracy>,
    /// Smallest number of readings of a mean.
    pub readings: usize,
    /// Limits of the figures.
    pub notes: Vec<&'static str>,
}

/// Recordings that do not allow an attribution.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PhasesError {
    /// No meter sees the whole.
    #[error(
        "{0}: no meter of the whole platform has figures; attribution needs one (ACPI power \
         meter, IPMI, psys, or an external meter by --external)"
    )]
    NoPlatform(&'static str),
    /// A meter of one phase is missing in another, or has too few readings.
    #[error("{phase}: {meter} has {readings} readings with a figure, at least {FEWEST} are needed")]
    TooFew {
        /// The phase.
        phase: &'static str,
        /// The meter.
        meter: String,
        /// Number of readings.
        readings: usize,
    },
    /// A figure not measured by a sensor.
    #[error(
        "{phase}: {meter} is {source_of}, {accuracy}; only what was measured can be taken apart"
    )]
    NotMeasured {
        /// The phase.
        phase: &'static str,
        /// The meter.
        meter: String,
        /// Its source.
        source_of: Source,
        /// Its accuracy.
        accuracy: Accuracy,
    },
    /// Contradictory figures.
    #[error(transparent)]
    Attribution(#[from] AttributionError),
}

/// Splits the loaded machine's power into parts.
///
/// # Errors
/// [`PhasesError`].
pub fn report(phases: &Phases<'_>) -> Result<Report, PhasesError> {
    let roles = Roles::find(phases.loaded)?;
    let mut seen = Seen::default();
    let polling = phases.polling.map(|rows| roles.state("polling", rows, &mut seen)).transpose()?;
    let experiment = Experiment {
        idle: roles.state("idle", phases.idle, &mut seen)?,
        idle_plus: roles.state("idle+", phases.idle_plus, &mut seen)?,
        polling,
        loaded: roles.state("loaded", phases.loaded, &mut seen)?,
        cores: phases.cores,
    };
    let found = attribute(&experiment)?;
    let scales = [0, 1, 2].map(|role| roles.scale(role, &seen.classes));
    let alone = [0, 1, 2].map(|role| attribute(&only(&experiment, role)));
    let alone = alone.into_iter().collect::<Result<Vec<_>, _>>()?;
    let with_scale = |of: &dyn Fn(&Attribution) -> Power| {
        let Power { mean, uncertainty } = of(&found);
        let shares = alone.iter().zip(scales).map(|(alone, scale)| scale * of(alone).mean.get());
        let variance: f64 = shares.map(|share| share * share).sum();
        let both = (uncertainty.get().powi(2) + variance).sqrt();
        Power { mean, uncertainty: Watts(both) }
    };
    let part = |part, of: &dyn Fn(&Attribution) -> Power| Part { part, power: with_scale(of) };
    let mut parts = Vec::new();
    let packages = !roles.packages.is_empty();
    let mut notes = Vec::new();
    if packages {
        parts.push(part("package, asleep", &|all| all.package_idle));
        match experiment.polling {
            Some(_) => {
                let or_nothing = |power: Option<Power>| power.unwrap_or(NOTHING);
                parts.push(part("package, empty polling", &|all| or_nothing(all.package_empty)));
                parts.push(part("package, useful work", &|all| or_nothing(all.package_useful)));
            }
            None => parts.push(part("package, awake", &|all| all.package_active)),
        }
        if roles.memories.is_empty() {
            notes.push("no meter sees the memory: it is in the card's part and in the rest");
        } else {
            parts.push(part("memory", &|all| all.memory.unwrap_or(NOTHING)));
        }
        parts.push(part("network card, idle", &|all| all.card_idle));
        parts.push(part("network card, traffic", &|all| all.card_active));
        notes.push("losses of the supply and faster fans are in the card's part");
    } else {
        notes.push(
            "no meter sees the packages: power added by traffic includes theirs, the card's and memory's",
        );
        parts.push(part("network card, idle", &|all| all.card_idle));
        parts.push(part("processors and card, traffic", &|all| all.card_active));
        if experiment.polling.is_some() {
            notes.push("empty polling is separated from work only where a meter sees the packages");
        }
    }
    parts.push(part("rest", &|all| all.rest));
    let accuracy = seen.classes.values().copied().max_by_key(|class| *class as u8);
    Ok(Report {
        whole: with_scale(&|all| all.platform),
        parts,
        source: Source::Measured,
        accuracy: accuracy.unwrap_or(Accuracy::Unavailable),
        meters: seen.classes,
        readings: seen.fewest.unwrap_or(0),
        notes,
    })
}

/// Meters of each part.
struct Roles {
    platform: String,
    packages: Vec<String>,
    memories: Vec<String>,
}

/// Meters used.
#[derive(Default)]
struct Seen {
    classes: BTreeMap<String, Accuracy>,
    fewest: Option<usize>,
}

impl Roles {
    /// Finds the meters with figures under load. Duplicates are left out; packages within the
    /// platform's own meter are parts of it.
    fn find(rows: &[Row]) -> Result<Self, PhasesError> {
        let valid = || rows.iter().filter(|row| row.power_watts.is_some());
        let platforms = || valid().filter(|row| row.sees == Scope::Platform);
        // The most accurate of several; the first of equals.
        let platform = platforms()
            .filter(|row| row.part_of.is_none())
            .min_by_key(|row| row.accuracy as u8)
            .ok_or(PhasesError::NoPlatform("loaded"))?;
        let of = |scope: Scope| {
            let own = |row: &&Row| {
                let within = |whole: &String| platforms().any(|one| one.meter == *whole);
                row.sees == scope && row.part_of.as_ref().is_none_or(within)
            };
            let mut ids: Vec<String> = valid().filter(own).map(|row| row.meter.clone()).collect();
            ids.sort();
            ids.dedup();
            ids
        };
        let (packages, memories) = (of(Scope::Package), of(Scope::Memory));
        // Without packages, memory alone explains little of the rest.
        let memories = if packages.is_empty() { Vec::new() } else { memories };
        Ok(Self { platform: platform.meter.clone(), packages, memories })
    }

    fn state(
        &self,
        phase: &'static str,
        rows: &[Row],
        seen: &mut Seen,
    ) -> Result<State, PhasesError> {
        let mut sum = |meters: &[String]| -> Result<Power, PhasesError> {
            let mut sum = NOTHING;
            for meter in meters {
                let Power { mean, uncertainty } = mean(phase, meter, rows, seen)?;
                let both = uncertainty.get().hypot(sum.uncertainty.get());
                sum = Power { mean: sum.mean + mean, uncertainty: Watts(both) };
            }
            Ok(sum)
        };
        let memory = sum(&self.memories)?;
        Ok(State {
            platform: sum(std::slice::from_ref(&self.platform))?,
            package: sum(&self.packages)?,
            memory: (!self.memories.is_empty()).then_some(memory),
        })
    }

    /// Returns the standard uncertainty of a role's scale: a class states limits, and every error
    /// between them is equally likely (GUM 4.3.7).
    fn scale(&self, role: usize, classes: &BTreeMap<String, Accuracy>) -> f64 {
        let meters = match role {
            0 => std::slice::from_ref(&self.platform),
            1 => &self.packages[..],
            _ => &self.memories[..],
        };
        let limits = meters.iter().filter_map(|meter| limit(*classes.get(meter)?));
        limits.fold(0.0, f64::max) / 3f64.sqrt()
    }
}

/// Returns the largest error of a measured class, as a share.
fn limit(class: Accuracy) -> Option<f64> {
    match class {
        Accuracy::Gold => Some(0.05),
        Accuracy::Silver => Some(0.10),
        Accuracy::Bronze => Some(0.30),
        _ => None,
    }
}

/// Returns the experiment as if only one role had been measured, exactly.
fn only(experiment: &Experiment, role: usize) -> Experiment {
    let cut = |state: &State| {
        let keep = |own: usize, power: Power| match own == role {
            true => Power { uncertainty: Watts(0.0), ..power },
            false => NOTHING,
        };
        State {
            platform: keep(0, state.platform),
            package: keep(1, state.package),
            memory: state.memory.map(|memory| keep(2, memory)),
        }
    };
    Experiment {
        idle: cut(&experiment.idle),
        idle_plus: cut(&experiment.idle_plus),
        polling: experiment.polling.as_ref().map(cut),
        loaded: cut(&experiment.loaded),
        cores: experiment.cores,
    }
}

/// Returns the mean power of a meter, weighted by the time of each reading, with the standard
/// uncertainty of the mean.
fn mean(
    phase: &'static str,
    meter: &str,
    rows: &[Row],
    seen: &mut Seen,
) -> Result<Power, PhasesError> {
    let own = rows.iter().filter(|row| row.meter == meter);
    let mut values: Vec<(f64, f64)> = Vec::new();
    for row in own {
        let (Some(power), Some(elapsed)) = (row.power_watts, row.elapsed_seconds) else { continue };
        if row.source != Source::Measured || limit(row.accuracy).is_none() {
            let (source_of, accuracy) = (row.source, row.accuracy);
            return Err(PhasesError::NotMeasured {
                phase,
                meter: meter.to_owned(),
                source_of,
                accuracy,
            });
        }
        let class = seen.classes.entry(meter.to_owned()).or_insert(row.accuracy);
        if row.accuracy as u8 > *class as u8 {
            *class = row.accuracy;
        }
        // The first reading of a power-only sensor covers no time.
        let weight = if row.energy_joules.is_some() { elapsed } else { 1.0 };
        values.push((power, weight));
    }
    values.retain(|(_, weight)| *weight > 0.0);
    if values.len() < FEWEST {
        let readings = values.len();
        return Err(PhasesError::TooFew { phase, meter: meter.to_owned(), readings });
    }
    seen.fewest = Some(seen.fewest.map_or(values.len(), |fewest| fewest.min(values.len())));
    let weights: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mean = values.iter().map(|(power, weight)| power * weight).sum::<f64>() / weights;
    let squares = values.iter().map(|(power, weight)| weight * (power - mean).powi(2));
    let count = values.len() as f64;
    let variance = squares.sum::<f64>() / weights * count / (count - 1.0);
    Ok(Power { mean: Watts(mean), uncertainty: Watts((variance / count).sqrt()) })
}
