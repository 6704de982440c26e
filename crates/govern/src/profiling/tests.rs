//! A profile of a server that is reckoned.

use super::*;
use crate::profiling::points::write;
use std::cell::Cell;
use wattline_server::tables::{EnergyOrder, Fingerprint, ProfileTables};
use wattline_units::{Hertz, Span};

/// Latency 100 us and the period, divided by the frequency in GHz; watts are the square of the
/// frequency. Half as noisy as `noise` says, which alternates.
struct Reckoned {
    grid: Grid,
    at: Option<At>,
    runs: u64,
    set: u64,
    noise: f64,
    /// Ends with this run, by that.
    ends: Option<(u64, LoadFailure)>,
    /// More than this is not sustained.
    capacity_rps: f64,
    meter: bool,
    /// The card knows multiples of this alone.
    granularity_us: f64,
    arrivals_per_request: Option<f64>,
    /// The index of a period that the card refuses.
    refuses: Option<usize>,
    /// So many runs of each ten the generator does not hold its rate, the first ones.
    too_slow: u64,
}

impl Reckoned {
    fn new(grid: &Grid) -> Self {
        Self {
            grid: grid.clone(),
            at: None,
            runs: 0,
            set: 0,
            noise: 0.0,
            ends: None,
            capacity_rps: 1e9,
            meter: true,
            granularity_us: 1.0,
            arrivals_per_request: Some(1.5),
            refuses: None,
            too_slow: 0,
        }
    }
    fn held(&self, at: At) -> Option<f64> {
        let At::Point { period, .. } = at else { return None };
        let micros = self.grid.periods[period].as_seconds() * 1e6;
        Some((micros / self.granularity_us).ceil() * self.granularity_us)
    }
}

impl Rig for Reckoned {
    fn set(&mut self, at: At) -> Result<Option<f64>, String> {
        if matches!(at, At::Point { period, .. } if Some(period) == self.refuses) {
            return Err("ethtool:eth0/rx-usecs: Invalid argument".to_owned());
        }
        (self.at, self.set) = (Some(at), self.set + 1);
        Ok(self.held(at))
    }
    fn load(&mut self, rate_rps: f64, _number: u64) -> Result<Run, LoadFailure> {
        self.runs += 1;
        if let Some((_, failure)) = self.ends.as_ref().filter(|(run, _)| *run == self.runs) {
            return Err(failure.clone());
        }
        let at = self.at.unwrap();
        let gigahertz = match at {
            At::Default { .. } => self.grid.frequencies.last().unwrap().gigahertz(),
            At::Point { state, .. } => self.grid.frequencies[state].gigahertz(),
        };
        let sign = if self.runs.is_multiple_of(2) { 1.0 } else { -1.0 };
        let p95 = (100.0 + self.held(at).unwrap_or(30.0)) / gigahertz * (1.0 + sign * self.noise);
        let sustained = rate_rps <= self.capacity_rps * gigahertz;
        let p95 = if sustained { p95 * 1e-6 } else { f64::INFINITY };
        Ok(Run {
            percentiles: [p95 / 2.0, p95, p95 * 2.0],
            sustained,
            generator_too_slow: (self.runs - 1) % 10 < self.too_slow,
            arrivals_per_request: self.arrivals_per_request,
            joules: self.meter.then_some(gigahertz * gigahertz * 2.0),
            seconds: 2.0,
        })
    }
}

fn grid() -> Grid {
    Grid {
        loads_rps: vec![1_000.0, 2_000.0],
        frequencies: [1e9, 2e9].map(Hertz).to_vec(),
        states: vec![0, 1],
        periods: [0, 10, 100].map(Span::from_micros).to_vec(),
    }
}

fn head(grid: &Grid) -> Head {
    let machine = Fingerprint {
        cores: 2,
        frequencies_ghz: vec![1.0, 2.0],
        moderation_us: [0.0, 1000.0],
        hardware: Vec::new(),
    };
    Head::of("test".into(), "reckoned".into(), machine, grid, None, Some("measured".into()))
}

const CARE: Care = Care { within: 0.05, repetitions: 10 };

#[test]
fn every_point_is_measured_and_the_tables_read_back() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    let mut rig = Reckoned::new(&grid);
    let last = Cell::new(0);
    profile(&mut rig, &grid, CARE, &mut points, |progress| {
        assert_eq!((progress.known, progress.of), (last.get() + 1, 14));
        last.set(progress.known);
        assert!((progress.known < 14) || progress.remaining.is_zero());
    })
    .unwrap();
    assert_eq!((last.get(), rig.set, rig.runs), (14, 14, 3 * 14));
    let tables = ProfileTables::parse("test", &points.tables().unwrap().to_text()).unwrap();
    assert_eq!(tables.loads(), [500.0, 1_000.0], "per core");
    let point = tables.point(1, 0, 2).unwrap();
    assert!((point.latency_seconds - 200e-6).abs() < 1e-9 && point.power_watts == 1.0);
    assert_eq!(tables.default_point(0).unwrap().power_watts, 4.0);
    assert_eq!(tables.conditions.arrivals_per_request, [1.5, 1.5]);
    assert_eq!((tables.known_points(), tables.conditions.source.as_str()), (12, "measured"));
}

#[test]
fn noise_is_repeated_until_the_interval_is_tight_and_no_longer_than_allowed() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let mut runs = Vec::new();
    for noise in [0.0, 0.03, 0.09] {
        let path = folder.path().join(format!("{noise}.json"));
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = Reckoned { noise, ..Reckoned::new(&grid) };
        profile(&mut rig, &grid, CARE, &mut points, |_| {}).unwrap();
        let point = points.iter().next().unwrap();
        runs.push(point.repetitions);
        let half = point.p95_half_us.unwrap() / point.p95_us.unwrap();
        assert_eq!(half <= CARE.within, noise < 0.05, "{noise}: {half}");
    }
    assert_eq!(runs[0], 3);
    assert!((4..10).contains(&runs[1]), "{runs:?}");
    assert_eq!(runs[2], 10);
}

#[test]
fn an_interrupted_profile_goes_on_where_it_was() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    let mut rig = Reckoned { ends: Some((17, LoadFailure::Interrupted)), ..Reckoned::new(&grid) };
    let stopped = profile(&mut rig, &grid, CARE, &mut points, |_| {}).unwrap_err();
    assert_eq!(stopped, Stopped::Interrupted);
    drop(points);
    // What is known can be looked at, however little that is.
    for run in [1, 4, 7] {
        let path = folder.path().join(format!("{run}.json"));
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig =
            Reckoned { ends: Some((run, LoadFailure::Interrupted)), ..Reckoned::new(&grid) };
        profile(&mut rig, &grid, CARE, &mut points, |_| {}).unwrap_err();
        let tables = points.tables().unwrap();
        let defaults = (0..2).filter(|load| tables.default_point(*load).is_some()).count();
        assert_eq!(defaults, (run / 3) as usize);
    }
    let mut points = Points::open(&path, head(&grid)).unwrap();
    assert_eq!(points.len(), 5);
    let mut rig = Reckoned::new(&grid);
    profile(&mut rig, &grid, CARE, &mut points, |_| {}).unwrap();
    assert_eq!((points.len(), rig.set), (14, 9));

    // Not with what is of another machine, of other options, or of nobody.
    let mut other = head(&grid);
    other.machine.cores = 3;
    let error = Points::open(&path, other).unwrap_err().to_string();
    assert!(error.contains("another machine: 2 cores, not 3"), "{error}");
    let other = Head { workload: "else".into(), ..head(&grid) };
    let error = Points::open(&path, other).unwrap_err().to_string();
    assert!(error.contains("workload: reckoned, not else"), "{error}");
    let text = std::fs::read_to_string(&path).unwrap();
    for (from, to) in
        [("{", "["), ("\"load\": 1", "\"load\": 7"), ("\"p50_us\": ", "\"p50_us\": -")]
    {
        write(&path, &text.replacen(from, to, 1)).unwrap();
        let error = Points::open(&path, head(&grid)).unwrap_err().to_string();
        assert!(error.contains("is not a file of points"), "{to}: {error}");
    }
}

#[test]
fn a_server_that_saturates_is_told_and_one_that_dies_ends_it() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    // 1500 at 1 GHz, 3000 at 2 GHz.
    let mut rig = Reckoned { capacity_rps: 1_500.0, ..Reckoned::new(&grid) };
    profile(&mut rig, &grid, CARE, &mut points, |_| {}).unwrap();
    let text = points.tables().unwrap().to_text();
    assert_eq!(text.matches("saturated").count(), 3, "{text}");
    let gone = LoadFailure::Server("connection refused".into());
    let mut rig = Reckoned { ends: Some((1, gone)), ..Reckoned::new(&grid) };
    let mut points = Points::open(&folder.path().join("new.json"), head(&grid)).unwrap();
    let error = profile(&mut rig, &grid, CARE, &mut points, |_| {}).unwrap_err().to_string();
    assert!(error.contains("1000 rps") && error.contains("connection refused"), "{error}");
}

/// What such a run measured counts for nothing, and a few of them end nothing.
#[test]
fn a_generator_that_is_late_now_and_then_is_tried_again_and_one_that_is_too_slow_ends_it() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let profiled = |too_slow: u64| {
        let mut points =
            Points::open(&folder.path().join(format!("{too_slow}.json")), head(&grid)).unwrap();
        let mut rig = Reckoned { too_slow, ..Reckoned::new(&grid) };
        let ended = profile(&mut rig, &grid, CARE, &mut points, |_| {});
        (ended, points.iter().map(|point| point.repetitions).collect::<Vec<_>>())
    };
    assert_eq!(profiled(4), (Ok(()), vec![3; 14]));
    let (ended, points) = profiled(5);
    let told = ended.unwrap_err().to_string();
    assert!(told.contains("the generator does not hold this rate"), "{told}");
    assert!(points.is_empty());
}

/// All packets come in at the core of the one queue: its load is the whole, not half of it.
#[test]
fn loads_are_those_of_the_cores_that_queues_lead_to() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let of = |queue_cores| {
        let path = folder.path().join(format!("{queue_cores:?}.json"));
        let head = Head { queue_cores, ..head(&grid) };
        let mut points = Points::open(&path, head).unwrap();
        profile(&mut Reckoned::new(&grid), &grid, CARE, &mut points, |_| {}).unwrap();
        points.tables().unwrap().loads().to_vec()
    };
    assert_eq!(of(Some(1)), [1_000.0, 2_000.0]);
    assert_eq!(of(Some(2)), [500.0, 1_000.0]);
    assert_eq!(of(None), [500.0, 1_000.0]);
}

/// A card that takes no such period, or somebody who holds a knob, ends it at that point, by name.
#[test]
fn a_machine_that_refuses_ends_it_and_what_was_measured_stays() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    let mut rig = Reckoned { refuses: Some(2), ..Reckoned::new(&grid) };
    let stopped = profile(&mut rig, &grid, CARE, &mut points, |_| {}).unwrap_err();
    assert!(matches!(stopped, Stopped::Machine { .. }), "{stopped:?}");
    let told = stopped.to_string();
    for words in [
        "1000 rps at 2.00 GHz and 100 us",
        "Invalid argument",
        "run the same command again to continue",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    // Both defaults, and two periods.
    assert_eq!(Points::open(&path, head(&grid)).unwrap().len(), 4);
}

#[test]
fn a_card_that_rounds_is_tabled_by_what_it_holds_and_power_that_nobody_saw_is_unknown() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, Head { power_source: None, ..head(&grid) }).unwrap();
    let mut rig = Reckoned {
        granularity_us: 8.0,
        meter: false,
        arrivals_per_request: None,
        ..Reckoned::new(&grid)
    };
    profile(&mut rig, &grid, CARE, &mut points, |_| {}).unwrap();
    let text = points.tables().unwrap().to_text();
    assert!(text.contains(",16,") && text.contains(",104,") && !text.contains(",10,"), "{text}");
    assert!(text.contains(",unknown"), "{text}");
    let tables = ProfileTables::parse("test", &text).unwrap();
    assert_eq!(tables.energy_order(), Some(EnergyOrder::StateThenPeriod));
    assert!(text.contains("# energy = \"not measured; points are ordered by V/F state"), "{text}");
    assert!(tables.conditions.arrivals_per_request.is_empty());
    let page = page(&points);
    assert!(page.contains("no meter") && page.contains("<svg"), "{page}");
    let Some(mut browser) = wattline_browser::Browser::start("the page of a profile") else {
        return;
    };
    let path = folder.path().join("page.html");
    std::fs::write(&path, page).unwrap();
    let url = wattline_browser::url_of(&path);
    let wrong = wattline_browser::look(&mut browser, "profile", &url, "true");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
