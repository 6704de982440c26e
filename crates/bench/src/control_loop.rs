//! `wattline bench loop`: what the governor's loop itself costs.
//!
//! # What is timed
//! One decision: a look at 48 queues and 12 cores, the policy, the bounding of what it asks
//! for, the way to it in steps, the redirect tables of four ports, the ledger. By processor
//! time of the thread, so that what others do meanwhile does not count. The machine behind it
//! is a list of numbers: what the knobs of a real one cost is theirs.
//!
//! Fill levels go up and down, so that the policy changes the operating point at a share of
//! decisions that is printed; each change moves entries of the tables.

use crate::calibration::{Calibration, spin};
use crate::cpu_time::thread_cpu_seconds;
use crate::sample::Sample;
use quanta::Clock;
use serde::Serialize;
use wattline_cores::platform_of;
use wattline_governor::Governor;
use wattline_governor::machine::{Machine, Taken, View};
use wattline_governor::step::Step;
use wattline_policy::{
    BuildContext, MAX_CORES, Platform, PolicySpec, RedirectTable, SpecError, Trigger, build,
};
use wattline_server::{Application, ServerModel};
use wattline_units::{Span, Time};

/// Decisions per second for which the share of a core is told.
pub const RATE: f64 = 1_000.0;
/// Batches in which fill levels go up once and down again, and how many of them find a high
/// one: enough for PowerSave to climb its ladder, and in the rest to come down.
const PERIOD: u64 = 3_000;
const HIGH: u64 = 100;

/// What to measure.
#[derive(Debug, Clone)]
pub struct Args {
    /// The policy.
    pub policy: PolicySpec,
    /// Decisions of a repeat.
    pub decisions: u64,
    /// Repeats, of which the median counts.
    pub repeats: usize,
}

/// What was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The policy's name.
    pub policy: &'static str,
    /// Cores of the platform.
    pub cores: usize,
    /// Queues of the platform.
    pub queues: usize,
    /// Decisions of a repeat.
    pub decisions: u64,
    /// Changes of the operating point by decision.
    pub changes_per_decision: f64,
    /// Entries of redirect tables moved by decision.
    pub entries_moved_per_decision: f64,
    /// Processor time of a decision: median over the repeats, and spread.
    pub decision_seconds: Sample,
    /// Of that, looking at the machine.
    pub observe_seconds: Sample,
    /// Share of one core that a thousand decisions per second take.
    pub core_share_at_1000_per_second: f64,
    /// The machine's speed before and after.
    pub calibration: Calibration,
    /// What the figures hold and what not.
    pub timed: &'static str,
}

/// A machine of numbers.
struct Numbers {
    platform: Platform,
    tables: Vec<RedirectTable>,
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
                self.entries_moved += table.spread_beside(active, &mut held) as u64;
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
/// When the policy cannot be made for the server.
pub fn run(args: &Args, server: &ServerModel) -> Result<Report, SpecError> {
    let platform = platform_of(server);
    let context = BuildContext {
        platform: &platform,
        server: Some(server),
        packet: server.packet_cost(Application::Ipv4, 64).map(|cost| (cost, 64)),
        seed: 1,
    };
    let policy = build(&args.policy, &context)?;
    let table = RedirectTable::new(server.nic.redirect_table_entries, platform.all_cores());
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
    let (mut whole, mut looks) = (Vec::new(), Vec::new());
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
    }
    let calibration = Calibration::new(before, spin(&clock));
    let per_decision = |count: u64| count as f64 / asked.max(1) as f64;
    // There is at least one repeat.
    let (Some(decision_seconds), Some(observe_seconds)) = (Sample::of(whole), Sample::of(looks))
    else {
        unreachable!("there is at least one repeat")
    };
    Ok(Report {
        policy: governor.policy_name(),
        cores: platform.cores,
        queues: platform.queues.len(),
        decisions: args.decisions,
        changes_per_decision: per_decision(changes),
        entries_moved_per_decision: per_decision(moved),
        core_share_at_1000_per_second: decision_seconds.median * RATE,
        decision_seconds,
        observe_seconds,
        calibration,
        timed: "look, policy, bounding, steps, redirect tables and ledger, by processor time of \
                the thread; not what the knobs of a real machine take to turn",
    })
}

/// Asks so often for what the policy wants to be asked for, a millisecond apart; says how often
/// it was.
fn decide(governor: &mut Governor<Numbers>, decisions: u64) -> u64 {
    let mut asked = 0;
    for number in 0..decisions {
        governor.machine().fill = if number % PERIOD < HIGH { 40 } else { 0 };
        let now = governor.machine().now() + Span::from_millis(1);
        let ask = *governor.ask();
        let trigger = match ask.on_batch.lowest() {
            Some(core) => Trigger::Batch { queue: core, taken: 8, batches: 1 },
            None => Trigger::Timer,
        };
        let now = if trigger == Trigger::Timer { ask.at.max(now).min(Time::NEVER) } else { now };
        asked += u64::from(governor.trigger(now, trigger));
    }
    asked
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_server::ServerFile;

    #[test]
    fn the_policy_is_asked_and_changes_its_mind() {
        let file = ServerFile::load("westmere-2010").unwrap();
        let args =
            Args { policy: PolicySpec::parse("powersave").unwrap(), decisions: 3_000, repeats: 2 };
        let report = run(&args, file.model().unwrap()).unwrap();
        assert_eq!((report.cores, report.queues), (12, 48));
        assert!(report.changes_per_decision > 0.005, "{report:?}");
        assert!(report.entries_moved_per_decision > 0.0 && report.decision_seconds.median > 0.0);
        let share = report.decision_seconds.median * 1_000.0;
        assert_eq!(report.core_share_at_1000_per_second, share);
    }
}
