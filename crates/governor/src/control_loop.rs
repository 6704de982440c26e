//! Decide and act: the part of the control loop that is the same on every machine. Whoever has the
//! time and the machine observes, and accounts.

use super::decisions::{Decision, Decisions};
use super::lease::{Lease, Wanted};
use super::ledger::Ledger;
use super::pace::Pace;
use super::transition::{Actuator, Changes, Transition};
use wattline_policy::{AskAgain, Observation, OperatingPoint, Platform, Policy, Reason, Trigger};
use wattline_units::{Span, Time};

/// Reason of a point that a client holds.
const HELD: Reason = Reason { words: "a client holds it over the socket", rate: None, phase: None };

/// A policy, and the way of a machine to the operating point that it wants.
pub struct ControlLoop {
    policy: Box<dyn Policy>,
    wanted: OperatingPoint,
    /// From the present operating point to the one that the policy wants.
    transition: Transition,
    /// When the policy wants to be asked.
    wishes: AskAgain,
    /// Point that a client holds in place of the policy's, and the policy's.
    lease: Option<(Lease, OperatingPoint)>,
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
            lease: None,
            count: 0,
            changes: Decisions::keeping(keeps),
        }
    }

    /// Asks the policy, unless a client holds the point. Returns true if it wants another operating
    /// point, to which [`Self::act`] leads. After a lease, the policy begins anew.
    pub fn decide(&mut self, seen: &Observation<'_>) -> bool {
        let mut seen = *seen;
        let now = seen.now;
        if let Some((_, before)) = self.lease.take_if(|(lease, _)| now >= lease.until) {
            self.wanted = before;
            seen.trigger = Trigger::Start;
        }
        self.wishes = match &self.lease {
            Some((lease, _)) => {
                lease.apply(seen.platform, &mut self.wanted);
                AskAgain::at(lease.until)
            }
            None => self.policy.decide(&seen, &mut self.wanted),
        };
        if self.wishes.at <= now {
            // The policy wants to be asked at once: at the next moment.
            self.wishes.at = now + Span::from_picos(1);
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

    /// Goes over to the operating point that the policy wants, as far as the machine can.
    pub fn act(&mut self, now: Time, machine: &mut impl Actuator) {
        self.transition.go(now, machine, &mut self.wanted);
    }

    /// Takes the steps that were put off. To be called when they are due ([`Self::due`]).
    pub fn carry_on(&mut self, now: Time, machine: &mut impl Actuator) {
        self.transition.go_on(now, machine);
        self.wanted.copy_from(self.transition.target());
    }

    /// Lets a client hold a point from the next decision on.
    ///
    /// # Errors
    /// Fails when another one holds a point, or when the machine has no such point.
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
