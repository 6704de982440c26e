//! Decide and act: the part of the control loop that is the same on every machine. Whoever has the
//! time and the machine observes, and accounts.

use super::decisions::{Decision, Decisions};
use super::ledger::Ledger;
use super::pace::Pace;
use super::transition::{Actuator, Changes, Transition};
use wattline_policy::{AskAgain, Observation, OperatingPoint, Platform, Policy, Trigger};
use wattline_units::{Span, Time};

/// A policy, and the way of a machine to the operating point that it wants.
pub struct ControlLoop {
    policy: Box<dyn Policy>,
    wanted: OperatingPoint,
    /// From the present operating point to the one that the policy wants.
    transition: Transition,
    /// When the policy wants to be asked.
    wishes: AskAgain,
    /// Decisions so far.
    count: u64,
    changes: Decisions,
}

impl ControlLoop {
    /// A loop for a machine that is at `point` and may be set at this pace. It keeps the last `keeps`
    /// changes for people.
    pub fn new(
        policy: Box<dyn Policy>,
        platform: &Platform,
        point: OperatingPoint,
        pace: Pace,
        keeps: usize,
    ) -> Self {
        Self {
            policy,
            wanted: point.clone(),
            transition: Transition::new(platform, point, pace),
            wishes: AskAgain::NEVER,
            count: 0,
            changes: Decisions::keeping(keeps),
        }
    }

    /// Asks the policy. Returns true if it wants another operating point, to which [`Self::act`] leads.
    pub fn decide(&mut self, now: Time, seen: &Observation<'_>) -> bool {
        self.wishes = self.policy.decide(now, seen, &mut self.wanted);
        if self.wishes.at <= now {
            // The policy wants to be asked at once: at the next moment.
            self.wishes.at = now + Span::from_picos(1);
        }
        self.count += 1;
        let changes = self.wanted != *self.transition.target();
        if changes || seen.trigger == Trigger::Start {
            let reason = self.policy.reason();
            self.changes.note(now, seen.trigger, seen.platform, &self.wanted, reason);
        }
        changes
    }

    /// Goes over to the operating point that the policy wants, as far as the machine can.
    pub fn act(&mut self, now: Time, machine: &mut impl Actuator) {
        self.transition.go(now, machine, &mut self.wanted);
    }

    /// Takes the steps that were put off. To be called when they are due ([`Self::due`]).
    pub fn carry_on(&mut self, now: Time, machine: &mut impl Actuator) {
        self.transition.go_on(now, machine);
        self.wanted.copy_from(self.transition.target());
    }

    /// Returns the policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// When the policy wants to be asked.
    pub fn wishes(&self) -> &AskAgain {
        &self.wishes
    }

    /// When steps that were put off can be taken; [`Time::NEVER`] if there are none.
    pub fn due(&self) -> Time {
        self.transition.due()
    }

    /// The present operating point.
    pub fn point(&self) -> &OperatingPoint {
        self.transition.point()
    }

    /// The operating point that the policy wants, less what the machine refused.
    pub fn target(&self) -> &OperatingPoint {
        self.transition.target()
    }

    /// Number of decisions so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The last changes, with their reasons; the first `seen` ones of the run are left out.
    pub fn changes(&self, seen: u64, platform: &Platform) -> Vec<Decision> {
        self.changes.after(seen, platform)
    }

    /// Results of the steps.
    pub fn ledger(&self) -> &Ledger {
        self.transition.ledger()
    }

    /// Changes of the machine's state so far.
    pub fn state_changes(&self) -> Changes {
        self.transition.changes()
    }
}
