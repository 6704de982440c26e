//! The loop on a machine that may refuse, alter or resist; and all transitions between two points.

use super::lease::Asked;
use super::machine::Taken;
use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use wattline_policies::POLICIES;
use wattline_policy::testing::policy;
use wattline_policy::{
    BuildContext, Can, CoreSet, CoreSetting, FrequencyDomain, IdleState, Looks, Queue, Wait, build,
};
use wattline_units::{Hertz, Span};

const CORES: usize = 4;

pub(crate) fn platform() -> Platform {
    let idle = |name: &str, micros| IdleState {
        name: name.to_owned(),
        exit_latency: Span::from_micros(micros),
        exit_latency_measured: None,
    };
    Platform {
        cores: CORES,
        frequencies: [1.6e9, 2.0e9, 2.4e9].map(Hertz).to_vec(),
        domain: FrequencyDomain::Core,
        idle_states: vec![idle("C1", 1), idle("C6", 87)],
        queues: (0..CORES).map(|core| Queue { port: 0, core }).collect(),
        ring_size: Some(512),
        moderation: (Span::ZERO, Span::from_micros(100)),
        frequency_transition: Span::ZERO,
        can: Can::EVERY_KNOB,
        ..Platform::BARE
    }
}

/// Checks the safe order of steps by assertions; answers each step with a scripted outcome.
struct Picky {
    platform: Platform,
    /// Outcomes of the next steps; later steps succeed.
    outcomes: VecDeque<Taken>,
    awake: CoreSet,
    table: CoreSet,
    frequencies: Vec<usize>,
    idle: Vec<usize>,
    settled: u64,
    taken: Vec<Step>,
}

impl Picky {
    fn new(outcomes: impl IntoIterator<Item = Taken>) -> Self {
        let platform = platform();
        Self {
            outcomes: outcomes.into_iter().collect(),
            awake: platform.all_cores(),
            table: platform.all_cores(),
            frequencies: vec![platform.fastest(); CORES],
            idle: vec![0; CORES],
            settled: 0,
            taken: Vec::new(),
            platform,
        }
    }
}

impl Machine for Picky {
    fn platform(&self) -> &Platform {
        &self.platform
    }
    fn now(&self) -> Time {
        Time::ZERO
    }
    fn observe(&mut self, _: Time, _: &mut View) {}
    fn take(&mut self, step: &Step) -> Taken {
        let outcome = self.outcomes.pop_front().unwrap_or(Taken::Done);
        if !matches!(outcome, Taken::Done | Taken::Altered { .. }) {
            return outcome;
        }
        self.taken.push(*step);
        match *step {
            Step::Frequency { core, index } => self.frequencies[core] = index,
            Step::IdleLimit { core, state } => self.idle[core] = state,
            Step::Wake { core } => self.awake.insert(core),
            Step::Redirect { active } => self.table = active,
            Step::Park { core } => self.awake.remove(core),
            _ => {}
        }
        assert!(!self.table.is_empty(), "packets go nowhere after {step:?}");
        let lost = self.table.without(self.awake);
        assert!(lost.is_empty(), "packets go to parked cores {lost:?} after {step:?}");
        outcome
    }
    fn settle(&mut self) {
        self.settled += 1;
    }
}

/// Returns a policy that requests these points in turn.
fn scripted(points: Vec<OperatingPoint>) -> Box<dyn Policy> {
    let mut points = points.into_iter();
    policy(Looks::WHOLE, move |seen, point| {
        if let Some(next) = points.next() {
            *point = next;
        }
        AskAgain::at(seen.now)
    })
}

fn ask(governor: &mut Governor<Picky>, picos: u64) {
    match picos {
        0 => governor.start(Time::ZERO),
        _ => assert!(governor.trigger(Time::from_picos(picos), Trigger::Timer)),
    }
}

prop_compose! {
    /// Generates any point, including impossible ones.
    fn any_point()(
        active in prop::collection::vec(0usize..6, 0..5),
        cores in prop::collection::vec((0usize..5, 0usize..4, 0u8..3), CORES),
        moderation in prop::collection::vec(0u64..300, CORES),
        batch in 0u32..100,
    ) -> OperatingPoint {
        let wait = |kind| match kind {
            0 => Wait::Poll,
            1 => Wait::Interrupt,
            _ => Wait::Sleep(Span::from_micros(50)),
        };
        let core = |(frequency, idle_limit, kind)| CoreSetting { frequency, idle_limit, wait: wait(kind) };
        OperatingPoint {
            active: active.into_iter().collect(),
            cores: cores.into_iter().map(core).collect(),
            moderation: moderation.into_iter().map(Span::from_micros).collect(),
            batch,
            ..OperatingPoint::full(&platform())
        }
    }
}

fn any_outcome() -> impl Strategy<Value = Taken> {
    prop_oneof![
        4 => Just(Taken::Done),
        1 => Just(Taken::Altered { found: "else".into() }),
        1 => Just(Taken::Foreign { found: "foreign".into() }),
        2 => Just(Taken::Failed { why: "no".into() }),
    ]
}

proptest! {
    /// On a machine that obeys, the steps lead to the point, and no packet is ever sent to a
    /// sleeping core (asserted by the machine).
    #[test]
    fn steps_lead_there_safely(points in prop::collection::vec(any_point(), 1..6)) {
        let mut wanted = points.clone();
        let mut governor = Governor::new(Picky::new([]), scripted(points));
        for (turn, wanted) in wanted.iter_mut().enumerate() {
            let before = governor.point().clone();
            ask(&mut governor, 2 * turn as u64);
            wanted.bound(&platform(), &before);
            prop_assert_eq!(governor.point(), &*wanted);
            let machine = governor.machine();
            prop_assert_eq!(machine.table, wanted.active);
            prop_assert_eq!(machine.awake, wanted.active);
            for (core, setting) in wanted.cores.iter().enumerate() {
                prop_assert_eq!(machine.frequencies[core], setting.frequency);
                prop_assert_eq!(machine.idle[core], setting.idle_limit);
            }
            let mut steps = Vec::new();
            step::between(&platform(), wanted, wanted, &mut steps);
            prop_assert!(steps.is_empty());
        }
    }

    /// Under any failures, the governor's belief matches the machine, and the table always contains
    /// awake cores (asserted by the machine).
    #[test]
    fn failures_leave_no_packet_without_a_core(
        points in prop::collection::vec(any_point(), 1..8),
        outcomes in prop::collection::vec(any_outcome(), 0..60),
    ) {
        let turns = points.len() as u64;
        let mut governor = Governor::new(Picky::new(outcomes), scripted(points));
        for turn in 0..turns {
            // Seconds apart, so that failed knobs are tried again.
            ask(&mut governor, turn * 2_000_000_000_000);
            let point = governor.point().clone();
            let machine = governor.machine();
            prop_assert_eq!(machine.table, point.active);
            for (core, setting) in point.cores.iter().enumerate() {
                prop_assert_eq!(machine.frequencies[core], setting.frequency);
                prop_assert_eq!(machine.idle[core], setting.idle_limit);
            }
        }
    }

    /// More capacity before the table is wider, less only after it is narrower.
    #[test]
    fn order_of_capacity(from in any_point(), to in any_point()) {
        let platform = platform();
        let full = OperatingPoint::full(&platform);
        let (mut from, mut to) = (from, to);
        from.bound(&platform, &full);
        to.bound(&platform, &from);
        let mut steps = Vec::new();
        step::between(&platform, &from, &to, &mut steps);
        let redirect = steps.iter().position(|step| matches!(step, Step::Redirect { .. }));
        prop_assert_eq!(redirect.is_some(), from.active != to.active);
        for (place, step) in steps.iter().enumerate() {
            let Some(redirect) = redirect else { break };
            match *step {
                Step::Wake { .. } => prop_assert!(place < redirect),
                Step::Park { .. } => prop_assert!(place > redirect),
                Step::Frequency { core, index } if index > from.cores[core].frequency => {
                    prop_assert!(place < redirect);
                }
                Step::Frequency { .. } => prop_assert!(place > redirect),
                _ => {}
            }
        }
    }
}

#[test]
fn failed_knob_rests_and_is_tried_again() {
    let mut slow = OperatingPoint::full(&platform());
    slow.set_frequency(0);
    let wants_it_always = vec![slow; 10];
    let failed = Taken::Failed { why: "not permitted".into() };
    let machine = Picky::new(vec![failed; CORES]);
    let mut governor = Governor::new(machine, scripted(wants_it_always));
    governor.start(Time::ZERO);
    assert_eq!(governor.point().cores[0].frequency, 2, "it is as it was");
    let at = |micros| Time::ZERO + Span::from_micros(micros);
    governor.trigger(at(50), Trigger::Timer);
    assert_eq!(governor.ledger().sums(), (4, 0, 4), "left alone");
    governor.trigger(at(110), Trigger::Timer);
    assert_eq!(governor.point().cores[0].frequency, 0);
    assert_eq!(governor.ledger().sums(), (8, 0, 4));
    assert_eq!(governor.loop_totals(at(110)).frequency_changes, 1);
}

/// One owner; an existing point; the policy's own point after the lease.
#[test]
fn client_holds_a_point_until_its_lease_ends() {
    let context = BuildContext { platform: &platform(), server: None, packet: None, seed: 0 };
    let policy = build(&POLICIES.parse("napi:cores=2,frequency_ghz=2").unwrap(), &context).unwrap();
    let mut governor = Governor::new(Picky::new([]), policy);
    let at = |seconds: u64| Time::ZERO + Span::from_millis(1000 * seconds);
    let hold = |owner: &str, cores, kilohertz, seconds| {
        Asked::hold(owner.to_owned(), cores, kilohertz, seconds)
    };
    let point = |governor: &Governor<Picky>| {
        (governor.point().active.len(), governor.point().cores[0].frequency)
    };
    governor.start(at(0));
    assert_eq!(point(&governor), (2, 1));
    let held = governor.lease(at(1), &hold("a", 3, 2_400_000, 5)).unwrap().unwrap();
    assert_eq!(
        (held.cores_active, &held.frequency_hertz[..], held.under_way),
        (3, &[2.4e9; 3][..], false)
    );
    assert_eq!(point(&governor), (3, 2));
    let refused =
        |governor: &mut Governor<Picky>, asked: &Asked| governor.lease(at(2), asked).unwrap_err();
    for asked in [hold("b", 1, 1_600_000, 5), Asked::Release("b".to_owned())] {
        let why = refused(&mut governor, &asked);
        assert!(why.contains("\"a\" holds") && why.contains("4.0 s"), "{why}");
    }
    for (asked, allowed) in [
        (hold("a", 0, 1_600_000, 5), "cores = 0: allowed is 1 to 4"),
        (hold("a", 5, 1_600_000, 5), "cores = 5: allowed is 1 to 4"),
        (
            hold("a", 1, 1_700_000, 5),
            "frequency = 1.700 GHz: allowed is one of 1.600, 2.000, 2.400 GHz",
        ),
        (hold("a", 1, 1_600_000, 0), "lease = 0 s: allowed is up to 600 s"),
        (hold("a", 1, 1_600_000, 601), "lease = 601 s"),
    ] {
        let why = refused(&mut governor, &asked);
        assert!(why.contains(allowed), "{why}");
    }
    assert_eq!(point(&governor), (3, 2), "refusals change nothing");
    governor.lease(at(3), &hold("a", 1, 1_600_000, 5)).unwrap();
    assert!(!governor.trigger(at(7), Trigger::Timer));
    assert!(governor.trigger(at(8), Trigger::Timer), "the owner was silent");
    assert_eq!(point(&governor), (2, 1));
    let why = governor.lease(at(9), &hold("\n", 1, 1_600_000, 5)).unwrap_err();
    assert!(why.contains("owner = ") && why.contains("without control characters"), "{why}");
    governor.lease(at(9), &hold("b", 4, 1_600_000, 5)).unwrap();
    governor.lease(at(10), &Asked::Release("b".to_owned())).unwrap();
    assert_eq!(point(&governor), (2, 1));
}

#[test]
fn jumping_time_does_no_harm() {
    let spec = POLICIES.parse("queue-length").unwrap();
    let platform = platform();
    let context = BuildContext { platform: &platform, server: None, packet: None, seed: 0 };
    let policy = build(&spec, &context).unwrap();
    let mut governor = Governor::new(Picky::new([]), policy);
    let at = |micros| Time::ZERO + Span::from_micros(micros);
    governor.start(at(5_000));
    // Back, then a day ahead: counted once, and never backwards.
    assert!(governor.trigger(at(10), Trigger::Silence { core: 0 }));
    assert!(governor.ask().at > at(5_000));
    assert!(!governor.trigger(at(6_000), Trigger::Timer), "not due");
    assert!(governor.trigger(at(86_400_000_000), Trigger::Timer));
    let totals = governor.loop_totals(at(0));
    assert!((totals.active_core_seconds / 86_400.0 - 1.0).abs() < 1e-3, "one core all day");
    assert!(governor.ask().at > at(86_400_000_000));
}

/// A machine whose cores work all the time, or not at all.
struct Loaded {
    machine: Picky,
    busy: bool,
    seen: Time,
}

impl Machine for Loaded {
    fn platform(&self) -> &Platform {
        self.machine.platform()
    }
    fn now(&self) -> Time {
        self.seen
    }
    fn observe(&mut self, now: Time, view: &mut View) {
        let passed = now.since(self.seen);
        self.seen = now;
        for core in &mut view.cores {
            let spent = if self.busy { &mut core.useful } else { &mut core.asleep };
            *spent += passed;
        }
    }
    fn take(&mut self, step: &Step) -> Taken {
        self.machine.take(step)
    }
}

/// 64 bits hold the picoseconds of 213 days, and those of all cores together sooner.
#[test]
fn after_years_a_governor_still_follows_the_load_and_does_not_spin() {
    let platform = platform();
    let context = BuildContext { platform: &platform, server: None, packet: None, seed: 0 };
    let policy = build(&POLICIES.parse("ondemand").unwrap(), &context).unwrap();
    let machine = Loaded { machine: Picky::new([]), busy: true, seen: Time::ZERO };
    let mut governor = Governor::new(machine, policy);
    let years = Time::ZERO + Span::from(std::time::Duration::from_secs(30 * 365 * 86_400));
    governor.start(Time::ZERO);
    assert!(governor.trigger(years, Trigger::Timer), "due long since");
    let mut now = years;
    for (busy, frequency) in [(false, 0), (true, 2), (false, 0)] {
        governor.machine().busy = busy;
        let due = governor.ask().at;
        assert_eq!(due.since(now), Span::from_millis(10), "not at once, not never");
        now = due;
        assert!(governor.trigger(now, Trigger::Timer));
        assert_eq!(governor.point().cores[0].frequency, frequency, "busy: {busy}");
    }
    let totals = governor.totals(now);
    assert_eq!(totals.machine.asleep, Span::from_millis(20) * CORES as u64);
    let useful = totals.machine.useful.as_seconds() / CORES as f64;
    assert!((useful / (30.0 * 365.0 * 86_400.0) - 1.0).abs() < 1e-9, "{useful} s");
}

/// A machine on which time passes and packets wait at every core.
struct Busy(Picky, std::time::Instant);

impl Machine for Busy {
    fn platform(&self) -> &Platform {
        self.0.platform()
    }
    fn now(&self) -> Time {
        Time::ZERO + Span::from(self.1.elapsed())
    }
    fn observe(&mut self, _: Time, view: &mut View) {
        view.queues.iter_mut().for_each(|queue| queue.fill = 9);
    }
    fn take(&mut self, step: &Step) -> Taken {
        self.0.take(step)
    }
}

#[test]
fn runner_keeps_time_and_samples_watched_queues() {
    let (sender, asked) = std::sync::mpsc::channel();
    let machine = Busy(Picky::new([]), std::time::Instant::now());
    let restless = policy(Looks::WHOLE, move |seen, _| {
        let _ = sender.send(seen.trigger);
        AskAgain { at: seen.now + Span::from_micros(100), ..AskAgain::on_batch(CoreSet::only(1)) }
    });
    let governor = Governor::new(machine, restless);
    let sample = std::time::Duration::from_millis(1);
    let runner = runner::Runner::start(governor, sample).unwrap();
    assert_eq!(asked.recv(), Ok(Trigger::Start));
    let more: Vec<Trigger> = (0..20).map(|_| asked.recv().unwrap()).collect();
    assert!(more.contains(&Trigger::Timer));
    let batches = more.iter().filter(|trigger| **trigger != Trigger::Timer);
    assert!(batches.clone().count() > 0, "{more:?}");
    let expected = Trigger::Batch { queue: 1, taken: 9, batches: 1 };
    assert!(batches.clone().all(|trigger| *trigger == expected), "{more:?}");
    let totals = runner.totals(std::time::Duration::from_secs(60)).unwrap();
    assert!(totals.own.decisions > 20);
    drop(runner);
    assert!(asked.iter().count() < 1_000_000, "its thread has ended");
}

#[test]
fn stale_triggers_do_not_reach_the_policy() {
    let mut governor = Governor::new(Picky::new([]), scripted(Vec::new()));
    governor.start(Time::ZERO);
    assert!(!governor.trigger(Time::ZERO, Trigger::Batch { queue: 0, taken: 1, batches: 1 }));
    assert!(!governor.trigger(Time::ZERO, Trigger::Batch { queue: 99, taken: 1, batches: 1 }));
    assert!(!governor.trigger(Time::ZERO, Trigger::EmptyPolls { core: 0 }));
    assert!(governor.trigger(governor.ask().at, Trigger::Timer));
    assert_eq!(governor.loop_totals(Time::ZERO).decisions, 2);
}
