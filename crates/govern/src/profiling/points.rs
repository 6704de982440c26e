//! Points measured so far, in a file that is written anew after every point.

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

/// Files longer than this are none of ours.
const LONGEST: u64 = 64 << 20;

/// Fewer packets for each request were none of the requests, which came by a way without a counter,
/// such as the loopback.
const FEWEST_ARRIVALS: f64 = 1e-3;
/// More packets for each request are mostly of other traffic.
const MOST_ARRIVALS: f64 = 1e3;

/// Returns the reason if packets per request are too many to tell anything about the requests.
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
    /// The server, in words.
    pub server: String,
    /// Requests that are sent, in words.
    pub workload: String,
    /// The machine.
    pub machine: Fingerprint,
    /// Loads in requests per second of all cores.
    pub loads_rps: Vec<f64>,
    /// Frequencies that are measured, in GHz.
    pub frequencies_ghz: Vec<f64>,
    /// Moderation periods in microseconds.
    pub periods_us: Vec<f64>,
    /// Cores that the interfaces' queues lead to: between them the load is divided. None where no
    /// interface is counted; then all cores share it.
    #[serde(default)]
    pub queue_cores: Option<usize>,
    /// Source of watts; none without a meter or model.
    pub power_source: Option<String>,
}

/// Points could not be read or written.
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
    /// They are of another profile.
    #[error(
        "{}: points of another profile ({differs}); go on with its options, or move the file away \
         to begin anew", .path.display()
    )]
    Another {
        /// The file.
        path: PathBuf,
        /// In what it differs.
        differs: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    head: Head,
    points: Vec<Profiled>,
}

/// All points that are known.
#[derive(Debug, Clone)]
pub struct Points {
    path: PathBuf,
    /// Identity of the profile that they belong to.
    pub head: Head,
    known: BTreeMap<At, Profiled>,
}

impl Points {
    /// Goes on with the points of this file, or begins where there is none.
    ///
    /// # Errors
    /// When it is damaged, or of another profile.
    pub fn open(path: &Path, head: Head) -> Result<Self, PointsError> {
        let mut points = Self { path: path.to_owned(), head, known: BTreeMap::new() };
        let failed = |error: std::io::Error| points.failed(&error);
        let file = match fs::File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(points),
            opened => opened.map_err(failed)?,
        };
        // A device tells no length and has no end.
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

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a point is known. One without watts is not, where other points have them: it is
    /// measured again.
    pub fn knows(&self, at: At) -> bool {
        self.known.get(&at).is_some_and(|point| self.is_whole(point))
    }

    /// Whether a point has all that this profile measures.
    pub(super) fn is_whole(&self, point: &Profiled) -> bool {
        self.head.power_source.is_none() || point.power_watts.is_some()
    }

    /// A point that was measured, be it without watts.
    pub fn get(&self, at: At) -> Option<&Profiled> {
        self.known.get(&at)
    }

    /// All that were measured, defaults first.
    pub fn iter(&self) -> impl Iterator<Item = &Profiled> {
        self.known.values()
    }

    /// Takes a point, and writes all.
    ///
    /// # Errors
    /// From the file system; what was written before stands.
    pub fn add(&mut self, point: Profiled) -> Result<(), PointsError> {
        self.known.insert(point.at(), point);
        let points = self.known.values().copied().collect();
        let file = File { head: self.head.clone(), points };
        let text = serde_json::to_string_pretty(&file).unwrap_or_default() + "\n";
        write(&self.path, &text)
    }

    /// Packets for each request, load by load. A load without a figure has that of the nearest one,
    /// since a governor that knows none would take each packet for a request. Empty where nobody
    /// counted the requests' packets at any load.
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
        // A saturated server is sent what it does not answer: its packets count only without others.
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

    /// The tables, whose fast reader is policy `copi`. Where the card held another period than it
    /// was asked for, the one that it held counts. Without a meter, power is unknown there; with one,
    /// points are left out whose power it did not see.
    ///
    /// # Errors
    /// In words, when there is no point yet, or when far more packets than requests were counted.
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
        // The first points are those of the drivers' own moderation.
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

/// Writes a file wholly or not at all.
pub(super) fn write(path: &Path, text: &str) -> Result<(), PointsError> {
    let failed =
        |error: std::io::Error| PointsError::File { path: path.to_owned(), why: error.to_string() };
    wattline_files::replace(path, text.as_bytes()).map_err(failed)
}

/// In what two profiles differ, in words.
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
