//! Tables of a profile: tail latency and power by load, V/F state and moderation period.
//!
//! Co-PI searches [`ProfileTables`] (section IV.A of the paper): a latency table and an energy
//! table over the same points, the conditions of the profile, and the machine.
//! `docs/reference/profile-tables.md` describes the text form.

mod lookup;
mod read;
mod write;

pub use lookup::Choice;

use serde::{Deserialize, Serialize};
use wattline_units::{Hertz, Span};

/// Machine of a profile; on another machine the profile is meaningless.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// Number of cores.
    pub cores: usize,
    /// Frequencies in GHz, ascending.
    pub frequencies_ghz: Vec<f64>,
    /// Shortest and longest moderation period in microseconds.
    pub moderation_us: [f64; 2],
    /// Processor, idle states and cards, in words. Empty for a simulated machine and in tables
    /// older than this field; an empty list is not compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hardware: Vec<String>,
}

/// Conditions under which a profile was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Version of the format: 1.
    pub version: u32,
    /// Description of the server, or the name of its model.
    pub server: String,
    /// Workload of the profile.
    pub workload: String,
    /// Origin of the figures: `modelled` or `measured`.
    pub source: String,
    /// Percentile of the latencies, such as 95.
    pub percentile: f64,
    /// The machine.
    pub machine: Fingerprint,
    /// Packets at the server's queues per request, including acknowledgements, in the order of the
    /// loads; empty for one packet per request. A governor counts packets, not requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arrivals_per_request: Vec<f64>,
    /// Origin of the watts, in words, such as a meter or a model; [`NOT_MEASURED`] in tables
    /// without watts. `None` if it equals `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<String>,
}

/// Value of `energy` in tables without watts.
pub const NOT_MEASURED: &str = "not measured; points are ordered by V/F state, the lowest first, then by \
     moderation period, the longest first";

/// Criterion by which points are cheaper than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnergyOrder {
    /// By the watts of the tables.
    Watts,
    /// Without watts: a lower V/F state counts as cheaper, and within a state the longer moderation
    /// period, which has fewer interrupts. This is an assumption, not a measurement.
    StateThenPeriod,
}

/// Latency and power of one point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProfilePoint {
    /// Tail latency in seconds; infinite if the load was not sustained.
    pub latency_seconds: f64,
    /// Power of the package in watts; not a number if it was not measured.
    pub power_watts: f64,
}

/// Both tables of a profile. Points may be missing: a sparse profile omits most.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfileTables {
    /// Conditions and machine of the profile.
    pub conditions: Conditions,
    /// Requests per second and core, ascending.
    loads: Vec<f64>,
    frequencies: Vec<Hertz>,
    periods: Vec<Span>,
    /// Points, at index `(load × frequencies + frequency) × periods + period`.
    points: Vec<Option<ProfilePoint>>,
    /// Points at the fastest frequency with the driver's own moderation, by load.
    defaults: Vec<Option<ProfilePoint>>,
}

/// Largest number of points, so that a hostile file cannot exhaust the memory.
const MOST_POINTS: usize = 2_000_000;

impl ProfileTables {
    /// Creates tables without points over these axes. The frequencies are those of the machine.
    ///
    /// # Errors
    /// Fails when an axis is empty, not ascending or not finite, or when the tables would be too
    /// large.
    pub fn new(
        conditions: Conditions,
        loads: Vec<f64>,
        periods: Vec<Span>,
    ) -> Result<Self, String> {
        let frequencies: Vec<Hertz> = conditions
            .machine
            .frequencies_ghz
            .iter()
            .map(|ghz| Hertz::from_gigahertz(*ghz))
            .collect();
        let ascends = |axis: &[f64]| {
            let sound = axis.iter().all(|value| value.is_finite() && *value > 0.0);
            sound && !axis.is_empty() && axis.windows(2).all(|pair| pair[0] < pair[1])
        };
        if !ascends(&loads) {
            return Err("loads must be above zero and ascend, at least one".into());
        }
        if !ascends(&conditions.machine.frequencies_ghz) {
            return Err("frequencies_ghz must be above zero and ascend, at least one".into());
        }
        if periods.is_empty() || periods.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err("periods must ascend, at least one".into());
        }
        let points = loads.len().saturating_mul(frequencies.len()).saturating_mul(periods.len());
        if points > MOST_POINTS {
            return Err(format!("{points} points are beyond the {MOST_POINTS} that are allowed"));
        }
        let arrivals = &conditions.arrivals_per_request;
        let sound = arrivals.iter().all(|ratio| (1e-3..=1e3).contains(ratio));
        if !sound || !(arrivals.is_empty() || arrivals.len() == loads.len()) {
            return Err(format!(
                "arrivals_per_request must be a number from 0.001 to 1000 for each of the {} loads",
                loads.len()
            ));
        }
        let defaults = vec![None; loads.len()];
        let points = vec![None; points];
        Ok(Self { conditions, loads, frequencies, periods, points, defaults })
    }

    /// Returns the profiled requests per second and core, ascending.
    pub fn loads(&self) -> &[f64] {
        &self.loads
    }
    /// Returns the frequencies, ascending.
    pub fn frequencies(&self) -> &[Hertz] {
        &self.frequencies
    }
    /// Returns the moderation periods, ascending.
    pub fn periods(&self) -> &[Span] {
        &self.periods
    }
    /// Returns the criterion by which points can be compared; `None` if only some points have
    /// watts, since no order then covers all points.
    pub fn energy_order(&self) -> Option<EnergyOrder> {
        let points = || self.points.iter().chain(&self.defaults).flatten();
        let known = points().filter(|point| point.power_watts.is_finite()).count();
        match known {
            0 if points().next().is_some() => Some(EnergyOrder::StateThenPeriod),
            known if known == points().count() => Some(EnergyOrder::Watts),
            _ => None,
        }
    }
    /// Returns the number of known points.
    pub fn known_points(&self) -> usize {
        self.points.iter().flatten().count()
    }
    /// Returns the number of possible points.
    pub fn all_points(&self) -> usize {
        self.points.len()
    }

    fn index(&self, load: usize, frequency: usize, period: usize) -> Option<usize> {
        let inside = load < self.loads.len()
            && frequency < self.frequencies.len()
            && period < self.periods.len();
        let index = (load * self.frequencies.len() + frequency) * self.periods.len() + period;
        inside.then_some(index)
    }

    /// Returns the point at these indices; `None` if it is unknown.
    pub fn point(&self, load: usize, frequency: usize, period: usize) -> Option<ProfilePoint> {
        self.index(load, frequency, period).and_then(|index| self.points[index])
    }

    /// Sets a point; indices beyond the axes are ignored.
    pub fn set(&mut self, load: usize, frequency: usize, period: usize, point: ProfilePoint) {
        if let Some(index) = self.index(load, frequency, period) {
            self.points[index] = Some(point);
        }
    }

    /// Returns the point at the fastest frequency with the driver's own moderation, at a load.
    pub fn default_point(&self, load: usize) -> Option<ProfilePoint> {
        self.defaults.get(load).copied().flatten()
    }

    /// Sets the default point of a load; an index beyond the axis is ignored.
    pub fn set_default(&mut self, load: usize, point: ProfilePoint) {
        if let Some(default) = self.defaults.get_mut(load) {
            *default = Some(point);
        }
    }
}

impl ProfileTables {
    /// Returns the figures for another machine, as far as they can be transferred: the figures of
    /// each profiled frequency go to the machine's lowest frequency that is not slower. So no
    /// latency is too optimistic, and watts are those of the profiled frequency. The other
    /// frequencies were not measured and get no figures: with copied figures, the fastest would
    /// seem as good.
    #[must_use]
    pub fn carried_to(&self, machine: Fingerprint) -> Option<Self> {
        let from: Vec<f64> = self.frequencies.iter().map(|f| f.gigahertz()).collect();
        let conditions = Conditions { machine, ..self.conditions.clone() };
        let mut tables = Self::new(conditions, self.loads.clone(), self.periods.clone()).ok()?;
        let mut carried = None;
        for (frequency, hertz) in tables.frequencies.clone().iter().enumerate() {
            let not_faster = |known: &f64| *known <= hertz.gigahertz() * (1.0 + 1e-6);
            let own = from.iter().rposition(not_faster);
            let Some(own) = own.filter(|own| carried != Some(*own)) else { continue };
            carried = Some(own);
            for load in 0..self.loads.len() {
                for period in 0..self.periods.len() {
                    if let Some(point) = self.point(load, own, period) {
                        tables.set(load, frequency, period, point);
                    }
                }
            }
        }
        tables.defaults.clone_from(&self.defaults);
        Some(tables)
    }
}

/// Relative difference allowed between two figures of one driver: the loss by formatting.
const EXACT: f64 = 1e-6;
/// The same for the frequency of a machine with only one: the kernel measures it at every boot, and
/// two measurements differ by up to some tenths of a per cent.
const MEASURED: f64 = 1e-2;

fn alike(a: &[f64], b: &[f64], within: f64) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= within * a.abs().max(b.abs());
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(*a, *b))
}

/// Returns true if two lists of frequencies in gigahertz can be of one machine.
pub fn same_frequencies(a: &[f64], b: &[f64]) -> bool {
    alike(a, b, if a.len() == 1 { MEASURED } else { EXACT })
}

impl Fingerprint {
    /// Returns the periods rounded to whole picoseconds: converted from seconds, 1022 us is
    /// 1021.9999999999999.
    fn moderation(&self) -> [f64; 2] {
        self.moderation_us.map(|micros| (micros * 1e6).round() / 1e6)
    }

    /// Describes the differences between this machine and another; `None` if they agree.
    pub fn differs_from(&self, other: &Self) -> Option<String> {
        let mut found = Vec::new();
        if self.cores != other.cores {
            found.push(format!("{} cores, not {}", self.cores, other.cores));
        }
        if !same_frequencies(&self.frequencies_ghz, &other.frequencies_ghz) {
            found.push(format!(
                "frequencies {:?} GHz, not {:?}",
                self.frequencies_ghz, other.frequencies_ghz
            ));
        }
        if !alike(&self.moderation_us, &other.moderation_us, EXACT) {
            found.push(format!(
                "moderation of {:?} us, not {:?}",
                self.moderation(),
                other.moderation()
            ));
        }
        // Cards unknown to the tables do not matter: their moderation does not depend on the
        // tables.
        if !other.hardware.is_empty() {
            let missing = self.hardware.iter().filter(|part| !other.hardware.contains(part));
            let missing: Vec<&str> = missing.map(String::as_str).collect();
            if !missing.is_empty() {
                let here = other.hardware.join("; ");
                found.push(format!("{}, which is not here ({here})", missing.join("; ")));
            }
        }
        (!found.is_empty()).then(|| found.join("; "))
    }
}
