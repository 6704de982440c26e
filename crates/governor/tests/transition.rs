//! The transition engine, alone and under a governor: pace, slow steps, knobs that round. Also the
//! conformance test's detection of broken promises.

use std::collections::BTreeMap;
use wattline_governor::Governor;
use wattline_governor::conformance::{Circumstances, Findings, Follows, probe};
use wattline_governor::ledger::Knob;
use wattline_governor::machine::{Machine, Taken, View};
use wattline_governor::pace::{Budget, Pace};
use wattline_governor::step::Step;
use wattline_governor::transition::{Actuator, Transition};
use wattline_policy::testing::policy;
use wattline_policy::{
    AskAgain, Can, CoreSet, FrequencyDomain, IdleState, LatencyView, Looks, OperatingPoint,
    Platform, Queue, Sees, Trigger,
};
use wattline_units::{Hertz, Span, Time};

fn platform() -> Platform {
    let idle = |name: &str, micros| IdleState {
        name: name.to_owned(),
        exit_latency: Span::from_micros(micros),
        exit_latency_measured: None,
    };
    Platform {
        cores: 4,
        frequencies: [1.0e9, 2.0e9, 3.0e9].map(Hertz).to_vec(),
        domain: FrequencyDomain::Core,
        uncore: [1.0e9, 2.0e9].map(Hertz).to_vec(),
        idle_states: vec![idle("C1", 1), idle("C6", 87)],
        queues: (0..4).map(|core| Queue { port: 0, core }).collect(),
        ring_size: Some(512),
        moderation: (Span::ZERO, Span::from_micros(100)),
        can: Can::EVERY_KNOB,
        ..Platform::BARE
    }
}

fn at(micros: u64) -> Time {
    Time::ZERO + Span::from_micros(micros)
}

/// Records the steps with their times; some knobs are slow, and some frequencies are rounded up.
struct FakeActuator {
    platform: Platform,
    slow: BTreeMap<&'static str, Span>,
    rounds: bool,
    taken: Vec<(Time, Step)>,
}

impl FakeActuator {
    fn new() -> Self {
        Self { platform: platform(), slow: BTreeMap::new(), rounds: false, taken: Vec::new() }
    }

    fn frequencies(&self) -> usize {
        let of = |(_, step): &&(Time, Step)| matches!(step, Step::Frequency { .. });
        self.taken.iter().filter(of).count()
    }
}

impl Actuator for FakeActuator {
    fn platform(&self) -> &Platform {
        &self.platform
    }
    fn take(&mut self, now: Time, step: &Step) -> Taken {
        self.taken.push((now, *step));
        let held = self.held(step);
        match self.slow.get(step.knob().name()) {
            Some(delay) => Taken::Slow { until: now + *delay },
            None if held != Some(*step) => Taken::Altered { found: "3 GHz".into() },
            None => Taken::Done,
        }
    }
    fn held(&mut self, step: &Step) -> Option<Step> {
        match *step {
            Step::Frequency { core, index: 1 } if self.rounds => {
                Some(Step::Frequency { core, index: 2 })
            }
            step => Some(step),
        }
    }
}

/// Two cards: the table of the second cannot be written for a while.
struct Cards {
    platform: Platform,
    refuses: bool,
    tables: [CoreSet; 2],
    parked: CoreSet,
}

impl Actuator for Cards {
    fn platform(&self) -> &Platform {
        &self.platform
    }
    fn take(&mut self, _: Time, step: &Step) -> Taken {
        match *step {
            Step::Redirect { active } => {
                self.tables[0] = active;
                if self.refuses {
                    return Taken::Failed { why: "the second card refuses".into() };
                }
                self.tables[1] = active;
            }
            Step::Wake { core } => self.parked.remove(core),
            Step::Park { core } => {
                assert!(!self.reach().contains(core), "packets come to a core that is parked");
                self.parked.insert(core);
            }
            _ => {}
        }
        Taken::Done
    }
    fn held(&mut self, step: &Step) -> Option<Step> {
        matches!(step, Step::Redirect { .. }).then(|| Step::Redirect { active: self.reach() })
    }
    fn tables_differ(&self) -> bool {
        self.tables[0] != self.tables[1]
    }
}

impl Cards {
    fn reach(&self) -> CoreSet {
        self.tables[0].union(self.tables[1])
    }
}

/// A core that some card still sends to is not parked, whatever the policy requests next. The
/// tables agree again once the second card answers, without another request of the policy.
#[test]
fn failing_table_of_two_costs_no_packet_and_is_tried_again() {
    let platform = platform();
    let full = OperatingPoint::full(&platform);
    for (from, to, then) in [(1, 3, 1), (3, 1, 3), (1, 3, 3), (3, 1, 1), (2, 4, 1)] {
        let mut start = full.clone();
        start.active = CoreSet::first(from);
        let tables = [CoreSet::first(from); 2];
        let parked = CoreSet::first(4).without(start.active);
        let mut cards = Cards { platform: platform.clone(), refuses: true, tables, parked };
        let mut transition = Transition::new(&platform, start.clone(), Pace::FREE);
        let mut wanted = start;
        for (micros, cores) in [(0, to), (1, then), (200, then)] {
            wanted.active = CoreSet::first(cores);
            transition.go(at(micros), &mut cards, &mut wanted);
            assert_eq!(transition.point().active, cards.reach(), "{from} {to} {then}");
        }
        cards.refuses = false;
        let differed = cards.tables_differ();
        assert!(!differed || transition.due() < Time::NEVER, "it goes on by itself");
        // After the longest rest.
        transition.go_on(at(2_000_000), &mut cards);
        assert!(!cards.tables_differ(), "{from} {to} {then}");
        assert_eq!(transition.point().active, cards.reach());
        wanted.active = CoreSet::first(then);
        transition.go(at(3_000_000), &mut cards, &mut wanted);
        assert_eq!((cards.tables, transition.due()), ([CoreSet::first(then); 2], Time::NEVER));
        assert!(cards.parked.intersection(CoreSet::first(then)).is_empty());
    }
}

/// Point, target and counters hold the actual values, not the requested ones, and the same request
/// is not repeated.
#[test]
fn point_follows_the_machines_answer_to_a_step() {
    let mut actuator = FakeActuator { rounds: true, ..FakeActuator::new() };
    let full = OperatingPoint::full(&actuator.platform);
    let mut transition = Transition::new(&actuator.platform, full.clone(), Pace::FREE);
    for micros in [0, 1] {
        let mut wanted = full.clone();
        wanted.set_frequency(1);
        transition.go(at(micros), &mut actuator, &mut wanted);
        assert_eq!((transition.point(), transition.target()), (&full, &full));
        assert_eq!(wanted, full, "the policy's view");
        assert_eq!(actuator.frequencies(), 4, "each core once");
    }
    assert_eq!(transition.ledger().sums(), (4, 4, 0));
    assert_eq!(transition.changes().frequencies, 0);
}

#[test]
fn slow_step_delays_later_ones_and_a_new_request_starts_from_its_result() {
    let mut actuator = FakeActuator::new();
    actuator.slow.insert("cores", Span::from_micros(10));
    let mut full = OperatingPoint::full(&actuator.platform);
    full.set_frequency(1);
    full.active = CoreSet::only(0);
    let mut transition = Transition::new(&actuator.platform, full.clone(), Pace::FREE);
    let mut wanted = full.clone();
    wanted.active = CoreSet::first(3);
    wanted.set_frequency(2);
    transition.go(at(0), &mut actuator, &mut wanted);
    assert_eq!(actuator.taken.last(), Some(&(at(0), Step::Wake { core: 1 })));
    assert_eq!((transition.due(), transition.point().active), (at(10), CoreSet::only(0)));
    assert_eq!(transition.target().active, CoreSet::first(3), "the policy sees where it goes");
    // Too early: nothing. Meanwhile the policy requests core 1 only.
    transition.go_on(at(5), &mut actuator);
    wanted.active = CoreSet::only(1);
    transition.go(at(6), &mut actuator, &mut wanted);
    assert_eq!(actuator.taken.len(), 5, "4 frequencies, one wake");
    for micros in [10, 20, 30] {
        assert_eq!(transition.due(), at(micros));
        transition.go_on(at(micros), &mut actuator);
    }
    let rest: Vec<Step> = actuator.taken[5..].iter().map(|(_, step)| *step).collect();
    assert_eq!(rest, [Step::Redirect { active: CoreSet::only(1) }, Step::Park { core: 0 }]);
    assert_eq!((transition.point(), transition.due()), (&wanted, Time::NEVER));
}

#[test]
fn steps_beyond_the_budget_come_later_and_more_capacity_first() {
    let mut actuator = FakeActuator::new();
    let full = OperatingPoint::full(&actuator.platform);
    let budget = Budget { writes_per_second: 1_000.0, burst_writes: 6.0 };
    let pace = Pace { budget: Some(budget), ..Pace::FREE };
    let mut transition = Transition::new(&actuator.platform, full.clone(), pace);
    let mut slow = full.clone();
    slow.set_frequency(0);
    transition.go(at(0), &mut actuator, &mut slow);
    assert_eq!(actuator.frequencies(), 3, "half of the budget is kept");
    assert_eq!(transition.point().cores[3].frequency, 2);
    assert_eq!(transition.due(), at(1_000));
    // Up again at once, from the reserved half.
    let mut fast = full.clone();
    transition.go(at(1), &mut actuator, &mut fast);
    assert_eq!((transition.point(), transition.due()), (&full, Time::NEVER));
    // And down in the end, without another request.
    transition.go(at(2), &mut actuator, &mut slow);
    let mut now = at(2);
    while transition.due() != Time::NEVER {
        assert!(transition.due() > now, "time goes on");
        now = transition.due();
        transition.go_on(now, &mut actuator);
    }
    assert_eq!(transition.point(), &slow);
    let spent = actuator.taken.len() as f64 - 6.0;
    assert!(now >= at((spent * 1_000.0) as u64) && now < at(13_000), "{now:?}");
}

#[test]
fn dwelling_knob_is_turned_once_to_the_latest_request() {
    let mut actuator = FakeActuator::new();
    let full = OperatingPoint::full(&actuator.platform);
    let mut pace = Pace::FREE;
    pace.dwell[Knob::Batch as usize] = Span::from_micros(100);
    let mut transition = Transition::new(&actuator.platform, full.clone(), pace);
    let mut wanted = full;
    for packets in 1..=50 {
        wanted.batch = packets;
        transition.go(at(packets.into()), &mut actuator, &mut wanted);
        assert_eq!(wanted.batch, packets, "the policy sees its request");
    }
    assert_eq!((transition.point().batch, transition.due()), (1, at(101)));
    transition.go_on(at(101), &mut actuator);
    assert_eq!((transition.point().batch, actuator.taken.len()), (50, 2));
    assert_eq!(transition.due(), Time::NEVER);
}

/// A simulated machine that may break its promises.
struct Promises {
    platform: Platform,
    breaks: &'static str,
    now: Time,
}

impl Machine for Promises {
    fn platform(&self) -> &Platform {
        &self.platform
    }
    fn now(&self) -> Time {
        self.now
    }
    fn observe(&mut self, now: Time, view: &mut View) {
        self.now = now;
        let latency = LatencyView { samples: 1, ..LatencyView::default() };
        let shows = self.breaks != "latency" && view.looks.latency;
        view.latency = shows.then_some(latency);
        view.entries.clear();
        if self.breaks == "entries" {
            view.entries.push(1);
        }
    }
    fn take(&mut self, step: &Step) -> Taken {
        match step {
            Step::Batch { .. } if self.breaks == "batch" => Taken::Failed { why: "no".into() },
            _ => Taken::Done,
        }
    }
    fn pace(&self) -> Pace {
        let budget = Budget { writes_per_second: 1e6, burst_writes: 4.0 };
        Pace { budget: Some(budget), ..Pace::FREE }
    }
}

fn findings(breaks: &'static str) -> Findings {
    let mut platform = platform();
    platform.can.sees = Sees { latency: true, ..Sees::NOTHING };
    platform.can.waits.pause = false;
    let period = Span::from_millis(1);
    let circumstances = Circumstances { period, traffic: false, follows: Follows::NOTHING };
    let (policy, findings) = probe(&platform, circumstances);
    let mut governor = Governor::new(Promises { platform, breaks, now: Time::ZERO }, policy);
    governor.start(Time::ZERO);
    while !findings.are_complete() {
        let due = governor.ask().at;
        assert!(governor.trigger(due, Trigger::Timer));
        if breaks == "questions" {
            governor.trigger(due, Trigger::Fill { queue: 0 });
        }
    }
    findings
}

#[test]
fn kept_promises_conform_and_broken_ones_are_found() {
    assert_eq!(findings("").complaints(), Vec::<String>::new());
    for (breaks, complaint) in [
        ("latency", "latency: promised, and never shown"),
        ("entries", "entries: denied, and shown"),
        ("batch", "batch: promised, and the point is"),
    ] {
        let complaints = findings(breaks).complaints();
        assert!(complaints.iter().any(|one| one.contains(complaint)), "{breaks}: {complaints:?}");
    }
    // Unrequested questions never reach a policy. A policy that asked for a
    // level notices a call at a level that was not reached.
    let complaints = findings("questions").complaints();
    let complaint = "Fill: was asked 1 times at a fill level that cannot have been";
    assert_eq!(complaints, [complaint]);
}

/// Deferred steps are requested through the governor's own next time.
#[test]
fn governor_takes_deferred_steps_between_two_decisions() {
    let machine = Promises { platform: platform(), breaks: "", now: Time::ZERO };
    let mut odd = false;
    let changes_everything = policy(Looks::WHOLE, move |seen, point| {
        odd = !odd;
        point.set_active(if odd { 1 } else { 4 }, 0, 1);
        point.set_frequency(usize::from(odd));
        point.weights[0] = 1 + u8::from(odd);
        AskAgain::at(seen.now + Span::from_micros(10))
    });
    let mut governor = Governor::new(machine, changes_everything);
    governor.start(Time::ZERO);
    let mut carried = 0;
    for _ in 0..1_000 {
        let due = governor.ask().at;
        let decisions = governor.loop_totals(due).decisions;
        assert!(governor.trigger(due, Trigger::Timer), "never in vain");
        carried += u64::from(governor.loop_totals(due).decisions == decisions);
    }
    assert!(carried > 100, "{carried}");
    let steps = governor.loop_totals(Time::ZERO).steps as f64;
    let seconds = governor.ask().at.as_seconds();
    assert!(steps <= 4.0 + 1e6 * seconds + 1.0, "{steps} in {seconds} s");
}
