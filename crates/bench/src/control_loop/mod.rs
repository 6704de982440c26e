//! `wattline bench loop`: the cost of the governor's loop itself.
//!
//! # What is timed
//! One decision. It reads 48 queues and 12 cores, asks the policy, bounds the request, plans the
//! steps towards it, and updates the indirection tables of four ports and the ledger. The unit is
//! processor time of the thread, so that other programs do not count. The machine behind the
//! governor is a list of numbers: the cost of real knobs is not included.
//!
//! Planning the steps is also timed separately: between two operating points that differ in the
//! frequency and the idle limit of each core and in half of the active cores, and back.
//!
//! Fill levels rise and fall, so that the policy changes the operating point in some of the
//! decisions. The report gives that share. Each change moves entries of the tables.

mod page;

pub use page::page;

use crate::calibration::{Calibration, spin};
use crate::sample::Sample;
use quanta::Clock;
use serde::Serialize;
use wattline_cores::platform_of;
use wattline_governor::Governor;
use wattline_governor::machine::{Machine, Taken, View};
use wattline_governor::step::{self, Step};
use wattline_policy::{
    BuildContext, IndirectionTable, MAX_CORES, OperatingPoint, Platform, PolicySpec, SpecError,
    Trigger, build,
};
use wattline_server::{Application, ServerModel};
use wattline_testbed::cpu::thread_cpu_seconds;
use wattline_units::{Span, Time};

/// Decisions per second at which the report gives the share of a core.
pub const RATE: f64 = 1_000.0;
/// Period of the fill levels in batches, and the batches of it with a high level: enough for
/// PowerSave to climb its ladder, and to come down in the rest.
const PERIOD: u64 = 3_000;
const HIGH: u64 = 100;
/// The same in streaks, for a policy that is only asked at streaks.
const STREAKS: u64 = 50;

/// Arguments of the benchmark.
#[derive(Debug, Clone)]
pub struct Args {
    /// Policy to measure.
    pub policy: PolicySpec,
    /// Number of decisions per repeat.
    pub decisions: u64,
    /// Number of repeats; the report gives their median.
    pub repeats: usize,
}

/// Result of one run of the benchmark.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Name of the policy.
    pub policy: &'static str,
    /// Number of cores of the platform.
    pub cores: usize,
    /// Number of queues of the platform.
    pub queues: usize,
    /// Number of decisions per repeat.
    pub decisions: u64,
    /// Changes of the operating point per decision.
    pub changes_per_decision: f64,
    /// Entries of indirection tables moved per decision.
    pub entries_moved_per_decision: f64,
    /// Processor time per decision in seconds, over the repeats.
    pub decision_seconds: Sample,
    /// Part of the processor time that reads the state of the machine, in seconds per decision.
    pub observe_seconds: Sample,
    /// Processor time in seconds to plan the steps between two operating points, over the repeats.
    pub plan_seconds: Sample,
    /// Share of one core that a thousand decisions per second use, 0 to 1.
    pub core_share_at_1000_per_second: f64,
    /// Speed of the machine before and after the measurement.
    pub calibration: Calibration,
    /// Work that the figures include and exclude, in words.
    pub timed: &'static str,
}

/// A machine whose state is a list of numbers.
struct Numbers {
    platform: Platform,
    tables: Vec<IndirectionTable>,
    fill: u32,
    time: Time,
    entries_moved: u64,
    settled: u64,
}

impl Machine for Numbers {
    fn platform(&self) -> &Platform {
        &self.platform
    }
    fn now(&self) -> Time {
        self.time
    }
    fn observe(&mut self, now: Time, view: &mut View) {
        let passed = now.since(self.time);
        self.time = now;
        for queue in &mut view.queues {
            queue.fill = self.fill;
            queue.arrivals += u64::from(self.fill);
        }
        for core in &mut view.cores {
            core.useful += passed / 2;
            core.asleep += passed / 2;
            core.packets += u64::from(self.fill);
        }
    }
    fn take(&mut self, step: &Step) -> Taken {
        if let Step::Redirect { active } = *step {
            let mut held = [0; MAX_CORES];
            for table in &mut self.tables {
                self.entries_moved += table.spread_among(active, &mut held) as u64;
            }
        }
        Taken::Done
    }
    fn settle(&mut self) {
        self.settled += 1;
    }
    fn entries_moved(&self) -> u64 {
        self.entries_moved
    }
}

/// Measures a policy on a server model.
///
/// # Errors
/// Fails when the policy cannot be built for the server.
pub fn run(args: &Args, server: &ServerModel) -> Result<Report, SpecError> {
    let platform = platform_of(server);
    let context = BuildContext {
        platform: &platform,
        server: Some(server),
        packet: server.packet_cost(Application::Ipv4, 64).map(|cost| (cost, 64)),
        seed: 1,
    };
    let policy = build(&args.policy, &context)?;
    let table = IndirectionTable::new(server.nic.redirect_table_entries, platform.all_cores());
    let machine = Numbers {
        tables: vec![table; server.nic.ports],
        fill: 0,
        time: Time::ZERO,
        entries_moved: 0,
        settled: 0,
        platform: platform.clone(),
    };
    let mut governor = Governor::new(machine, policy);
    governor.start(Time::ZERO);
    let clock = Clock::new();
    let before = spin(&clock);
    let (mut whole, mut looks, mut plans) = (Vec::new(), Vec::new(), Vec::new());
    let ends = ends(&platform);
    let mut steps = Vec::new();
    let (mut changes, mut moved, mut asked) = (0, 0, 0);
    for _ in 0..args.repeats.max(1) {
        let (changes_before, moved_before) =
            (governor.machine().settled, governor.machine().entries_moved);
        let began = thread_cpu_seconds();
        asked = decide(&mut governor, args.decisions);
        whole.push((thread_cpu_seconds() - began) / asked.max(1) as f64);
        changes = governor.machine().settled - changes_before;
        moved = governor.machine().entries_moved - moved_before;
        let began = thread_cpu_seconds();
        for _ in 0..args.decisions {
            let now = governor.machine().now() + Span::from_micros(1);
            std::hint::black_box(governor.look(now));
        }
        looks.push((thread_cpu_seconds() - began) / args.decisions.max(1) as f64);
        let began = thread_cpu_seconds();
        for number in 0..args.decisions {
            let [from, to] =
                if number % 2 == 0 { [&ends[0], &ends[1]] } else { [&ends[1], &ends[0]] };
            step::between(&platform, from, to, &mut steps);
            std::hint::black_box(&steps);
        }
        plans.push((thread_cpu_seconds() - began) / args.decisions.max(1) as f64);
    }
    let calibration = Calibration::new(before, spin(&clock));
    let per_decision = |count: u64| count as f64 / asked.max(1) as f64;
    // There is at least one repeat.
    let (Some(decision_seconds), Some(observe_seconds), Some(plan_seconds)) =
        (Sample::summarise(whole), Sample::summarise(looks), Sample::summarise(plans))
    else {
        unreachable!("there is at least one repeat")
    };
    Ok(Report {
        policy: args.policy.policy.name,
        cores: platform.cores,
        queues: platform.queues.len(),
        decisions: args.decisions,
        changes_per_decision: per_decision(changes),
        entries_moved_per_decision: per_decision(moved),
        core_share_at_1000_per_second: decision_seconds.median * RATE,
        decision_seconds,
        observe_seconds,
        plan_seconds,
        calibration,
        timed: "observation, policy, bounding, steps, indirection tables and ledger, by processor \
                time of the thread; without the knobs of a real machine",
    })
}

/// Two points with many steps between them.
fn ends(platform: &Platform) -> [OperatingPoint; 2] {
    let full = OperatingPoint::full(platform);
    let mut low = full.clone();
    low.set_active(platform.cores.div_ceil(2), platform.deepest(), platform.deepest());
    low.set_frequency(0);
    [full, low]
}

/// Triggers the governor `decisions` times, at least a millisecond apart, as the policy has asked
/// to be triggered; returns how often the policy was asked.
fn decide(governor: &mut Governor<Numbers>, decisions: u64) -> u64 {
    let mut asked = 0;
    for number in 0..decisions {
        governor.machine().fill = if number % PERIOD < HIGH { 40 } else { 0 };
        let now = governor.machine().now() + Span::from_millis(1);
        let ask = governor.ask();
        let trigger = match (ask.on_batch.lowest(), ask.on_streak.cores.lowest()) {
            (Some(core), _) => Trigger::Batch { queue: core, taken: 8, batches: 1 },
            (None, Some(core)) => {
                Trigger::Streak { queue: core, above: number % STREAKS < STREAKS / 2 }
            }
            (None, None) => Trigger::Timer,
        };
        let now = if trigger == Trigger::Timer { ask.at.max(now).min(Time::NEVER) } else { now };
        asked += u64::from(governor.trigger(now, trigger));
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policies::POLICIES;
    use wattline_server::ServerFile;

    #[test]
    fn policy_is_asked_and_changes_the_point() {
        let file = ServerFile::load("westmere-2010").unwrap();
        let args =
            Args { policy: POLICIES.parse("queue-length").unwrap(), decisions: 3_000, repeats: 2 };
        let report = run(&args, file.model().unwrap()).unwrap();
        assert_eq!((report.cores, report.queues), (12, 48));
        assert!(report.changes_per_decision > 0.005, "{report:?}");
        assert!(report.entries_moved_per_decision > 0.0 && report.decision_seconds.median > 0.0);
        let share = report.decision_seconds.median * 1_000.0;
        assert_eq!(report.core_share_at_1000_per_second, share);
        assert!(report.plan_seconds.median > 0.0);
    }

    #[test]
    fn plan_turns_each_core_and_parks_half() {
        let file = ServerFile::load("westmere-2010").unwrap();
        let platform = platform_of(file.model().unwrap());
        let [full, low] = ends(&platform);
        let mut steps = Vec::new();
        step::between(&platform, &full, &low, &mut steps);
        let count = |is: fn(&Step) -> bool| steps.iter().filter(|step| is(step)).count();
        assert_eq!(count(|step| matches!(step, Step::IdleLimit { .. })), 12);
        assert_eq!(count(|step| matches!(step, Step::Frequency { .. })), 12);
        assert_eq!(count(|step| matches!(step, Step::Park { .. })), 6);
        assert_eq!(steps.len(), 12 + 12 + 6 + 1);
    }
}
