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
    /// The index of a frequency of which the firmware makes another; and of one that it makes
    /// another of during the loads.
    clamps: Option<usize>,
    loses: Option<usize>,
    /// The meter is not read during this run; and during each run at this load.
    unmetered_run: Option<u64>,
    unmetered_load: Option<usize>,
    /// Delay of the latest 1 % of the requests, as a share of the 99th percentile.
    late: f64,
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

impl Rig for Reckoned {
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
    Head::of("test".into(), "reckoned".into(), machine, grid, None, Some("measured".into()))
}

const PRECISION: Precision = Precision { within: 0.05, repetitions: 10 };

#[test]
fn every_point_is_measured_and_the_tables_read_back() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    let mut rig = Reckoned::new(&grid);
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
fn noise_is_repeated_until_the_interval_is_tight_and_no_longer_than_allowed() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let mut runs = Vec::new();
    for noise in [0.0, 0.03, 0.09] {
        let path = folder.path().join(format!("{noise}.json"));
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = Reckoned { noise, ..Reckoned::new(&grid) };
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
fn an_interrupted_profile_goes_on_where_it_was() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    let mut rig = Reckoned { ends: Some((17, LoadFailure::Interrupted)), ..Reckoned::new(&grid) };
    let stopped = profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err();
    assert_eq!(stopped, Stopped::Interrupted);
    drop(points);
    // What is known can be looked at, however little that is.
    for run in [1, 4, 7] {
        let path = folder.path().join(format!("{run}.json"));
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig =
            Reckoned { ends: Some((run, LoadFailure::Interrupted)), ..Reckoned::new(&grid) };
        profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err();
        let tables = points.tables().unwrap();
        let defaults = (0..2).filter(|load| tables.default_point(*load).is_some()).count();
        assert_eq!(defaults, (run / 3) as usize);
    }
    let mut points = Points::open(&path, head(&grid)).unwrap();
    assert_eq!(points.len(), 5);
    let mut rig = Reckoned::new(&grid);
    profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
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

/// Its length is none, whatever it holds.
#[test]
fn a_device_is_not_read_to_its_end() {
    let told = Points::open("/dev/zero".as_ref(), head(&grid())).unwrap_err().to_string();
    assert!(told.contains("/dev/zero: is not a file of points: longer than"), "{told}");
}

#[test]
fn a_server_that_saturates_is_told_and_one_that_dies_ends_it() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    // 1500 at 1 GHz, 3000 at 2 GHz.
    let mut rig = Reckoned { capacity_rps: 1_500.0, ..Reckoned::new(&grid) };
    profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
    let text = points.tables().unwrap().to_text();
    assert_eq!(text.matches("saturated").count(), 3, "{text}");
    let gone = LoadFailure::Server("connection refused".into());
    let mut rig = Reckoned { ends: Some((1, gone)), ..Reckoned::new(&grid) };
    let mut points = Points::open(&folder.path().join("new.json"), head(&grid)).unwrap();
    let error = profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err().to_string();
    assert!(error.contains("1000 rps") && error.contains("connection refused"), "{error}");
}

/// Packets are counted at both loads, but the upper one is saturated at each point, or its count is
/// none: what is known of the other load counts there, too. Without it the governor would take each
/// packet for a request.
#[test]
fn a_load_without_a_ratio_of_packets_has_that_of_the_nearest_one() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let measured = |name: &str, change: &dyn Fn(&mut Profiled)| {
        let path = folder.path().join(name);
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = Reckoned { arrivals_per_request: Some(0.5), ..Reckoned::new(&grid) };
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
    // Packets that came by the way were counted, requests by another: that is no ratio.
    let elsewhere = measured("elsewhere", &|point| point.arrivals_per_request = Some(1e-6));
    assert_eq!(elsewhere, Ok(vec![]));
    let all_saturated = measured("all", &|point| point.sustained = false);
    assert_eq!(all_saturated, Ok(vec![0.5, 0.5]), "nothing better is known");
    let flooded = measured("flooded", &|point| {
        if upper(point) {
            point.arrivals_per_request = Some(2e3);
        }
    });
    let told = flooded.unwrap_err();
    assert!(told.contains("2000 rps: 2000 packets") && told.contains("other traffic"), "{told}");
}

/// One run without joules takes no watts from its point, and a point that has none is measured again:
/// with watts at some points only, there is no order by energy, and a policy refuses the tables.
#[test]
fn a_point_that_the_meter_missed_is_measured_again() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let mut points = Points::open(&folder.path().join("run.json"), head(&grid)).unwrap();
    let mut rig = Reckoned { unmetered_run: Some(8), ..Reckoned::new(&grid) };
    profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
    assert!(points.iter().all(|point| point.power_watts.is_some()));
    let path = folder.path().join("load.json");
    for sparse in [false, true] {
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = Reckoned { unmetered_load: Some(1), ..Reckoned::new(&grid) };
        let mut left_out = Vec::new();
        let tell = |progress: &Progress| match &progress.outcome {
            Outcome::LeftOut(why) => left_out.push((progress.at.load(), why.clone())),
            Outcome::Measured(point) => assert_eq!(point.load, 0),
        };
        match sparse {
            true => profile_sparse(&mut rig, &grid, PRECISION, None, &mut points, tell).unwrap(),
            false => profile(&mut rig, &grid, PRECISION, &mut points, tell).unwrap(),
        }
        assert!(!left_out.is_empty());
        assert!(left_out.iter().all(|(load, why)| *load == 1 && why.contains("meter")));
        // What has watts can be used meanwhile.
        assert_eq!(points.tables().unwrap().energy_order(), Some(EnergyOrder::Watts));
        assert_eq!(points.tables().unwrap().known_points(), 6);
    }
    let mut points = Points::open(&path, head(&grid)).unwrap();
    assert_eq!(points.len(), 7);
    let mut rig = Reckoned::new(&grid);
    profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
    assert_eq!((rig.set, points.len()), (7, 14));
    let tables = points.tables().unwrap();
    assert_eq!((tables.energy_order(), tables.known_points()), (Some(EnergyOrder::Watts), 12));
}

/// It is said at the first point, not after hours of load.
#[test]
fn a_card_with_much_other_traffic_ends_a_profile_at_once() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let mut points = Points::open(&folder.path().join("points.json"), head(&grid)).unwrap();
    let mut rig = Reckoned { arrivals_per_request: Some(2e3), ..Reckoned::new(&grid) };
    let stopped = profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err();
    assert!(stopped.to_string().contains("other traffic"), "{stopped}");
    assert!(points.is_empty());
}

/// Figures of a late run are discarded; a few such runs do not end the profile.
#[test]
fn a_generator_that_is_late_now_and_then_is_tried_again_and_one_that_is_too_slow_ends_it() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let profiled = |too_slow: u64| {
        let mut points =
            Points::open(&folder.path().join(format!("{too_slow}.json")), head(&grid)).unwrap();
        let mut rig = Reckoned { too_slow, ..Reckoned::new(&grid) };
        let ended = profile(&mut rig, &grid, PRECISION, &mut points, |_| {});
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
        profile(&mut Reckoned::new(&grid), &grid, PRECISION, &mut points, |_| {}).unwrap();
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
    let stopped = profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err();
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

/// No two runs agree: the last one counts, and that is told wherever the point is shown.
#[test]
fn a_server_that_never_comes_to_rest_is_told() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    let path = folder.path().join("points.json");
    let mut points = Points::open(&path, head(&grid)).unwrap();
    let mut rig = Reckoned { noise: 0.5, ..Reckoned::new(&grid) };
    profile(&mut rig, &grid, PRECISION, &mut points, |progress| {
        let Outcome::Measured(point) = &progress.outcome else { panic!("{progress:?}") };
        assert_eq!(remark(point, PRECISION.within), "never steady, not tight");
    })
    .unwrap();
    // After a resumption, too; of a file without the word, no point is called so.
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
    profile(&mut Reckoned::new(&grid), &grid, PRECISION, &mut points, |_| {}).unwrap();
    assert!(points.iter().all(|point| point.steady && remark(point, PRECISION.within).is_empty()));
    let shown = page(&points, PRECISION.within);
    assert!(!shown.contains("never steady") && !shown.contains("not tight"), "{shown}");
}

/// Latencies that are the generator's own in good part are marked wherever the point is shown.
#[test]
fn a_point_whose_requests_were_sent_late_is_told() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    for (late, told) in [(0.09, ""), (0.11, "sent late")] {
        let path = folder.path().join(format!("{late}.json"));
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = Reckoned { late, capacity_rps: 1_500.0, ..Reckoned::new(&grid) };
        profile(&mut rig, &grid, PRECISION, &mut points, |progress| {
            let Outcome::Measured(point) = &progress.outcome else { panic!("{progress:?}") };
            // A saturated point has no latency.
            let told = if point.sustained { told } else { "" };
            assert_eq!(remark(point, PRECISION.within), told);
        })
        .unwrap();
        let known = Points::open(&path, head(&grid)).unwrap();
        let marked = known.iter().filter(|point| point.is_sent_late()).count();
        assert_eq!(marked, if told.is_empty() { 0 } else { 11 });
        let shown = page(&known, PRECISION.within);
        assert_eq!(shown.contains("11 points were sent late"), !told.is_empty());
    }
}

/// A point measured at another frequency is not tabled, and is tried again.
#[test]
fn a_point_at_a_frequency_that_was_not_held_is_left_out_with_its_reason() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), grid());
    for (number, (clamps, loses)) in [(Some(0), None), (None, Some(0))].into_iter().enumerate() {
        let path = folder.path().join(format!("{number}.json"));
        let mut points = Points::open(&path, head(&grid)).unwrap();
        let mut rig = Reckoned { clamps, loses, ..Reckoned::new(&grid) };
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
        profile(&mut Reckoned::new(&grid), &grid, PRECISION, &mut points, |_| {}).unwrap();
        assert_eq!(points.len(), 14);
    }
    // Without the fastest there is no target: it ends there.
    let mut points = Points::open(&folder.path().join("fastest.json"), head(&grid)).unwrap();
    let mut rig = Reckoned { clamps: Some(1), ..Reckoned::new(&grid) };
    let told = profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap_err().to_string();
    assert!(told.contains("driver's own moderation: core 0 holds"), "{told}");
}

/// Eleven frequencies and 24 periods, where the driver's default has a latency that the lower
/// states reach with short periods.
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

/// It stays below a tenth of the points, finds what the full profile finds, tells never less than
/// what is left, and goes on where it was.
#[test]
fn a_sparse_profile_finds_the_same_choice_by_a_tenth_of_the_points() {
    let (folder, grid) = (tempfile::tempdir().unwrap(), fine_grid());
    let path = folder.path().join("sparse.json");
    for target in [None, Some(85e-6), Some(1e-6), Some(1.0)] {
        let mut full =
            Points::open(&folder.path().join(format!("{target:?}.json")), fine_head(&grid))
                .unwrap();
        profile(&mut Reckoned::new(&grid), &grid, PRECISION, &mut full, |_| {}).unwrap();
        let full = full.tables().unwrap();

        let _ = std::fs::remove_file(&path);
        let mut points = Points::open(&path, fine_head(&grid)).unwrap();
        let failure = Some((40, LoadFailure::Interrupted));
        let mut rig = Reckoned { ends: failure, ..Reckoned::new(&grid) };
        let stopped = profile_sparse(&mut rig, &grid, PRECISION, target, &mut points, |_| {});
        assert_eq!(stopped, Err(Stopped::Interrupted));
        let before = points.len();
        let mut points = Points::open(&path, fine_head(&grid)).unwrap();
        let (mut rig, mut told) = (Reckoned::new(&grid), Vec::new());
        profile_sparse(&mut rig, &grid, PRECISION, target, &mut points, |progress| {
            told.push((progress.known, progress.of));
        })
        .unwrap();
        // What was known is not measured again, and the upper estimate is one.
        assert_eq!((before, rig.set as usize), (13, points.len() - 13));
        assert!(told.iter().all(|(known, of)| known <= of && *of >= points.len()), "{told:?}");
        let share = (points.len() - 3) as f64 / full.all_points() as f64;
        assert!(share <= 0.1, "{share}");

        let sparse = points.tables().unwrap();
        for load in full.loads() {
            let target = target.unwrap_or_else(|| full.target(*load).unwrap());
            let of = |tables: &ProfileTables| {
                let choice = tables.choose(*load, target, 1.0, None)?;
                Some((choice.frequency, tables.periods()[choice.period], choice.point.power_watts))
            };
            // Watts of this rig do not depend on the period.
            let state = |tables| of(tables).map(|(frequency, _, watts)| (frequency, watts));
            assert_eq!(state(&sparse), state(&full), "{target}");
            assert_eq!(of(&full).is_some(), target > 50e-6);
        }
        // A sparse profile can be filled up: what it has is part of the full one.
        let (known, mut rig) = (points.len(), Reckoned::new(&grid));
        profile(&mut rig, &grid, PRECISION, &mut points, |_| {}).unwrap();
        assert_eq!(rig.set as usize, grid.order().count() - known);
    }
}

/// A server that is simulated: what the rig is told of a point comes from the tables of its full
/// profile.
struct Tabled {
    tables: ProfileTables,
    at: Option<At>,
}

impl Rig for Tabled {
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

/// The simulator's sparse profile and the one of a rig with the same figures have the same points.
#[test]
fn a_rig_and_the_simulator_are_searched_alike() {
    use wattline_sim::requests as sim;
    use wattline_traffic::requests::{RequestSpec, Workload};
    let file = wattline_server::ServerFile::load("xeon-silver-4108").unwrap();
    let server = file.requests().unwrap();
    let requests = RequestSpec::new(Workload::Nginx, 1.0);
    let periods: Vec<Span> = sim::Grid::periods_of(server).into_iter().step_by(4).collect();
    let of =
        sim::Grid { loads: vec![48e3, 140e3], periods: periods.clone(), seed: 3, within: None };
    let full = sim::profile(server, &requests, &of, wattline_policies::POLICIES).unwrap().tables;
    let target = Some(full.default_point(1).unwrap().latency_seconds * 1.2);
    let simulated = sim::profile_sparse(
        server,
        &requests,
        &of,
        target.map(Span::from_seconds),
        wattline_policies::POLICIES,
    )
    .unwrap();
    let grid = Grid {
        loads_rps: of.loads.clone(),
        frequencies: full.frequencies().to_vec(),
        states: (0..full.frequencies().len()).collect(),
        periods,
    };
    let folder = tempfile::tempdir().unwrap();
    let machine = full.conditions.machine.clone();
    let head = Head::of("".into(), "".into(), machine, &grid, None, Some("modelled".into()));
    let mut points = Points::open(&folder.path().join("points.json"), head).unwrap();
    let mut rig = Tabled { tables: full, at: None };
    profile_sparse(&mut rig, &grid, PRECISION, target, &mut points, |_| {}).unwrap();
    assert_eq!(points.len(), simulated.points + 2, "the defaults are not counted there");
    for point in points.iter() {
        let Some((state, period)) = point.point else { continue };
        let same = simulated.tables.point(point.load, state, period);
        let same = same.unwrap_or_else(|| panic!("not simulated: {point:?}"));
        assert_eq!(point.sustained, same.latency_seconds.is_finite());
    }
}
