//! The running policy on random tables, compared with a search over all points.

use super::tests::{LOW, bench, pass};
use super::{Options, with_tables};
use crate::testing::Bench;
use std::sync::Arc;
use wattline_policy::FrequencyDomain;
use wattline_policy::moderation::RuleKind;
use wattline_policy::tables::fingerprint;
use wattline_server::tables::{Conditions, ProfilePoint, ProfileTables};
use wattline_units::Span;

const TABLES: u64 = 10_000;
const CORES: usize = 12;
const FREQUENCIES: usize = 14;
const PERIODS: [u64; 3] = [10, 100, 1000];
const UNIT: f64 = 1e-4;

/// Vigna's splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Returns tables in which some points are missing and some saturated, with few distinct values, so
/// that ties are common.
fn tables(bench: &Bench, random: &mut Random) -> ProfileTables {
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
    let periods = PERIODS.map(Span::from_micros).to_vec();
    let mut tables = ProfileTables::new(conditions, vec![LOW, 2.0 * LOW], periods).unwrap();
    for (load, frequency, period) in (0..2)
        .flat_map(|load| (0..FREQUENCIES).map(move |frequency| (load, frequency)))
        .flat_map(|(load, frequency)| (0..PERIODS.len()).map(move |p| (load, frequency, p)))
    {
        let latency = match random.below(10) {
            0 | 1 => continue,
            2 => f64::INFINITY,
            _ => (1 + random.below(9)) as f64 * UNIT,
        };
        let power_watts = (1 + random.below(9)) as f64;
        let point = ProfilePoint { latency_seconds: latency, power_watts };
        tables.set(load, frequency, period, point);
    }
    tables
}

/// Returns the watts of all points that meet the target at a load, with frequency and period.
fn feasible(tables: &ProfileTables, load: f64, target: f64) -> Vec<(f64, usize, usize)> {
    let all = (0..FREQUENCIES).flat_map(|f| (0..PERIODS.len()).map(move |p| (f, p)));
    all.filter_map(|(f, p)| {
        let point = tables.at(load, f, p)?;
        let meets = point.latency_seconds.is_finite() && point.latency_seconds <= target;
        meets.then_some((point.power_watts, f, p))
    })
    .collect()
}

/// Returns the frequency that cores share, from the frequency that each would use alone: the
/// lowest, starting at the highest of them, at which no core misses a target that it meets at some
/// other.
fn shared_frequency(
    tables: &ProfileTables,
    loads: &[f64],
    alone: &[(usize, Option<usize>)],
    target: f64,
) -> usize {
    let highest = alone.iter().map(|(frequency, _)| *frequency).max().unwrap();
    let misses = |frequency: usize| {
        let misses = |(load, (own, period)): &(&f64, &(usize, Option<usize>))| {
            // A core without a point runs at the fastest; one with a point keeps its period where
            // the tables have no entry.
            period.is_some_and(|period| {
                *own != frequency
                    && tables.at(**load, frequency, period).is_some()
                    && !feasible(tables, **load, target).iter().any(|(_, f, _)| *f == frequency)
            })
        };
        loads.iter().zip(alone).filter(misses).count()
    };
    (highest..FREQUENCIES).min_by_key(|frequency| misses(*frequency)).unwrap()
}

/// Returns the state and period set for a core; no period if the driver decides.
fn decided(bench: &Bench, core: usize) -> (usize, Option<usize>) {
    let micros = (bench.point.moderation[core].as_seconds() * 1e6).round() as u64;
    let period = PERIODS.iter().position(|period| *period == micros);
    let left = bench.policy().driver_rule(core) == Some(RuleKind::Ixgbe);
    (bench.point.cores[core].frequency, period.filter(|_| !left))
}

#[test]
fn decisions_are_feasible_and_the_cheapest_on_10_000_random_tables() {
    let (mut per_core, mut per_chip) = (bench(), bench());
    per_chip.platform.domain = FrequencyDomain::Chip;
    let mut random = Random(4_108);
    let (mut infeasible, mut chosen, mut kept, mut raised) = (0, 0, 0, 0);
    for number in 0..TABLES {
        let tables = Arc::new(tables(&per_core, &mut random));
        let target = 1 + random.below(9);
        let hysteresis = if number % 2 == 0 { 0.0 } else { 0.3 };
        let options = Options {
            target: Some(Span::from_micros(100 * target)),
            hysteresis,
            ..Options::default()
        };
        let target = Span::from_micros(100 * target).as_seconds();
        for bench in [&mut per_core, &mut per_chip] {
            bench.begin(with_tables(Arc::clone(&tables), options, &bench.platform).unwrap());
        }
        // Twice: the second decision has a point to keep.
        for second in [false, true] {
            // Also on the profiled loads, and beyond them.
            let loads = [(); CORES].map(|()| 100.0 * random.below(23) as f64);
            pass(&mut per_core, &loads, None);
            pass(&mut per_chip, &loads, None);
            let highest = per_chip.point.cores[0].frequency;
            let loads = loads.map(|load| (load * 0.1).round() / 0.1);
            // The first decision keeps nothing, so that each core takes the best point of all.
            if !second {
                let alone: Vec<_> = (0..CORES).map(|core| decided(&per_core, core)).collect();
                let expected = shared_frequency(&tables, &loads, &alone, target);
                assert_eq!(highest, expected, "table {number}");
                raised += u32::from(Some(highest) > alone.iter().map(|(f, _)| *f).max());
            }
            for (core, load) in loads.into_iter().enumerate() {
                let all = feasible(&tables, load, target);
                let at = decided(&per_core, core);
                let least = all.iter().map(|(watts, ..)| *watts).fold(f64::INFINITY, f64::min);
                if all.is_empty() {
                    infeasible += 1;
                    assert_eq!(at, (FREQUENCIES - 1, None), "table {number}, core {core}");
                } else {
                    chosen += 1;
                    let taken = all.iter().find(|(_, f, p)| at == (*f, Some(*p)));
                    let taken = taken.unwrap_or_else(|| {
                        panic!("table {number}, core {core}: {at:?} is not feasible: {all:?}")
                    });
                    assert!(
                        taken.0 <= least * (1.0 + hysteresis),
                        "table {number}, core {core}: {} W, not {least} W",
                        taken.0
                    );
                    kept += u32::from(taken.0 > least);
                }
                // With one frequency for the chip, the highest applies to all; the period is
                // feasible there if any is.
                let (frequency, period) = decided(&per_chip, core);
                assert_eq!(frequency, highest, "table {number}");
                let there: Vec<_> = all.iter().filter(|(_, f, _)| *f == highest).collect();
                let meets = there.iter().any(|(_, _, p)| period == Some(*p));
                assert!(there.is_empty() || meets, "table {number}, core {core}: {period:?}");
            }
        }
    }
    // All kinds have to be frequent, or the test shows little.
    println!(
        "{chosen} chosen, {kept} of them kept by hysteresis, {infeasible} without a point; a chip \
         raised above what its cores need {raised} times"
    );
    assert!(chosen > 100_000 && infeasible > 10_000 && kept > 1_000);
}
