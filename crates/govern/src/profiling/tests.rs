//! Profiles of a modelled server.

use super::*;
use crate::profiling::points::write;
use std::cell::Cell;
use wattline_server::tables::{EnergyOrder, Fingerprint, ProfileTables};
use wattline_units::{Hertz, Span};

/// A server whose 95th percentile is 100 us plus the period, divided by the frequency in GHz, and
/// whose watts are the square of the frequency in GHz.
struct ModelRig {
    grid: Grid,
    at: Option<At>,
    runs: u64,
    set: u64,
    /// Relative deviation of the latency, whose sign alternates from run to run.
    noise: f64,
    /// The run that fails, and its failure.
    ends: Option<(u64, LoadFailure)>,
    /// Sustained rate at 1 GHz.
    capacity_rps: f64,
    meter: bool,
    /// The card rounds up to multiples of this period.
    granularity_us: f64,
    arrivals_per_request: Option<f64>,
    /// Index of a period that the card refuses.
    refuses: Option<usize>,
    /// Index of a frequency that the firmware alters when it is set.
    clamps: Option<usize>,
    /// Index of a frequency that the firmware alters during the loads.
    loses: Option<usize>,
    /// The run without a reading of the meter.
    unmetered_run: Option<u64>,
    /// The load whose runs have no reading of the meter.
    unmetered_load: Option<usize>,
    /// Lateness of the generator as a share of the 99th percentile.
    late: f64,
    /// Number of runs at the start of each ten in which the generator is too slow.
    too_slow: u64,
}

impl ModelRig {
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
            clamps: None,
            loses: None,
            unmetered_run: None,
            unmetered_load: None,
            late: 0.0,
            too_slow: 0,
        }
    }
    fn state(&self, at: At) -> usize {
        match at {
            At::Default { .. } => self.grid.frequencies.len() - 1,
            At::Point { state, .. } => state,
        }
    }
    fn held(&self, at: At) -> Option<f64> {
        let At::Point { period, .. } = at else { return None };
        let micros = self.grid.periods[period].as_seconds() * 1e6;
        Some((micros / self.granularity_us).ceil() * self.granularity_us)
    }
}

impl Rig for ModelRig {
    fn set(&mut self, at: At) -> Result<Option<f64>, NotSet> {
        if matches!(at, At::Point { period, .. } if Some(period) == self.refuses) {
            return Err(NotSet::Refused("ethtool:eth0/rx-usecs: Invalid argument".to_owned()));
        }
        if Some(self.state(at)) == self.clamps {
            return Err(NotSet::Altered("core 0 holds another frequency".to_owned()));
        }
        (self.at, self.set) = (Some(at), self.set + 1);
        Ok(self.held(at))
    }
    fn holds(&mut self, at: At) -> Result<(), NotSet> {
        let lost = Some(self.state(at)) == self.loses;
        if lost { Err(NotSet::Altered("core 1 grew hot".to_owned())) } else { Ok(()) }
    }
    fn load(&mut self, rate_rps: f64, _number: u64) -> Result<Run, LoadFailure> {
        self.runs += 1;
        if let Some((_, failure)) = self.ends.as_ref().filter(|(run, _)| *run == self.runs) {
            return Err(failure.clone());
        }
        let at = self.at.unwrap();
        let gigahertz = self.grid.frequencies[self.state(at)].gigahertz();
        let sign = if self.runs.is_multiple_of(2) { 1.0 } else { -1.0 };
        let p95 = (100.0 + self.held(at).unwrap_or(30.0)) / gigahertz * (1.0 + sign * self.noise);
        let sustained = rate_rps <= self.capacity_rps * gigahertz;
        let p95 = if sustained { p95 * 1e-6 } else { f64::INFINITY };
        let unmetered =
            self.unmetered_run == Some(self.runs) || self.unmetered_load == Some(at.load());
        Ok(Run {
            percentiles: [p95 / 2.0, p95, p95 * 2.0],
            sustained,
            generator_too_slow: (self.runs - 1) % 10 < self.too_slow,
            late_seconds: Some(p95 * 2.0 * self.late).filter(|late| late.is_finite()),
            arrivals_per_request: self.arrivals_per_request,
            joules: (self.meter && !unmetered).then_some(gigahertz * gigahertz * 2.0),
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
    Head::of("test".into(), "modelled".into(), machine, grid, None, Some("measured".into()))
}

const PRECISION: Precision = Precision { within: 0.05, repetitions: 10 };

#[test]
fn tables_of_a_full_profile_read_back() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    let mut rig = ModelRig::new(&grid);
    let last = Cell::new(0);
    profile(&mut rig, &grid, PRECISION, &mut points, |progress| {
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
fn noisy_point_is_repeated_until_tight_or_out_of_repetitions() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let mut runs = Vec::new();
    for noise in [0.0, 0.03, 0.09] {
        let path = folder.path().join(format!("{noise}.json"));
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = ModelRig { noise, ..ModelRig::new(&grid) };
        profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
        let point = points.iter().next().unwrap();
        runs.push(point.repetitions);
        let half = point.p95_half_us.unwrap() / point.p95_us.unwrap();
        assert_eq!(half <= PRECISION.within, noise < 0.05, "{noise}: {half}");
    }
    assert_eq!(runs[0], 3);
    assert!((4..10).contains(&runs[1]), "{runs:?}");
    assert_eq!(runs[2], 10);
}

#[test]
fn interrupted_profile_continues() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    let mut rig = ModelRig { ends: Some((17, LoadFailure::Interrupted)), ..ModelRig::new(&grid) };
    let stopped = profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err();
    assert_eq!(stopped, Stopped::Interrupted);
    drop(points);
    // An interrupted profile has tables, however few its points are.
    for run in [1, 4, 7] {
        let path = folder.path().join(format!("{run}.json"));
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig =
            ModelRig { ends: Some((run, LoadFailure::Interrupted)), ..ModelRig::new(&grid) };
        profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err();
        let tables = points.tables().unwrap();
        let defaults = (0..2).filter(|load| tables.default_point(*load).is_some()).count();
        assert_eq!(defaults, (run / 3) as usize);
    }
    let mut points = Points::open(&path, head(&grid)).unwrap();
    assert_eq!(points.len(), 5);
    let mut rig = ModelRig::new(&grid);
    profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
    assert_eq!((points.len(), rig.set), (14, 9));

    // Points of another machine or another workload are rejected, and so are damaged files.
    let mut other = head(&grid);
    other.machine.cores = 3;
    let error = Points::open(&path, other).unwrap_err().to_string();
    assert!(error.contains("another machine: 2 cores, not 3"), "{error}");
    let other = Head { workload: "else".into(), ..head(&grid) };
    let error = Points::open(&path, other).unwrap_err().to_string();
    assert!(error.contains("workload: modelled, not else"), "{error}");
    let text = std::fs::read_to_string(&path).unwrap();
    for (from, to) in
        [("{", "["), ("\"load\": 1", "\"load\": 7"), ("\"p50_us\": ", "\"p50_us\": -")]
    {
        write(&path, &text.replacen(from, to, 1)).unwrap();
        let error = Points::open(&path, head(&grid)).unwrap_err().to_string();
        assert!(error.contains("is not a file of points"), "{to}: {error}");
    }
}

/// The length of a device is reported as zero, so the limit applies to the bytes read.
#[test]
fn endless_device_is_rejected() {
    let error = Points::open("/dev/zero".as_ref(), head(&grid())).unwrap_err().to_string();
    assert!(error.contains("/dev/zero: is not a file of points: longer than"), "{error}");
}

#[test]
fn saturation_is_recorded_and_a_dead_server_ends_the_profile() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    // The capacity is 1500 rps at 1 GHz and 3000 rps at 2 GHz.
    let mut rig = ModelRig { capacity_rps: 1_500.0, ..ModelRig::new(&grid) };
    profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
    let text = points.tables().unwrap().to_text();
    assert_eq!(text.matches("saturated").count(), 3, "{text}");
    let gone = LoadFailure::Server("connection refused".into());
    let mut rig = ModelRig { ends: Some((1, gone)), ..ModelRig::new(&grid) };
    let mut points = Points::open(&folder.path().join("new.json"), head(&grid)).unwrap();
    let error = profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err().to_string();
    assert!(error.contains("1000 rps") && error.contains("connection refused"), "{error}");
}

/// If the upper load is saturated at each point, or has no count, it gets the ratio of the other
/// load. Without a ratio the governor would count each packet as a request.
#[test]
fn load_without_a_packet_ratio_gets_that_of_the_nearest_load() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let measured = |name: &str, change: &dyn Fn(&mut Profiled)| {
        let path = folder.path().join(name);
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = ModelRig { arrivals_per_request: Some(0.5), ..ModelRig::new(&grid) };
        profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
        let known: Vec<Profiled> = points.iter().copied().collect();
        for mut point in known {
            change(&mut point);
            points.add(point).unwrap();
        }
        points.tables().map(|tables| tables.conditions.arrivals_per_request)
    };
    let upper = |point: &Profiled| point.load == 1;
    let of_saturated = measured("saturated", &|point| {
        if upper(point) {
            (point.sustained, point.arrivals_per_request) = (false, Some(0.9));
        }
    });
    assert_eq!(of_saturated, Ok(vec![0.5, 0.5]));
    let uncounted = measured("uncounted", &|point| {
        point.arrivals_per_request = (!upper(point)).then_some(0.5);
    });
    assert_eq!(uncounted, Ok(vec![0.5, 0.5]));
    // Only stray packets were counted, so the requests took another path.
    let elsewhere = measured("elsewhere", &|point| point.arrivals_per_request = Some(1e-6));
    assert_eq!(elsewhere, Ok(vec![]));
    let all_saturated = measured("all", &|point| point.sustained = false);
    assert_eq!(all_saturated, Ok(vec![0.5, 0.5]), "no load was sustained");
    let flooded = measured("flooded", &|point| {
        if upper(point) {
            point.arrivals_per_request = Some(2e3);
        }
    });
    let error = flooded.unwrap_err();
    assert!(error.contains("2000 rps: 2000 packets") && error.contains("other traffic"), "{error}");
}

/// A point keeps its watts if one of its runs has no joules. A point without watts is measured
/// again: tables with watts at only some points have no order by energy, and a policy refuses them.
#[test]
fn point_without_watts_is_measured_again() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let mut points = Points::open(&folder.path().join("run.json"), head(&grid)).unwrap();
    let mut rig = ModelRig { unmetered_run: Some(8), ..ModelRig::new(&grid) };
    profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
    assert!(points.iter().all(|point| point.power_watts.is_some()));
    let path = folder.path().join("load.json");
    for sparse in [false, true] {
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = ModelRig { unmetered_load: Some(1), ..ModelRig::new(&grid) };
        let mut left_out = Vec::new();
        let report = |progress: &Progress| match &progress.outcome {
            Outcome::LeftOut(why) => left_out.push((progress.at.load(), why.clone())),
            Outcome::Measured(point) => assert_eq!(point.load, 0),
        };
        match sparse {
            true => profile_sparse(&mut rig, &grid, PRECISION, None, &mut points, report),
            false => profile(&mut rig, &grid, PRECISION, &mut points, report),
        }
        .unwrap();
        assert!(!left_out.is_empty());
        assert!(left_out.iter().all(|(load, why)| *load == 1 && why.contains("meter")));
        // The points with watts are usable already.
        assert_eq!(points.tables().unwrap().energy_order(), Some(EnergyOrder::Watts));
        assert_eq!(points.tables().unwrap().known_points(), 6);
    }
    let mut points = Points::open(&path, head(&grid)).unwrap();
    assert_eq!(points.len(), 7);
    let mut rig = ModelRig::new(&grid);
    profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
    assert_eq!((rig.set, points.len()), (7, 14));
    let tables = points.tables().unwrap();
    assert_eq!((tables.energy_order(), tables.known_points()), (Some(EnergyOrder::Watts), 12));
}

/// The profile ends at the first point, not after hours of load.
#[test]
fn much_other_traffic_ends_a_profile_at_once() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let mut points = Points::open(&folder.path().join("points.json"), head(&grid)).unwrap();
    let mut rig = ModelRig { arrivals_per_request: Some(2e3), ..ModelRig::new(&grid) };
    let stopped = profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err();
    assert!(stopped.to_string().contains("other traffic"), "{stopped}");
    assert!(points.is_empty());
}

/// Results of a run whose generator is too slow are discarded. Four such runs in a row do not end
/// the profile, five do.
#[test]
fn slow_generator_is_retried_four_times() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let profiled = |too_slow: u64| {
        let mut points =
            Points::open(&folder.path().join(format!("{too_slow}.json")), head(&grid)).unwrap();
        let mut rig = ModelRig { too_slow, ..ModelRig::new(&grid) };
        let ended = profile(&mut rig, &grid, PRECISION, &mut points, |_| {});
        (ended, points.iter().map(|point| point.repetitions).collect::<Vec<_>>())
    };
    assert_eq!(profiled(4), (Ok(()), vec![3; 14]));
    let (ended, points) = profiled(5);
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("the generator does not hold this rate"), "{error}");
    assert!(points.is_empty());
}

/// With one queue, its core receives all packets: its load is the whole load, not half of it.
#[test]
fn loads_per_core_count_only_cores_with_queues() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let of = |queue_cores| {
        let path = folder.path().join(format!("{queue_cores:?}.json"));
        let head = Head { queue_cores, ..head(&grid) };
        let mut points = Points::open(&path, head).unwrap();
        profile(&mut ModelRig::new(&grid), &grid, PRECISION, &mut points, |_| {}).unwrap();
        points.tables().unwrap().loads().to_vec()
    };
    assert_eq!(of(Some(1)), [1_000.0, 2_000.0]);
    assert_eq!(of(Some(2)), [500.0, 1_000.0]);
    assert_eq!(of(None), [500.0, 1_000.0]);
}

/// A card that refuses a period ends the profile, and so does another program that changes a
/// setting. The message names the point.
#[test]
fn refused_setting_ends_a_profile_and_keeps_its_points() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    let mut rig = ModelRig { refuses: Some(2), ..ModelRig::new(&grid) };
    let stopped = profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err();
    assert!(matches!(stopped, Stopped::Machine { .. }), "{stopped:?}");
    let message = stopped.to_string();
    for words in [
        "1000 rps at 2.00 GHz and 100 us",
        "Invalid argument",
        "run the same command again to continue",
    ] {
        assert!(message.contains(words), "{words}: {message}");
    }
    // Both defaults and two periods were measured.
    assert_eq!(Points::open(&path, head(&grid)).unwrap().len(), 4);
}

#[test]
fn tables_have_the_held_periods_and_unknown_power_without_a_meter() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, Head { power_source: None, ..head(&grid) }).unwrap();
    let mut rig = ModelRig {
        granularity_us: 8.0,
        meter: false,
        arrivals_per_request: None,
        ..ModelRig::new(&grid)
    };
    profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
    let text = points.tables().unwrap().to_text();
    assert!(text.contains(",16,") && text.contains(",104,") && !text.contains(",10,"), "{text}");
    assert!(text.contains(",unknown"), "{text}");
    let tables = ProfileTables::parse("test", &text).unwrap();
    assert_eq!(tables.energy_order(), Some(EnergyOrder::StateThenPeriod));
    assert!(text.contains("# energy = \"not measured; points are ordered by V/F state"), "{text}");
    assert!(tables.conditions.arrivals_per_request.is_empty());
    let page = page(&points, PRECISION.within);
    assert!(page.contains("no meter") && page.contains("<svg"), "{page}");
    assert!(
        page.contains("class=\"contents\"") && page.contains("<strong>At 1000 requests"),
        "{page}"
    );
    let Some(mut browser) = wattline_needs::browser::Browser::start("the page of a profile") else {
        return;
    };
    let path = folder.path().join("page.html");
    std::fs::write(&path, page).unwrap();
    let url = wattline_needs::browser::url_of(&path);
    let wrong = wattline_needs::browser::look(&mut browser, "profile", &url, "true");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// If no two runs in a row agree, the repetitions begin with the last of them, and the point is
/// marked wherever it is shown.
#[test]
fn never_steady_point_is_marked() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    let mut rig = ModelRig { noise: 0.5, ..ModelRig::new(&grid) };
    profile(&mut rig, &grid, PRECISION, &mut points, |progress| {
        let Outcome::Measured(point) = &progress.outcome else { panic!("{progress:?}") };
        assert_eq!(remark(point, PRECISION.within), "never steady, not tight");
    })
    .unwrap();
    // The mark is read back. Points of a file without this field count as steady.
    let known = Points::open(&path, head(&grid)).unwrap();
    assert!(known.iter().all(|point| !point.steady && point.repetitions == 10));
    let shown = page(&known, PRECISION.within);
    assert!(
        shown.contains("14 points were never steady") && shown.contains("14 points are not tight")
    );
    let text = std::fs::read_to_string(&path).unwrap();
    write(&path, &text.replace("\"steady\": false,", "")).unwrap();
    assert!(Points::open(&path, head(&grid)).unwrap().iter().all(|point| point.steady));

    let quiet = folder.path().join("quiet.json");
    let mut points = Points::open(&quiet, head(&grid)).unwrap();
    profile(&mut ModelRig::new(&grid), &grid, PRECISION, &mut points, |_| {}).unwrap();
    assert!(points.iter().all(|point| point.steady && remark(point, PRECISION.within).is_empty()));
    let shown = page(&points, PRECISION.within);
    assert!(!shown.contains("never steady") && !shown.contains("not tight"), "{shown}");
}

/// If the generator's own lateness is a large part of the latencies, the point is marked.
#[test]
fn point_with_late_requests_is_marked() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    for (late, mark) in [(0.09, ""), (0.11, "sent late")] {
        let path = folder.path().join(format!("{late}.json"));
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = ModelRig { late, capacity_rps: 1_500.0, ..ModelRig::new(&grid) };
        profile(&mut rig, &grid, PRECISION, &mut points, |progress| {
            let Outcome::Measured(point) = &progress.outcome else { panic!("{progress:?}") };
            // A saturated point has no latency.
            let mark = if point.sustained { mark } else { "" };
            assert_eq!(remark(point, PRECISION.within), mark);
        })
        .unwrap();
        let known = Points::open(&path, head(&grid)).unwrap();
        let marked = known.iter().filter(|point| point.is_sent_late()).count();
        assert_eq!(marked, if mark.is_empty() { 0 } else { 11 });
        let shown = page(&known, PRECISION.within);
        assert_eq!(shown.contains("11 points were sent late"), !mark.is_empty());
    }
}

/// A point measured at another frequency is not in the tables, and is tried again.
#[test]
fn point_with_an_altered_frequency_is_left_out() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    for (number, (clamps, loses)) in [(Some(0), None), (None, Some(0))].into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.json"));
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = ModelRig { clamps, loses, ..ModelRig::new(&grid) };
        let mut left_out = Vec::new();
        profile(&mut rig, &grid, PRECISION, &mut points, |progress| {
            if let Outcome::LeftOut(why) = &progress.outcome {
                left_out.push((progress.at, why.clone()));
            }
        })
        .unwrap();
        assert_eq!((points.len(), left_out.len()), (8, 6));
        assert!(left_out.iter().all(|(at, _)| matches!(at, At::Point { state: 0, .. })));
        assert!(left_out[0].1.contains("core"), "{left_out:?}");
        assert_eq!(points.tables().unwrap().known_points(), 6);
        // Once the limit is gone, the same command measures them.
        profile(&mut ModelRig::new(&grid), &grid, PRECISION, &mut points, |_| {}).unwrap();
        assert_eq!(points.len(), 14);
    }
    // Without the fastest frequency there is no target, so the profile ends.
    let mut points = Points::open(&folder.path().join("fastest.json"), head(&grid)).unwrap();
    let mut rig = ModelRig { clamps: Some(1), ..ModelRig::new(&grid) };
    let error = profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err().to_string();
    assert!(error.contains("driver's own moderation: core 0 holds"), "{error}");
}

/// A grid of 11 frequencies and 24 periods. From 1.6 GHz on, short periods reach the latency of the
/// driver's default.
fn fine_grid() -> Grid {
    Grid {
        loads_rps: vec![1_000.0, 2_000.0, 3_000.0],
        frequencies: (10..=20).map(|tenths| Hertz(f64::from(tenths) * 1e8)).collect(),
        states: (0..11).collect(),
        periods: (0..24).map(|step| Span::from_micros(step * 4)).collect(),
    }
}

fn fine_head(grid: &Grid) -> Head {
    let machine = Fingerprint {
        cores: 2,
        frequencies_ghz: grid.frequencies.iter().map(|f| f.gigahertz()).collect(),
        moderation_us: [0.0, 92.0],
        hardware: Vec::new(),
    };
    Head { machine: machine.clone(), ..head(grid) }
}

/// A sparse profile measures at most a tenth of the points, leads to the same state as the full
/// one, and can be continued.
#[test]
fn sparse_profile_leads_to_the_same_choice_with_a_tenth_of_the_points() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), fine_grid());
    let path = folder.path().join("sparse.json");
    for target in [None, Some(85e-6), Some(1e-6), Some(1.0)] {
        let mut full =
            Points::open(&folder.path().join(format!("{target:?}.json")), fine_head(&grid))
                .unwrap();
        profile(&mut ModelRig::new(&grid), &grid, PRECISION, &mut full, |_| {}).unwrap();
        let full = full.tables().unwrap();

        let _ = std::fs::remove_file(&path);
        let mut points = Points::open(&path, fine_head(&grid)).unwrap();
        let failure = Some((40, LoadFailure::Interrupted));
        let mut rig = ModelRig { ends: failure, ..ModelRig::new(&grid) };
        let stopped = profile_sparse(&mut rig, &grid, PRECISION, target, &mut points, |_| {});
        assert_eq!(stopped, Err(Stopped::Interrupted));
        let before = points.len();
        let mut points = Points::open(&path, fine_head(&grid)).unwrap();
        let (mut rig, mut counts) = (ModelRig::new(&grid), Vec::new());
        profile_sparse(&mut rig, &grid, PRECISION, target, &mut points, |progress| {
            counts.push((progress.known, progress.of));
        })
        .unwrap();
        // Known points are not measured again, and `of` is an upper bound of their number.
        assert_eq!((before, rig.set as usize), (13, points.len() - 13));
        assert!(counts.iter().all(|(known, of)| known <= of && *of >= points.len()), "{counts:?}");
        let share = (points.len() - 3) as f64 / full.all_points() as f64;
        assert!(share <= 0.1, "{share}");

        let sparse = points.tables().unwrap();
        for load in full.loads() {
            let target = target.unwrap_or_else(|| full.target(*load).unwrap());
            let of = |tables: &ProfileTables| {
                let choice = tables.choose(*load, target, 1.0, None)?;
                Some((choice.frequency, tables.periods()[choice.period], choice.point.power_watts))
            };
            // The watts of this rig do not depend on the period, so the periods may differ.
            let state = |tables| of(tables).map(|(frequency, _, watts)| (frequency, watts));
            assert_eq!(state(&sparse), state(&full), "{target}");
            assert_eq!(of(&full).is_some(), target > 50e-6);
        }
        // A full profile continues a sparse one and keeps its points.
        let (known, mut rig) = (points.len(), ModelRig::new(&grid));
        profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
        assert_eq!(rig.set as usize, grid.order().count() - known);
    }
}

/// A simulated server: the results at each point come from the tables of its full profile.
struct TableRig {
    tables: ProfileTables,
    at: Option<At>,
}

impl Rig for TableRig {
    fn set(&mut self, at: At) -> Result<Option<f64>, NotSet> {
        self.at = Some(at);
        Ok(None)
    }
    fn load(&mut self, _rate_rps: f64, _number: u64) -> Result<Run, LoadFailure> {
        let point = match self.at.unwrap() {
            At::Default { load } => self.tables.default_point(load),
            At::Point { load, state, period } => self.tables.point(load, state, period),
        };
        let point = point.unwrap();
        Ok(Run {
            percentiles: [point.latency_seconds; 3],
            sustained: point.latency_seconds.is_finite(),
            generator_too_slow: false,
            late_seconds: None,
            arrivals_per_request: None,
            joules: Some(point.power_watts),
            seconds: 1.0,
        })
    }
}

/// With the same results, the simulator and a rig measure the same points of a sparse profile.
#[test]
fn rig_and_simulator_measure_the_same_points() {
    use wattline_sim::requests as sim;
    use wattline_traffic::requests::{RequestSpec, Workload};
    let file = wattline_server::ServerFile::load("xeon-silver-4108").unwrap();
    let server = file.requests().unwrap();
    let requests = RequestSpec::new(Workload::Nginx, 1.0);
    let periods: Vec<Span> = sim::Grid::periods_of(server).into_iter().step_by(4).collect();
    let simulated_grid =
        sim::Grid { loads: vec![48e3, 140e3], periods: periods.clone(), seed: 3, within: None };
    let full = sim::profile(server, &requests, &simulated_grid, wattline_policies::POLICIES)
        .unwrap()
        .tables;
    let target = Some(full.default_point(1).unwrap().latency_seconds * 1.2);
    let simulated = sim::profile_sparse(
        server,
        &requests,
        &simulated_grid,
        target.map(Span::from_seconds),
        wattline_policies::POLICIES,
    )
    .unwrap();
    let grid = Grid {
        loads_rps: simulated_grid.loads.clone(),
        frequencies: full.frequencies().to_vec(),
        states: (0..full.frequencies().len()).collect(),
        periods,
    };
    let folder = tempfile::tempdir().unwrap();
    let machine = full.conditions.machine.clone();
    let head = Head::of("".into(), "".into(), machine, &grid, None, Some("modelled".into()));
    let mut points = Points::open(&folder.path().join("points.json"), head).unwrap();
    let mut rig = TableRig { tables: full, at: None };
    profile_sparse(&mut rig, &grid, PRECISION, target, &mut points, |_| {}).unwrap();
    assert_eq!(points.len(), simulated.points + 2, "the simulator does not count the defaults");
    for point in points.iter() {
        let Some((state, period)) = point.point else { continue };
        let same = simulated.tables.point(point.load, state, period);
        let same = same.unwrap_or_else(|| panic!("not simulated: {point:?}"));
        assert_eq!(point.sustained, same.latency_seconds.is_finite());
    }
}
