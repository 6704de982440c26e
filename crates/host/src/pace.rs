//! Pace of this machine's knobs, by their registrations.

use wattline_governor::knob::Knob;
use wattline_governor::pace::{Budget, Pace};
use wattline_governor::step::Step;
use wattline_knobs::registration::Registration;
use wattline_knobs::{cpufreq, cpuidle, moderation, redirect, uncore};
use wattline_linux::sysfs::Tree;
use wattline_units::Span;

/// A policy that constantly changes its mind costs a tenth of a core: some ten microseconds per
/// write of sysfs. Linux governors that change each core's frequency a hundred times a second stay
/// within this budget on 128 cores.
const BUDGET: Budget = Budget { writes_per_second: 10_000.0, burst_writes: 1_000.0 };

/// Returns the registration of the machine knob behind a knob of an operating point; `None` for
/// commands to workers, in memory.
fn registration(knob: Knob) -> Option<&'static Registration> {
    Some(match knob {
        Knob::Frequency => &cpufreq::FREQUENCY,
        Knob::IdleLimit => &cpuidle::KNOB,
        Knob::Uncore => &uncore::KNOB,
        Knob::Moderation => &moderation::KNOB,
        Knob::Cores => &redirect::KNOB,
        Knob::Wait | Knob::Batch => return None,
    })
}

/// Returns the budget, and the minimum time that each knob stays as set.
pub(super) fn pace(tree: &Tree) -> Pace {
    let dwell = |knob| registration(knob).map_or(Span::ZERO, |knob| (knob.dwell.on)(tree));
    Pace { budget: Some(BUDGET), dwell: Knob::ALL.map(dwell) }
}

/// Returns a step's cost of the budget, with so many indirection tables.
pub(super) fn writes(step: &Step, tables: u32) -> u32 {
    let cost = |knob| registration(knob).map_or(0, |knob| knob.write_cost);
    match step {
        Step::Redirect { .. } => cost(Knob::Cores) * tables,
        // Written with the next table.
        Step::Weight { .. } => 0,
        // The cores that share a frequency may get another one.
        Step::Wake { .. } | Step::Park { .. } => cost(Knob::Frequency),
        _ => cost(step.knob()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policy::{CoreSet, Wait};

    #[test]
    fn costs_and_rests_match_the_registrations() {
        let active = CoreSet::first(2);
        assert_eq!(writes(&Step::Redirect { active }, 3), 3 * redirect::KNOB.write_cost);
        assert_eq!(writes(&Step::Frequency { core: 0, index: 1 }, 3), 1);
        assert_eq!(writes(&Step::Park { core: 0 }, 3), 1);
        for free in [Step::Wait { core: 0, wait: Wait::Poll }, Step::Batch { packets: 1 }] {
            assert_eq!(writes(&free, 3), 0, "{free:?}");
        }
        let root = tempfile::tempdir().unwrap();
        let policies = root.path().join("sys/devices/system/cpu/cpufreq");
        for (policy, nanos) in [("policy0", "10000"), ("policy1", "70000")] {
            std::fs::create_dir_all(policies.join(policy)).unwrap();
            std::fs::write(policies.join(policy).join("cpuinfo_transition_latency"), nanos)
                .unwrap();
        }
        let tree = Tree::at(root.path());
        let found = pace(&tree);
        assert_eq!(found.dwell(Knob::Frequency), Span::from_micros(70));
        assert_eq!(found.dwell(Knob::Cores), Span::ZERO);
        // A driver that does not know its latency (CPUFREQ_ETERNAL) is no reason to wait for four
        // seconds.
        for policy in ["policy0", "policy1"] {
            let file = policies.join(policy).join("cpuinfo_transition_latency");
            std::fs::write(file, "4294967295").unwrap();
        }
        assert_eq!(pace(&tree).dwell(Knob::Frequency), Span::ZERO);
    }
}
