//! Tables of a profile: tail latency and power by load, V/F state and moderation period.
//!
//! [`ProfileTables`] is what Co-PI searches (section IV.A of the paper): a latency table and an
//! energy table over the same points, with the conditions under which they were made and the
//! machine that they are of. The text form is described in `docs/reference/profile-tables.md`.

mod lookup;
mod read;
mod write;

pub use lookup::Choice;

use serde::{Deserialize, Serialize};
use wattline_units::{Hertz, Span};

/// The machine that a profile is of: where this differs, its figures say nothing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// Cores.
    pub cores: usize,
    /// Frequencies in GHz, ascending.
    pub frequencies_ghz: Vec<f64>,
    /// Shortest and longest moderation period in microseconds.
    pub moderation_us: [f64; 2],
}

/// Under which conditions a profile was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Version of the format: 1.
    pub version: u32,
    /// The server in words or by its model's name.
    pub server: String,
    /// What was asked of it.
    pub workload: String,
    /// `modelled` or `measured`, as the figures are.
    pub source: String,
    /// The percentile of the latencies, such as 95.
    pub percentile: f64,
    /// The machine.
    pub machine: Fingerprint,
}

/// One point: what it came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ProfilePoint {
    /// Tail latency in seconds; infinite where the load was not sustained.
    pub latency_seconds: f64,
    /// Power of the package in watts; not a number where no meter saw it.
    pub power_watts: f64,
}

/// Both tables of a profile. Points may be missing: a sparse profile leaves most out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProfileTables {
    /// How it was made, and of which machine.
    pub conditions: Conditions,
    /// Requests per second and core, ascending.
    loads: Vec<f64>,
    frequencies: Vec<Hertz>,
    periods: Vec<Span>,
    /// At `(load × frequencies + frequency) × periods + period`.
    points: Vec<Option<ProfilePoint>>,
    /// By load: under the fastest frequency with the driver's own moderation.
    defaults: Vec<Option<ProfilePoint>>,
}

/// Most points that tables may have: a hostile file is not to fill the memory.
const MOST_POINTS: usize = 2_000_000;

impl ProfileTables {
    /// Tables without points over these axes. Frequencies are those of the machine.
    ///
    /// # Errors
    /// When an axis is empty, not ascending or not finite, or the tables would be too large.
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
        let defaults = vec![None; loads.len()];
        let points = vec![None; points];
        Ok(Self { conditions, loads, frequencies, periods, points, defaults })
    }

    /// Requests per second and core that were profiled, ascending.
    pub fn loads(&self) -> &[f64] {
        &self.loads
    }
    /// Frequencies, ascending.
    pub fn frequencies(&self) -> &[Hertz] {
        &self.frequencies
    }
    /// Moderation periods, ascending.
    pub fn periods(&self) -> &[Span] {
        &self.periods
    }
    /// Whether the power of every point is known: else no point can be called the cheapest.
    pub fn has_power(&self) -> bool {
        let points = self.points.iter().chain(&self.defaults).flatten();
        points.into_iter().all(|point| point.power_watts.is_finite())
    }
    /// How many points there are.
    pub fn known_points(&self) -> usize {
        self.points.iter().flatten().count()
    }
    /// How many there could be.
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

    /// The point at these indices.
    pub fn point(&self, load: usize, frequency: usize, period: usize) -> Option<ProfilePoint> {
        self.index(load, frequency, period).and_then(|index| self.points[index])
    }

    /// Sets a point; indices beyond the axes change nothing.
    pub fn set(&mut self, load: usize, frequency: usize, period: usize, point: ProfilePoint) {
        if let Some(index) = self.index(load, frequency, period) {
            self.points[index] = Some(point);
        }
    }

    /// What the fastest frequency with the driver's own moderation came to at a load.
    pub fn default_point(&self, load: usize) -> Option<ProfilePoint> {
        self.defaults.get(load).copied().flatten()
    }

    /// Sets that; an index beyond the axis changes nothing.
    pub fn set_default(&mut self, load: usize, point: ProfilePoint) {
        if let Some(default) = self.defaults.get_mut(load) {
            *default = Some(point);
        }
    }
}

impl ProfileTables {
    /// The same figures for another machine, as far as they can be carried over: each of its
    /// frequencies gets those of the fastest profiled one that is not faster, which makes nothing
    /// look better than it is; a frequency below all profiled ones gets none. Nobody has measured
    /// them there.
    #[must_use]
    pub fn carried_to(&self, machine: Fingerprint) -> Option<Self> {
        let from: Vec<f64> = self.frequencies.iter().map(|f| f.gigahertz()).collect();
        let conditions = Conditions { machine, ..self.conditions.clone() };
        let mut tables = Self::new(conditions, self.loads.clone(), self.periods.clone()).ok()?;
        for (frequency, hertz) in tables.frequencies.clone().iter().enumerate() {
            let not_faster = |known: &f64| *known <= hertz.gigahertz() * (1.0 + 1e-6);
            let Some(own) = from.iter().rposition(not_faster) else { continue };
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

impl Fingerprint {
    /// In what this machine differs from another, in words; nothing where they agree.
    pub fn differs_from(&self, other: &Self) -> Option<String> {
        let mut found = Vec::new();
        if self.cores != other.cores {
            found.push(format!("{} cores, not {}", self.cores, other.cores));
        }
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * a.abs().max(b.abs());
        let alike =
            |a: &[f64], b: &[f64]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(*a, *b));
        if !alike(&self.frequencies_ghz, &other.frequencies_ghz) {
            found.push(format!(
                "frequencies {:?} GHz, not {:?}",
                self.frequencies_ghz, other.frequencies_ghz
            ));
        }
        if !alike(&self.moderation_us, &other.moderation_us) {
            found.push(format!(
                "moderation of {:?} us, not {:?}",
                self.moderation_us, other.moderation_us
            ));
        }
        (!found.is_empty()).then(|| found.join("; "))
    }
}
