//! The file of measured points, which is rewritten after every point.

use super::grid::{At, Grid};
use super::profiled::Profiled;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use wattline_server::tables::{
    Conditions, Fingerprint, NOT_MEASURED, ProfilePoint, ProfileTables, same_frequencies,
};
use wattline_units::Span;

/// Largest accepted file size in bytes.
const LONGEST: u64 = 64 << 20;

/// Fewest plausible packets per request. With fewer, the requests took a path without a counter,
/// such as the loopback.
const FEWEST_ARRIVALS: f64 = 1e-3;
/// Most plausible packets per request. With more, most packets are other traffic.
const MOST_ARRIVALS: f64 = 1e3;

/// Returns an error message if there are too many packets per request to come from the requests.
pub(super) fn too_many_arrivals(per_request: f64) -> Option<String> {
    (per_request > MOST_ARRIVALS).then(|| {
        format!(
            "{per_request:.0} packets came to the queues for each request, at most \
             {MOST_ARRIVALS:.0} are believed: other traffic uses these interfaces; stop it, or leave \
             its interfaces out with [govern] interfaces in --config"
        )
    })
}

/// Identity of a profile: points of different profiles are not mixed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Head {
    /// Version of the format: 1.
    pub version: u32,
    /// Description of the server.
    pub server: String,
    /// Description of the requests.
    pub workload: String,
    /// The machine.
    pub machine: Fingerprint,
    /// Loads in requests per second of all cores.
    pub loads_rps: Vec<f64>,
    /// Measured frequencies in GHz.
    pub frequencies_ghz: Vec<f64>,
    /// Moderation periods in microseconds.
    pub periods_us: Vec<f64>,
    /// Number of cores that serve the interfaces' queues and so share the load. `None` without a
    /// governed interface; then all cores share it.
    #[serde(default)]
    pub queue_cores: Option<usize>,
    /// Source of watts; `None` without a meter or model.
    pub power_source: Option<String>,
}

/// Reason why points could not be read or written.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PointsError {
    /// The file system failed.
    #[error("{}: {why}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Description of the failure.
        why: String,
    },
    /// The existing file was not written by a profile, or is damaged.
    #[error("{}: is not a file of points: {why}; move it away to start again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        why: String,
    },
    /// The points belong to another profile.
    #[error(
        "{}: points of another profile ({differs}); go on with its options, or move the file away \
         to begin anew", .path.display()
    )]
    Another {
        /// The file.
        path: PathBuf,
        /// Description of the difference.
        differs: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    head: Head,
    points: Vec<Profiled>,
}

/// All known points of a profile.
#[derive(Debug, Clone)]
pub struct Points {
    path: PathBuf,
    /// Identity of their profile.
    pub head: Head,
    known: BTreeMap<At, Profiled>,
}

impl Points {
    /// Reads the points of this file; starts without points if it does not exist.
    ///
    /// # Errors
    /// Fails if the file is damaged or belongs to another profile.
    pub fn open(path: &Path, head: Head) -> Result<Self, PointsError> {
        let mut points = Self { path: path.to_owned(), head, known: BTreeMap::new() };
        let failed = |error: std::io::Error| points.failed(&error);
        let file = match fs::File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(points),
            opened => opened.map_err(failed)?,
        };
        // The length of a device is not known before it is read, and it may be endless.
        let mut text = String::new();
        file.take(LONGEST + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > LONGEST {
            return Err(points.damaged(format!("longer than {LONGEST} bytes")));
        }
        let file: File =
            serde_json::from_str(&text).map_err(|error| points.damaged(error.to_string()))?;
        if let Some(differs) = differs(&file.head, &points.head) {
            return Err(PointsError::Another { path: path.to_owned(), differs });
        }
        for point in file.points {
            let inside = point.load < points.head.loads_rps.len()
                && point.point.is_none_or(|(state, period)| {
                    state < points.head.machine.frequencies_ghz.len()
                        && period < points.head.periods_us.len()
                });
            let numbers = [
                point.p50_us,
                point.p95_us,
                point.p99_us,
                point.held_us,
                point.late_us,
                point.power_watts,
                point.arrivals_per_request,
            ];
            let sound = numbers.iter().flatten().all(|value| value.is_finite() && *value >= 0.0);
            if !inside || !sound {
                return Err(
                    points.damaged("a point beyond the grid, or a figure that is none".into())
                );
            }
            points.known.insert(point.at(), point);
        }
        Ok(points)
    }

    fn failed(&self, error: &std::io::Error) -> PointsError {
        PointsError::File { path: self.path.clone(), why: error.to_string() }
    }

    fn damaged(&self, why: String) -> PointsError {
        PointsError::Damaged { path: self.path.clone(), why }
    }

    /// Returns the number of known points.
    pub fn len(&self) -> usize {
        self.known.values().filter(|point| self.is_whole(point)).count()
    }

    /// Returns true if no point is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns true if a point is known. A point without watts in a profile with a power source is
    /// not; it is measured again.
    pub fn knows(&self, at: At) -> bool {
        self.known.get(&at).is_some_and(|point| self.is_whole(point))
    }

    /// Returns true if a point has all values that this profile measures.
    pub(super) fn is_whole(&self, point: &Profiled) -> bool {
        self.head.power_source.is_none() || point.power_watts.is_some()
    }

    /// Returns a measured point, with or without watts.
    pub fn get(&self, at: At) -> Option<&Profiled> {
        self.known.get(&at)
    }

    /// Returns all measured points, defaults first.
    pub fn iter(&self) -> impl Iterator<Item = &Profiled> {
        self.known.values()
    }

    /// Adds a point and writes the file.
    ///
    /// # Errors
    /// Fails if the file cannot be written; its former contents stay.
    pub fn add(&mut self, point: Profiled) -> Result<(), PointsError> {
        self.known.insert(point.at(), point);
        let points = self.known.values().copied().collect();
        let file = File { head: self.head.clone(), points };
        let text = serde_json::to_string_pretty(&file).unwrap_or_default() + "\n";
        write(&self.path, &text)
    }

    /// Returns the packets per request of each load. A load without a value gets that of the
    /// nearest load, since without one a governor would count each packet as a request. Empty if no
    /// load has a value.
    fn arrivals_per_request(&self) -> Result<Vec<f64>, String> {
        let loads = &self.head.loads_rps;
        let mean_of = |load: usize, sustained: bool| {
            let own = self.iter().filter(|point| point.load == load);
            let known: Vec<f64> = own
                .filter(|point| point.sustained || !sustained)
                .filter_map(|point| point.arrivals_per_request)
                .collect();
            let mean = known.iter().sum::<f64>() / known.len() as f64;
            (mean >= FEWEST_ARRIVALS).then_some(mean)
        };
        let means = |sustained| -> Vec<Option<f64>> {
            (0..loads.len()).map(|load| mean_of(load, sustained)).collect()
        };
        let mut known = means(true);
        // A saturated server also receives requests that it does not answer, so its packets count
        // only if no load was sustained.
        if known.iter().all(Option::is_none) {
            known = means(false);
        }
        for (load, mean) in loads.iter().zip(&known) {
            if let Some(why) = mean.and_then(too_many_arrivals) {
                return Err(format!("{load} rps: {why}"));
            }
        }
        let distance = |a: usize, b: usize| (loads[a] - loads[b]).abs();
        let nearest = |load: usize| {
            let others = (0..loads.len()).filter(|other| known[*other].is_some());
            others
                .min_by(|a, b| distance(*a, load).total_cmp(&distance(*b, load)))
                .and_then(|other| known[other])
        };
        Ok((0..loads.len()).map_while(nearest).collect())
    }

    /// Returns the tables for policy `copi`. They list a point under the period that the card held.
    /// Without a power source, power is unknown; with one, points without watts are left out.
    ///
    /// # Errors
    /// Fails if there is no point yet, or if far more packets than requests were counted.
    pub fn tables(&self) -> Result<ProfileTables, String> {
        let head = &self.head;
        let conditions = Conditions {
            version: 1,
            server: head.server.clone(),
            workload: head.workload.clone(),
            source: "measured".to_owned(),
            percentile: 95.0,
            machine: head.machine.clone(),
            arrivals_per_request: self.arrivals_per_request()?,
            energy: Some(self.head.power_source.clone().unwrap_or_else(|| NOT_MEASURED.to_owned())),
        };
        let period_of = |point: &Profiled| {
            let (_, period) = point.point?;
            Some(point.held_us.unwrap_or(head.periods_us[period]))
        };
        let whole = || self.iter().filter(|point| self.is_whole(point));
        let mut periods: Vec<f64> = whole().filter_map(period_of).collect();
        // A profile that has only its defaults so far still needs a period.
        periods.extend(periods.is_empty().then_some(0.0));
        periods.sort_by(f64::total_cmp);
        periods.dedup();
        let spans = periods.iter().map(|micros| Span::from_seconds(micros * 1e-6)).collect();
        let cores = head.queue_cores.unwrap_or(head.machine.cores).max(1) as f64;
        let loads = head.loads_rps.iter().map(|load| load / cores).collect();
        let mut tables = ProfileTables::new(conditions, loads, spans)?;
        for point in whole() {
            let made = ProfilePoint {
                latency_seconds: point.p95_us.map_or(f64::INFINITY, |micros| micros * 1e-6),
                power_watts: point.power_watts.unwrap_or(f64::NAN),
            };
            match (point.point, period_of(point)) {
                (Some((state, _)), Some(held)) => {
                    let period = periods.iter().position(|one| *one == held).unwrap_or_default();
                    tables.set(point.load, state, period, made);
                }
                _ => tables.set_default(point.load, made),
            }
        }
        Ok(tables)
    }
}

/// Writes a file atomically.
pub(super) fn write(path: &Path, text: &str) -> Result<(), PointsError> {
    let failed =
        |error: std::io::Error| PointsError::File { path: path.to_owned(), why: error.to_string() };
    wattline_files::replace(path, text.as_bytes()).map_err(failed)
}

/// Describes the first difference between two profiles.
fn differs(found: &Head, wanted: &Head) -> Option<String> {
    if let Some(why) = found.machine.differs_from(&wanted.machine) {
        return Some(format!("of another machine: {why}"));
    }
    let (had, wants) = (&found.frequencies_ghz, &wanted.frequencies_ghz);
    if !same_frequencies(had, wants) {
        return Some(format!("frequencies: {had:?}, not {wants:?}"));
    }
    let pairs = [
        ("version", found.version.to_string(), wanted.version.to_string()),
        ("server", found.server.clone(), wanted.server.clone()),
        ("workload", found.workload.clone(), wanted.workload.clone()),
        ("loads", format!("{:?}", found.loads_rps), format!("{:?}", wanted.loads_rps)),
        ("periods", format!("{:?}", found.periods_us), format!("{:?}", wanted.periods_us)),
        (
            "cores with queues",
            format!("{:?}", found.queue_cores),
            format!("{:?}", wanted.queue_cores),
        ),
        ("power", format!("{:?}", found.power_source), format!("{:?}", wanted.power_source)),
    ];
    let pair = pairs.into_iter().find(|(_, found, wanted)| found != wanted);
    pair.map(|(what, found, wanted)| format!("{what}: {found}, not {wanted}"))
}

impl Head {
    /// Describes a profile of a grid on a machine.
    pub fn of(
        server: String,
        workload: String,
        machine: Fingerprint,
        grid: &Grid,
        queue_cores: Option<usize>,
        power_source: Option<String>,
    ) -> Self {
        let gigahertz = |state: &usize| grid.frequencies[*state].gigahertz();
        Self {
            version: 1,
            server,
            workload,
            machine,
            loads_rps: grid.loads_rps.clone(),
            frequencies_ghz: grid.states.iter().map(gigahertz).collect(),
            periods_us: grid.periods.iter().map(|period| period.as_seconds() * 1e6).collect(),
            queue_cores,
            power_source,
        }
    }
}
