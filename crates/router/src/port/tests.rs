//! Events of a port in any order, with actions that may fail: no frame that has to be judged passes
//! unjudged, and no program or socket stays behind. The same checks find each of the planted
//! defects, which once were real.

use super::action::Action;
use super::guard::{Guard, Passage};
use super::link_reason;
use super::machine::{Event, Life, State, next};
use crate::queues::Unserved;
use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use std::collections::VecDeque;
use wattline_status::PortState;

#[test]
fn missing_carrier_and_interface_set_down_differ() {
    let (down, carrier) =
        (link_reason(PortState::Down, "eth0"), link_reason(PortState::NoCarrier, "eth0"));
    assert!(down.is_some_and(|it| it.contains("`ip link set dev eth0 up`")));
    assert!(carrier.is_some_and(|it| it.contains("eth0 has no carrier")));
    assert_eq!(link_reason(PortState::Up, "eth0"), None);
}

/// Number of cases in which the machine has to hold, and each planted defect has to be found.
const CASES: u32 = 8192;

/// The system as far as one port acts on it.
#[derive(Debug, Clone, Default)]
struct World {
    has_interface: bool,
    is_loaded: bool,
    /// True if the program is attached to the present interface.
    is_attached: bool,
    is_guarded: bool,
    egress: bool,
    sockets_open: bool,
    /// True if the program has the sockets.
    sockets_set: bool,
    offered: bool,
    workers_have_queues: bool,
    /// True if the tables contain the port; `leads` if they also send to it, `published` if the
    /// workers have such tables.
    listed: bool,
    leads: bool,
    published: bool,
    /// True once the start or the reload that added the port is over.
    in_force: bool,
    /// True if the program was detached from an interface that still exists.
    is_exposed: bool,
}

impl World {
    /// Fate of a frame for others that the interface receives now.
    fn passage(&self) -> Passage {
        match self {
            Self { has_interface: false, .. } => Passage::Blocked,
            Self { is_attached: false, .. } => Passage::Passes,
            Self { sockets_set: true, .. } => Passage::Judged,
            Self { is_guarded: true, .. } => Passage::Blocked,
            _ => Passage::Passes,
        }
    }

    /// Takes an action. Returns an error if it fails; actions that cannot fail, or whose failure
    /// does not prevent the effect, still have their effect.
    fn take(&mut self, action: Action, fails: bool) -> Result<(), Unserved> {
        let fails = fails || (matches!(action, Action::Attach { .. }) && !self.has_interface);
        match action {
            Action::Attach { blocked } => {
                self.is_guarded |= blocked && (self.is_loaded || !fails);
                self.is_loaded |= !fails;
                self.is_exposed = false;
                (self.is_attached, self.sockets_set) = (!fails, false);
            }
            Action::Detach => {
                self.is_exposed = self.is_attached;
                (self.is_attached, self.sockets_set) = (false, false);
            }
            Action::Unload => {
                (self.is_loaded, self.is_attached, self.is_guarded) = (false, false, false);
                (self.sockets_set, self.egress, self.leads) = (false, false, false);
            }
            Action::CloseEgress => self.egress = false,
            Action::Offer => self.offered = true,
            Action::List => (self.listed, self.leads) = (true, true),
            Action::Retire => self.leads = false,
            Action::Unlist | Action::Forget => (self.listed, self.leads) = (false, false),
            Action::Close | Action::TakeAway { .. } => {
                (self.sockets_open, self.sockets_set) = (false, false);
                (self.offered, self.workers_have_queues) = (false, false);
            }
            Action::Empty | Action::Cover => {}
            _ if fails => {}
            Action::Guard => self.is_guarded |= self.is_loaded,
            Action::OpenEgress => self.egress = true,
            Action::OpenSockets => self.sockets_open = true,
            Action::SetSockets => self.sockets_set = self.is_attached && self.sockets_open,
            Action::ClearSockets => self.sockets_set = false,
        }
        if fails { Err(Unserved::Failed("planted".to_owned())) } else { Ok(()) }
    }
}

/// Step of a case.
#[derive(Debug, Clone)]
enum Step {
    /// The router reports an event, unless it never does so in this state of the system.
    Report(Event),
    InterfaceGoes,
    InterfaceReturns,
    WorkersTake,
    /// The workers get the tables.
    Commit,
}

fn steps() -> impl Strategy<Value = Vec<(Step, u8)>> {
    let report = |event: Event| Just(Step::Report(event));
    let why = || Unserved::Absent("planted".to_owned());
    let step = prop_oneof![
        3 => report(Event::Attach),
        3 => report(Event::OpenSockets),
        3 => report(Event::Begin),
        3 => report(Event::Return),
        1 => report(Event::Missing(why())),
        6 => report(Event::Taken),
        1 => report(Event::Leave("planted".to_owned())),
        1 => report(Event::Release),
        1 => report(Event::Recount),
        2 => report(Event::Empty),
        2 => report(Event::GiveUp),
        3 => report(Event::Hold { attached: false }),
        1 => report(Event::Remove),
        1 => Just(Step::InterfaceGoes),
        2 => Just(Step::InterfaceReturns),
        4 => Just(Step::WorkersTake),
        4 => Just(Step::Commit),
    ];
    // Failures of the actions that follow, one bit each.
    let failures = prop_oneof![3 => Just(0), 1 => any::<u8>()];
    prop::collection::vec((step, failures), 1..60)
}

/// Error of an actuator or a machine: changes the actions that follow an event in a state.
type Defect = fn(&State, &Event, &mut Vec<Action>);

struct Run {
    life: Life,
    world: World,
    defect: Defect,
    failures: u8,
    /// True if the program could not be guarded, which the next `Hold` repairs.
    has_failed: bool,
}

impl Run {
    fn next(&mut self, event: Event) -> VecDeque<Action> {
        let state = self.life.state.clone();
        let mut actions = next(&mut self.life, event.clone());
        (self.defect)(&state, &event, &mut actions);
        actions.into()
    }

    /// Reports an event, and takes the actions as the actuator does.
    fn apply(&mut self, event: Event) -> Result<(), String> {
        let mut actions = self.next(event);
        while let Some(action) = actions.pop_front() {
            let fails = self.failures & 1 == 1;
            self.failures >>= 1;
            if let Err(why) = self.world.take(action, fails) {
                self.has_failed = true;
                let instead = self.next(Event::Failed(action, why));
                if !instead.is_empty() {
                    actions = instead;
                }
            }
            self.check(&format!("{action:?}"), false)?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, failures: u8) -> Result<(), String> {
        self.failures = failures;
        let (state, world) = (&self.life.state, &self.world);
        match step {
            Step::Report(event) => {
                let is_published = *state != State::Listed || world.published;
                let happens = match event {
                    Event::Attach => world.has_interface && !world.in_force,
                    Event::Begin => world.sockets_open,
                    Event::Return => world.has_interface,
                    Event::Taken => world.workers_have_queues && is_published,
                    Event::Remove => world.in_force || *state == State::Open,
                    _ => true,
                };
                match event {
                    Event::Hold { .. } => self.hold()?,
                    event if happens => self.apply(event.clone())?,
                    _ => {}
                }
            }
            Step::InterfaceGoes => {
                // The kernel takes program and sockets with it.
                self.world.has_interface = false;
                (self.world.is_attached, self.world.sockets_set) = (false, false);
                if self.life.state.has_interface() {
                    self.apply(Event::Lose(Unserved::Absent("planted".to_owned())))?;
                }
            }
            Step::InterfaceReturns => self.world.has_interface = true,
            Step::WorkersTake => {
                self.world.workers_have_queues |= std::mem::take(&mut self.world.offered);
            }
            Step::Commit => self.world.published = self.world.listed,
        }
        self.check(&format!("{step:?}"), true)
    }

    fn hold(&mut self) -> Result<(), String> {
        let state = &self.life.state;
        if matches!(state, State::Open | State::Removed) {
            return Ok(());
        }
        (self.world.in_force, self.has_failed) = (true, false);
        let attached = self.world.is_attached || state.has_interface();
        let event = if self.world.has_interface { Event::Hold { attached } } else { Event::Vanish };
        self.apply(event)
    }

    /// Checks conditions that hold after each action; `done` is true after the last.
    fn check(&self, after: &str, done: bool) -> Result<(), String> {
        let Self { life: Life { state, guard, is_blocked }, world, .. } = self;
        let wrong = |text: &str| Err(format!("{text} after {after}: {state:?}, {world:?}"));
        let is_judged = guard.is_guarded() && world.in_force;
        let is_known = world.is_attached || world.is_exposed;
        let passes = is_known && world.passage() == Passage::Passes;
        if is_judged && passes && (done && *is_blocked || !self.has_failed) {
            return wrong("a frame passes unjudged");
        }
        let is_ready = world.published && world.workers_have_queues;
        if state.has_interface() && world.sockets_set && !is_ready {
            return wrong("the program has sockets before the workers have queues and tables");
        }
        Ok(())
    }

    /// Leaves the system alone without further failures, and checks the state in which it ends.
    fn check_settled(&mut self) -> Result<(), String> {
        for _ in 0..3 {
            for event in
                [Event::Taken, Event::Empty, Event::GiveUp, Event::Hold { attached: false }]
            {
                self.step(&Step::Report(event), 0)?;
            }
            self.step(&Step::WorkersTake, 0)?;
            self.step(&Step::Commit, 0)?;
        }
        let Self { life: Life { state, guard, .. }, world, .. } = &*self;
        let wrong = |text: &str| Err(format!("{text}: {state:?}, {world:?}"));
        let admission = if let State::Up(admission) = state { Some(*admission) } else { None };
        let passage = guard.passage(admission);
        let passes = [passage, world.passage()].contains(&Passage::Passes);
        if guard.is_guarded() && world.in_force && *state != State::Removed && passes {
            return wrong("a frame passes unjudged");
        }
        match state {
            State::Open => Ok(()),
            State::Up(_) if world.sockets_set && world.published => Ok(()),
            State::Without(_) | State::Removed => {
                let is_blocked = *state != State::Removed && world.in_force && world.is_guarded;
                let is_attached = world.is_attached && !is_blocked;
                let is_known = world.listed || world.leads || world.published;
                let is_open = world.sockets_open || world.offered || world.workers_have_queues;
                match is_attached || is_known || is_open || world.egress {
                    true => wrong("something stays behind"),
                    false => Ok(()),
                }
            }
            _ => wrong("the port does not settle"),
        }
    }
}

fn run(steps: &[(Step, u8)], guard: &Guard, defect: Defect) -> Result<(), String> {
    let life = Life::new(guard.clone());
    let world = World { has_interface: true, ..World::default() };
    let mut run = Run { life, world, defect, failures: 0, has_failed: false };
    for (step, failures) in steps {
        run.step(step, *failures)?;
    }
    run.check_settled()
}

/// Runs all cases with a guard and without, and returns the first that is wrong.
fn first_wrong(defect: Defect) -> Option<String> {
    let guards = [Guard::default(), Guard { judges: Some("[ipsec]".to_owned()) }];
    let settings =
        ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(CASES) };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(settings, rng).run(&steps(), |steps| {
        let runs = guards.iter().map(|guard| run(&steps, guard, defect));
        runs.collect::<Result<(), String>>().map_err(TestCaseError::fail)
    });
    outcome.err().map(|error| error.to_string())
}

#[test]
fn no_frame_passes_unjudged_and_nothing_stays_behind() {
    assert_eq!(first_wrong(|_, _, _| {}), None);
}

#[test]
fn planted_defects_are_found() {
    let defects: [(&str, Defect); 7] = [
        ("a guard is opened before its tables", |_, event, actions| {
            if *event == Event::Begin {
                actions.push(Action::SetSockets);
            }
        }),
        ("a port is taken back before its address is known", |state, event, actions| {
            if (state, event) == (&State::Offered, &Event::Taken) {
                actions.push(Action::SetSockets);
            }
        }),
        ("a group is led behind a closed port", |_, _, actions| {
            actions.retain(|it| !matches!(it, Action::Unlist | Action::Retire));
        }),
        ("a reload is half taken", |state, event, actions| {
            if let (State::Open, Event::Failed(..)) = (state, event) {
                actions.clear();
            }
        }),
        ("a port returns without its guard", |_, event, actions| {
            if let (Event::Return, Some(attach)) = (event, actions.first_mut()) {
                *attach = Action::Attach { blocked: false };
            }
        }),
        ("a port is left without its guard", |_, event, actions| {
            if let (Event::Leave(_), Some(place)) =
                (event, actions.iter().position(|it| *it == Action::ClearSockets))
            {
                actions[place] = Action::Detach;
            }
        }),
        ("a removed port keeps its program", |_, event, actions| {
            if *event == Event::Remove {
                actions.retain(|it| *it != Action::Unload);
            }
        }),
    ];
    for (name, defect) in defects {
        assert!(first_wrong(defect).is_some(), "{name}");
    }
}
