//! The policy's decisions on scripted loads.

use super::{Options, with_tables};
use crate::testing::Bench;
use std::sync::Arc;
use wattline_policy::moderation::RuleKind;
use wattline_policy::tables::fingerprint;
use wattline_policy::{BuildContext, FrequencyDomain, LatencyView};
use wattline_server::tables::{Conditions, EnergyOrder, ProfilePoint, ProfileTables};
use wattline_units::{Hertz, Span};

/// Load per core at which the test's tables are exact.
pub(super) const LOW: f64 = 1_000.0;
const HIGH: f64 = 2_000.0;
const PERIOD: Span = Span::from_millis(100);

/// The bench's machine: 14 frequencies; frequency f and period p cost f + 10 - p watts and take
/// (14 - f) + p latency units of 100 us at the low load, and twice that at the high one.
fn tables(bench: &Bench) -> ProfileTables {
    let conditions = Conditions {
        version: 1,
        server: "bench".into(),
        workload: "memcached".into(),
        source: "modelled".into(),
        percentile: 95.0,
        machine: fingerprint(&bench.platform),
        arrivals_per_request: Vec::new(),
        energy: None,
    };
    let periods = [10, 100, 1000].map(Span::from_micros).to_vec();
    let mut tables = ProfileTables::new(conditions, vec![LOW, HIGH], periods).unwrap();
    for (load, factor) in [1.0, 2.0].into_iter().enumerate() {
        for frequency in 0..14 {
            for period in 0..3 {
                let units = (14 - frequency + period) as f64;
                tables.set(
                    load,
                    frequency,
                    period,
                    ProfilePoint {
                        latency_seconds: units * factor * 1e-4,
                        power_watts: (frequency + 10 - period) as f64,
                    },
                );
            }
        }
        let latency_seconds = 5.0 * factor * 1e-4;
        tables.set_default(load, ProfilePoint { latency_seconds, power_watts: 40.0 });
    }
    tables
}

pub(super) fn bench() -> Bench {
    let mut bench = Bench::new();
    bench.platform.domain = FrequencyDomain::Core;
    bench.platform.can.driver_rules = true;
    bench
}

/// Starts the policy with the tables of the bench's machine.
fn begin(bench: &mut Bench, options: Options) {
    let tables = tables(bench);
    begin_with(bench, tables, options);
}

fn begin_with(bench: &mut Bench, tables: ProfileTables, options: Options) {
    let policy = with_tables(Arc::new(tables), options, &bench.platform).unwrap();
    bench.begin(policy);
}

/// Passes a tenth of a second with these loads per core, all on the core's first queue.
pub(super) fn pass(bench: &mut Bench, loads: &[f64], p95: Option<Span>) {
    for (core, load) in loads.iter().enumerate() {
        bench.queues[core].arrivals += (load * 0.1).round() as u64;
    }
    bench.latency = p95.map(|p95| LatencyView { samples: 10_000, p95, ..LatencyView::default() });
    bench.pass(PERIOD, &[], 0);
}

fn millisecond_target() -> Options {
    Options { target: Some(Span::from_micros(1_000)), ..Options::default() }
}

/// Returns a bench with a target of 1 ms, after a tenth of a second at the low load.
fn within_a_millisecond() -> Bench {
    let mut bench = bench();
    begin(&mut bench, millisecond_target());
    pass(&mut bench, &[LOW; 12], None);
    assert_eq!(bench.point.cores[0].frequency, 6);
    bench
}

#[test]
fn each_core_gets_the_cheapest_point_within_the_target_at_its_load() {
    let mut bench = bench();
    begin(&mut bench, Options::default());
    assert_eq!(bench.policy().driver_rule(0), Some(RuleKind::Ixgbe), "no load is known yet");
    let mut loads = [LOW; 12];
    loads[3] = 5_000.0;
    pass(&mut bench, &loads, None);
    // Target 5 units: 14 - f + p <= 5. Power f - p falls by one for each unit of p and of f:
    // all of (9,0), (10,1), (11,2) cost 19; they take 5 units each: the highest frequency wins.
    assert_eq!(bench.point.cores[0].frequency, 11);
    assert_eq!(bench.point.moderation[0], Span::from_micros(1000));
    assert_eq!(bench.policy().driver_rule(0), None);
    // The tables have no entry beyond the profiled loads.
    assert_eq!(bench.point.cores[3].frequency, 13);
    assert_eq!(bench.policy().driver_rule(3), Some(RuleKind::Ixgbe));
    let remark = bench.policy().remark().unwrap();
    assert!(remark.contains("in 1 of 12 decisions"), "{remark}");
}

/// Cards are read only now and then: a decision in between has no new counts, and the next one has
/// the packets of the whole time.
#[test]
fn load_covers_the_time_since_the_last_counts() {
    let mut bench = within_a_millisecond();
    // Read every 150 ms: milliseconds since the last reading, and the packets of as many
    // milliseconds.
    for (age, new) in [(50, 50), (0, 150), (100, 0), (50, 150), (0, 150), (100, 0)] {
        bench.queues.iter_mut().for_each(|queue| queue.age = Span::from_millis(age));
        let queues = bench.queues.iter_mut().take(12);
        queues.for_each(|queue| queue.arrivals += (LOW * 1e-3) as u64 * new);
        bench.pass(PERIOD, &[], 0);
        assert_eq!(bench.point.cores[0].frequency, 6, "{age} ms ago");
    }
}

/// Acknowledgements are packets but not requests: at two packets for each request, half of them
/// count.
#[test]
fn monitor_converts_packets_to_requests() {
    let mut bench = bench();
    let mut measured = tables(&bench);
    measured.conditions.arrivals_per_request = vec![2.0, 2.0];
    begin_with(&mut bench, measured, Options::default());
    pass(&mut bench, &[2.0 * HIGH; 12], None);
    assert_eq!(bench.policy().driver_rule(0), None, "a load that was profiled");
    begin(&mut bench, Options::default());
    pass(&mut bench, &[2.0 * HIGH; 12], None);
    assert_eq!(bench.policy().driver_rule(0), Some(RuleKind::Ixgbe), "beyond what was profiled");
}

/// One queue, and an application that may run on any core: none of them sleeps while it works.
#[test]
fn core_without_a_queue_gets_the_load_of_the_busiest() {
    let mut bench = bench();
    let platform = &mut bench.platform;
    platform.queues.retain(|queue| queue.core < 2);
    let queues = platform.queues.len();
    bench.queues.truncate(queues);
    bench.point = wattline_policy::OperatingPoint::full(&bench.platform);
    let options = millisecond_target();
    begin(&mut bench, options);
    pass(&mut bench, &[LOW, HIGH], None);
    let state = |core: usize| bench.point.cores[core].frequency;
    assert_eq!((state(0), state(1), state(2), state(11)), (6, 11, 11, 11));
}

#[test]
fn a_chip_runs_at_the_highest_state_that_a_core_needs() {
    let mut bench = bench();
    begin(&mut bench, millisecond_target());
    let mut loads = [LOW; 12];
    loads[5] = HIGH;
    pass(&mut bench, &loads, None);
    // 10 units at the low load: f - p = 4; at the high one 5: f - p = 9.
    let own = |core: usize| (bench.point.cores[core].frequency, bench.point.moderation[core]);
    assert_eq!(own(0), (6, Span::from_micros(1000)));
    assert_eq!(own(5), (11, Span::from_micros(1000)));

    bench.platform.domain = FrequencyDomain::Chip;
    begin(&mut bench, millisecond_target());
    pass(&mut bench, &loads, None);
    assert!(bench.point.cores.iter().all(|core| core.frequency == 11));
    // Each core also gets the best period for that state.
    assert!(bench.point.moderation[..12].iter().all(|period| *period == Span::from_micros(1000)));
}

#[test]
fn a_point_is_kept_while_it_is_feasible_and_nearly_the_cheapest() {
    let mut bench = bench();
    let options =
        Options { target: Some(Span::from_micros(1_000)), hysteresis: 0.3, ..Options::default() };
    begin(&mut bench, options);
    pass(&mut bench, &[HIGH; 12], None);
    assert_eq!(bench.point.cores[0].frequency, 11);
    // 14 W would do for the low load; 19 W are more than 30 % above that.
    pass(&mut bench, &[LOW; 12], None);
    assert_eq!(bench.point.cores[0].frequency, 6);
    begin(&mut bench, Options { hysteresis: 0.5, ..millisecond_target() });
    // The fresh policy counts arrivals from its start.
    pass(&mut bench, &[HIGH; 12], None);
    assert_eq!(bench.point.cores[0].frequency, 11);
    pass(&mut bench, &[LOW; 12], None);
    assert_eq!(bench.point.cores[0].frequency, 11, "19 W are within half above 14 W");
}

#[test]
fn a_missed_target_corrects_the_tables_until_it_is_met_again() {
    let mut bench = within_a_millisecond();
    // The tables say 1 ms; 1.4 ms are measured: half the gap counts, so 8 units remain.
    pass(&mut bench, &[LOW; 12], Some(Span::from_micros(1_400)));
    assert_eq!(bench.point.cores[0].frequency, 8);
    for _ in 0..100 {
        pass(&mut bench, &[LOW; 12], Some(Span::from_micros(700)));
    }
    assert_eq!(bench.point.cores[0].frequency, 6, "forgotten where it is met");
    // Without feedback the tables are trusted.
    begin(&mut bench, Options { correction: 0.0, ..millisecond_target() });
    pass(&mut bench, &[LOW; 12], None);
    pass(&mut bench, &[LOW; 12], Some(Span::from_micros(4_000)));
    assert_eq!(bench.point.cores[0].frequency, 6);
}

/// After a burst so bad that no point remains, the machine must not stay at its highest state for
/// ever.
#[test]
fn tables_hold_again_after_a_burst_that_left_no_point() {
    let mut bench = bench();
    let options = Options { target: Some(Span::from_micros(300)), ..Options::default() };
    begin(&mut bench, options);
    pass(&mut bench, &[LOW; 12], None);
    let calm = bench.point.clone();
    for _ in 0..2 {
        pass(&mut bench, &[LOW; 12], Some(Span::from_millis(10)));
    }
    assert_eq!(bench.policy().driver_rule(0), Some(RuleKind::Ixgbe), "no point is fast enough");
    for _ in 0..100 {
        pass(&mut bench, &[LOW; 12], Some(Span::from_micros(100)));
    }
    assert_eq!(bench.point, calm);
}

/// A point of the tables with the same period differs: it switches the driver's own logic off.
#[test]
fn core_without_a_point_restores_the_drivers_moderation() {
    let found = |micros| Some(Span::from_micros(micros));
    for (found, expected) in [(found(30), 30), (found(1000), 1000), (None, 0)] {
        let mut bench = bench();
        bench.platform.can.driver_rules = false;
        bench.platform.moderation_found = found;
        begin(&mut bench, Options::default());
        assert_eq!(bench.point.as_found[0], found.is_some());
        pass(&mut bench, &[LOW; 12], None);
        assert_eq!(bench.point.moderation[0], Span::from_micros(1000));
        assert!(!bench.point.as_found[0]);
        pass(&mut bench, &[5.0 * LOW; 12], None);
        assert_eq!(bench.point.moderation[0], Span::from_micros(expected));
        assert_eq!(bench.point.as_found[0], found.is_some());
        let words = if found.is_some() { "driver's moderation" } else { "shortest moderation" };
        assert!(bench.policy().remark().unwrap().contains(words));
    }
}

/// One core needs state 6, and the other has points only at 5 and 11: 11 serves both.
#[test]
fn a_chip_runs_at_a_state_at_which_every_core_meets_its_target() {
    let mut bench = bench();
    bench.platform.domain = FrequencyDomain::Chip;
    let mut tables = tables(&bench);
    for frequency in 0..14 {
        for period in 0..3 {
            let latency_seconds = if [5, 11].contains(&frequency) { 1e-4 } else { f64::INFINITY };
            let power_watts = frequency as f64;
            tables.set(1, frequency, period, ProfilePoint { latency_seconds, power_watts });
        }
    }
    let options = millisecond_target();
    begin_with(&mut bench, tables, options);
    let mut loads = [LOW; 12];
    loads[5] = HIGH;
    pass(&mut bench, &loads, None);
    assert!(bench.point.cores.iter().all(|core| core.frequency == 11), "{:?}", bench.point.cores);
}

#[test]
fn foreign_tables_are_refused_and_missing_ones_reported() {
    let mut bench = bench();
    let tables = Arc::new(tables(&bench));
    bench.platform.frequencies.pop();
    let error = with_tables(tables, Options::default(), &bench.platform).err().unwrap();
    assert!(error.contains("another machine (bench)") && error.contains("frequencies"), "{error}");
    bench.play("copi", None);
    assert!(bench.policy().remark().unwrap().contains("no tables"));
    let error = bench.refused("copi:tables=/nowhere.csv");
    assert!(error.contains("/nowhere.csv"), "{error}");
}

/// The lowest frequency that is not slower takes over a profiled one's figures: no latency becomes
/// lower than measured, and the faster frequencies get no figures.
#[test]
fn foreign_tables_are_carried_over_only_by_force() {
    let (bench, mut other) = (bench(), self::bench());
    let of_tables = &bench.platform.frequencies;
    // Between two of the profiled frequencies, and slower than all.
    let between = Hertz((of_tables[4].0 + of_tables[5].0) / 2.0);
    let faster = Hertz(between.0 + 1e3);
    other.platform.frequencies = vec![Hertz(of_tables[0].0 / 2.0), between, faster, of_tables[13]];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tables.csv");
    std::fs::write(&path, tables(&bench).to_text()).unwrap();
    let build = |more: &str| {
        let spec = crate::POLICIES.parse(&format!("copi:tables={}{more}", path.display())).unwrap();
        let platform = &other.platform;
        let context = BuildContext { platform, server: None, packet: None, seed: 1 };
        wattline_policy::build(&spec, &context).map(|_| ()).map_err(|error| error.to_string())
    };
    let error = build("").unwrap_err();
    assert!(error.contains("another machine") && error.contains("force=yes"), "{error}");
    assert_eq!(build(",force=yes"), Ok(()));
    assert!(build(",force=maybe").unwrap_err().contains("neither yes nor no"));
    let carried = tables(&bench).carried_to(fingerprint(&other.platform)).unwrap();
    assert_eq!(carried.point(0, 0, 0), None);
    assert_eq!(carried.point(0, 1, 0), tables(&bench).point(0, 4, 0));
    assert_eq!(carried.point(0, 2, 0), None);
    assert_eq!(carried.point(1, 3, 2), tables(&bench).point(1, 13, 2));
    assert_eq!(carried.default_point(0), tables(&bench).default_point(0));
}

/// Tables of the same machine without watts.
fn without_watts(bench: &Bench) -> ProfileTables {
    let mut tables = tables(bench);
    for (load, frequency, period) in
        (0..2).flat_map(|load| (0..14 * 3).map(move |at| (load, at / 3, at % 3)))
    {
        let point = tables.point(load, frequency, period).unwrap();
        tables.set(load, frequency, period, ProfilePoint { power_watts: f64::NAN, ..point });
    }
    for load in 0..2 {
        let point = tables.default_point(load).unwrap();
        tables.set_default(load, ProfilePoint { power_watts: f64::NAN, ..point });
    }
    ProfileTables::parse("test", &tables.to_text()).unwrap()
}

#[test]
fn without_watts_the_lowest_state_and_longest_period_win_with_a_remark() {
    let mut bench = bench();
    let tables = Arc::new(without_watts(&bench));
    assert_eq!(tables.energy_order(), Some(EnergyOrder::StateThenPeriod));
    let options = millisecond_target();
    bench.begin(with_tables(Arc::clone(&tables), options, &bench.platform).unwrap());
    let remark = bench.policy().remark().unwrap();
    assert!(remark.contains("not measured") && remark.contains("the longest first"), "{remark}");
    pass(&mut bench, &[LOW; 12], None);
    // 10 units: 14 - f + p <= 10 holds from state 4 on, there only with the shortest period.
    assert_eq!(bench.point.cores[0].frequency, 4);
    assert_eq!(bench.point.moderation[0], Span::from_micros(10));
    // More load needs more; a feasible point is left only for a cheaper one.
    pass(&mut bench, &[HIGH; 12], None);
    assert_eq!(bench.point.cores[0].frequency, 9);
    pass(&mut bench, &[LOW; 12], None);
    assert_eq!(bench.point.cores[0].frequency, 4);
    // If a chip's fastest core decides for all, each gets the longest feasible period.
    bench.platform.domain = FrequencyDomain::Chip;
    bench.begin(with_tables(tables, options, &bench.platform).unwrap());
    let mut loads = [LOW; 12];
    loads[5] = HIGH;
    pass(&mut bench, &loads, None);
    assert!(bench.point.cores.iter().all(|core| core.frequency == 9));
    assert_eq!(bench.point.moderation[0], Span::from_micros(1000));
    assert_eq!(bench.point.moderation[5], Span::from_micros(10));
}

#[test]
fn partial_watts_are_refused() {
    let bench = bench();
    let mut some = tables(&bench);
    some.set(0, 0, 0, ProfilePoint { latency_seconds: 1e-3, power_watts: f64::NAN });
    let read = ProfileTables::parse("test", &some.to_text()).unwrap();
    assert_eq!(read.energy_order(), None);
    assert_eq!(tables(&bench).energy_order(), Some(EnergyOrder::Watts));
    let refused = with_tables(Arc::new(read), Options::default(), &bench.platform).err().unwrap();
    assert!(refused.contains("of some points and not of others"), "{refused}");
}

/// Figures of the tables do not hold if a knob is not turned.
#[test]
fn tables_over_a_knob_that_cannot_be_turned_are_refused() {
    let bench = bench();
    let all = tables(&bench);
    // A point for each of these states and periods.
    let with = |states: &[usize], periods: &[usize]| {
        let periods = periods.iter().map(|period| all.periods()[*period]).collect::<Vec<_>>();
        let loads = all.loads().to_vec();
        let mut some = ProfileTables::new(all.conditions.clone(), loads, periods).unwrap();
        for (state, period) in states.iter().flat_map(|s| (0..3).map(move |p| (*s, p))) {
            some.set(0, state, period, all.point(0, state, 0).unwrap());
        }
        some
    };
    let refused = |tables: &ProfileTables, frequency: bool, moderation: bool| {
        let mut platform = bench.platform.clone();
        let can = &mut platform.can;
        (can.set_frequency, can.set_moderation) = (frequency, moderation);
        with_tables(Arc::new(tables.clone()), Options::default(), &platform).err()
    };
    let everything = with(&[3, 13], &[0, 2]);
    assert_eq!(refused(&everything, true, true), None);
    let error = refused(&everything, true, false).unwrap();
    for words in ["2 moderation periods (10, 1000 us)", "moderation = \"policy\"", "\"moderation\""]
    {
        assert!(error.contains(words), "{words}: {error}");
    }
    let error = refused(&everything, false, true).unwrap();
    assert!(error.contains("2 V/F states (") && error.contains("\"frequency\""), "{error}");
    assert_eq!(refused(&with(&[3, 13], &[1]), true, false), None);
    assert_eq!(refused(&with(&[13], &[0, 1, 2]), false, true), None);
    // A period given along with the policy takes that knob from it.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tables.csv");
    std::fs::write(&path, everything.to_text()).unwrap();
    let build =
        |more: &str| bench.make(&format!("copi{more}:tables={}", path.display()), None).map(|_| ());
    assert_eq!(build(""), Ok(()));
    let error = build("+84us").unwrap_err().to_string();
    assert!(error.contains("2 moderation periods"), "{error}");
}

#[test]
fn tables_of_another_percentile_are_not_compared_with_the_95th() {
    let bench = bench();
    let mut other = tables(&bench);
    other.conditions.percentile = 99.0;
    let other = Arc::new(other);
    let make = |correction: f64| {
        let options = Options { correction, ..Options::default() };
        with_tables(Arc::clone(&other), options, &bench.platform).err()
    };
    let error = make(0.5).unwrap();
    assert!(error.contains("percentile 99") && error.contains("correction=0"), "{error}");
    assert_eq!(make(0.0), None);
}

#[test]
fn endless_files_are_not_read() {
    let bench = bench();
    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge.csv");
    std::fs::File::create(&huge).unwrap().set_len(ProfileTables::MOST_BYTES + 1).unwrap();
    for (path, expected) in [("/dev/zero", "no regular file"), (huge.to_str().unwrap(), "128 MiB")]
    {
        let error = bench.refused(&format!("copi:tables={path}"));
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn source_of_the_tables_watts_is_reported() {
    let mut bench = bench();
    let mut modelled = tables(&bench);
    modelled.conditions.energy = Some("modelled: a server".to_owned());
    let read = Arc::new(ProfileTables::parse("test", &modelled.to_text()).unwrap());
    bench.begin(with_tables(read, Options::default(), &bench.platform).unwrap());
    assert_eq!(bench.policy().remark().unwrap(), "copi: energy of the tables: modelled: a server");
}

/// A source on a longer path measures more than the profile did, at the default point as well.
#[test]
fn source_with_a_constant_offset_leaves_points_feasible() {
    let mut bench = bench();
    begin(&mut bench, Options::default());
    let all = tables(&bench);
    let (mut seen, mut by_default) = (None, 0);
    for decision in 0..200 {
        pass(&mut bench, &[LOW; 12], seen);
        let point = if bench.policy().driver_rule(0).is_some() {
            by_default += u32::from(decision >= 100);
            all.default_point(0)
        } else {
            let period = all.periods().iter().position(|p| *p == bench.point.moderation[0]);
            all.point(0, bench.point.cores[0].frequency, period.unwrap())
        };
        seen = Some(Span::from_seconds(point.unwrap().latency_seconds + 1e-4));
        // The default point takes 0.5 ms in the tables and really 0.6 ms.
        assert!(seen.unwrap() <= Span::from_micros(630), "{seen:?}");
    }
    assert!(by_default <= 5, "{by_default} of 100 decisions at the default point");
}

#[test]
fn sparse_tables_are_reported() {
    let mut bench = bench();
    let all = tables(&bench);
    let (conditions, loads) = (all.conditions.clone(), all.loads().to_vec());
    let mut few = ProfileTables::new(conditions, loads, all.periods().to_vec()).unwrap();
    for load in 0..2 {
        few.set(load, 11, 2, all.point(load, 11, 2).unwrap());
        few.set_default(load, all.default_point(load).unwrap());
    }
    begin_with(&mut bench, few, Options::default());
    let remark = bench.policy().remark().unwrap();
    assert!(remark.contains("2 of 84 points") && remark.contains("the target"), "{remark}");
}
