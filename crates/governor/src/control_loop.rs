//! Decide and act: the part of the control loop that is the same on every machine. The caller,
//! which has the clock and the machine, observes and accounts.

use super::decisions::{Decision, Decisions};
use super::lease::{Lease, Wanted};
use super::ledger::Ledger;
use super::pace::Pace;
use super::transition::{Actuator, Changes, Transition};
use wattline_policy::{AskAgain, Observation, OperatingPoint, Platform, Policy, Reason, Trigger};
use wattline_units::{Span, Time};

/// Reason of a point that a client holds.
const HELD: Reason = Reason { words: "a client holds it over the socket", rate: None, phase: None };

/// A policy, and the machine's transition to its operating point.
pub struct ControlLoop {
    policy: Box<dyn Policy>,
    wanted: OperatingPoint,
    /// Transition from the present operating point to the policy's.
    transition: Transition,
    /// Next events at which the policy asks to be called.
    ask_again: AskAgain,
    /// Point that a client holds in place of the policy's, and the policy's.
    lease: Option<(Lease, OperatingPoint)>,
    /// Decisions so far.
    count: u64,
    changes: Decisions,
}

impl ControlLoop {
    /// Creates a loop for a machine at `point` that may be set at this pace. It keeps the last
    /// `keeps` changes for users.
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
            ask_again: AskAgain::NEVER,
            lease: None,
            count: 0,
            changes: Decisions::keeping(keeps),
        }
    }

    /// Calls the policy, unless a client holds the point. Returns true if it requests another
    /// operating point, to which [`Self::act`] leads. After a lease, the policy restarts.
    pub fn decide(&mut self, seen: &Observation<'_>) -> bool {
        let mut seen = *seen;
        let now = seen.now;
        if let Some((_, before)) = self.lease.take_if(|(lease, _)| now >= lease.until) {
            self.wanted = before;
            seen.trigger = Trigger::Start;
        }
        self.ask_again = match &self.lease {
            Some((lease, _)) => {
                lease.apply(seen.platform, &mut self.wanted);
                AskAgain::at(lease.until)
            }
            None => self.policy.decide(&seen, &mut self.wanted),
        };
        if self.ask_again.at <= now {
            // The policy asks to be called at once: at the next moment.
            self.ask_again.at = now + Span::from_picos(1);
        }
        self.count += 1;
        let changes = self.wanted != *self.transition.target();
        if changes || seen.trigger == Trigger::Start {
            let reason = match &self.lease {
                Some(_) => Some(HELD),
                None => self.policy.reason(),
            };
            self.changes.note(now, seen.trigger, seen.platform, &self.wanted, reason);
        }
        changes
    }

    /// Goes to the operating point that the policy requested, as far as the machine can.
    pub fn act(&mut self, now: Time, machine: &mut impl Actuator) {
        self.transition.go(now, machine, &mut self.wanted);
    }

    /// Takes the deferred steps. To be called when they are due ([`Self::due`]).
    pub fn carry_on(&mut self, now: Time, machine: &mut impl Actuator) {
        self.transition.go_on(now, machine);
        self.wanted.copy_from(self.transition.target());
    }

    /// Lets a client hold a point from the next decision on.
    ///
    /// # Errors
    /// Fails when another client holds a point, or when the machine has no such point.
    pub fn hold(&mut self, now: Time, wanted: &Wanted, platform: &Platform) -> Result<(), String> {
        self.check_owner(now, &wanted.owner)?;
        let lease = Lease::new(wanted, platform, now)?;
        let before = self.lease.take().map_or_else(|| self.wanted.clone(), |(_, before)| before);
        self.lease = Some((lease, before));
        Ok(())
    }

    /// Ends a client's lease with the next decision.
    ///
    /// # Errors
    /// Fails when another client holds the point.
    pub fn release(&mut self, now: Time, owner: &str) -> Result<(), String> {
        self.check_owner(now, owner)?;
        self.lease.iter_mut().for_each(|(lease, _)| lease.until = now);
        Ok(())
    }

    fn check_owner(&self, now: Time, owner: &str) -> Result<(), String> {
        match &self.lease {
            Some((lease, _)) if lease.owner != owner && now < lease.until => Err(format!(
                "{:?} holds the operating point: it ends that, or stays silent for another {:.1} s",
                lease.owner,
                lease.until.since(now).as_seconds()
            )),
            _ => Ok(()),
        }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// Returns the next events at which the policy asks to be called.
    pub fn ask_again(&self) -> &AskAgain {
        &self.ask_again
    }

    /// Returns the time at which deferred steps can be taken; [`Time::NEVER`] if there are none.
    pub fn due(&self) -> Time {
        self.transition.due()
    }

    /// Returns the present operating point.
    pub fn point(&self) -> &OperatingPoint {
        self.transition.point()
    }

    /// Returns the operating point that the policy requested, less the values that the machine
    /// refused.
    pub fn target(&self) -> &OperatingPoint {
        self.transition.target()
    }

    /// Returns the number of decisions so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the last changes, with their reasons, without the first `seen` of the run.
    pub fn changes(&self, seen: u64, platform: &Platform) -> Vec<Decision> {
        self.changes.after(seen, platform)
    }

    /// Returns the results of the steps.
    pub fn ledger(&self) -> &Ledger {
        self.transition.ledger()
    }

    /// Returns the changes of the machine's state so far.
    pub fn state_changes(&self) -> Changes {
        self.transition.changes()
    }
}
