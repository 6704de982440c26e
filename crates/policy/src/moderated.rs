//! Any policy with a moderation chosen by the caller: `ondemand+dim`, `performance+84us`.
//!
//! The kernel's governors do not know the card; its driver moderates independently. So they are
//! compared in combination with the driver's rule, or with a fixed period.

use crate::moderation::RuleKind;
use crate::{AskAgain, BuildContext, Looks, Observation, OperatingPoint, Policy, Reason};
use wattline_units::Span;

/// Texts allowed after the `+`.
pub const ALLOWED: &str = "ixgbe, ixgbe-classic, dim or a duration such as 84us";

/// Moderation of all queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// A constant period.
    Fixed(Span),
    /// A rule of the driver.
    Driver(RuleKind),
}

impl Choice {
    /// Reads the part of a policy's text after the `+`.
    pub fn parse(text: &str) -> Option<Self> {
        let rule = RuleKind::ALL.into_iter().find(|rule| rule.name() == text);
        rule.map(Self::Driver).or_else(|| text.parse().ok().map(Self::Fixed))
    }
}

struct Moderated {
    policy: Box<dyn Policy>,
    choice: Choice,
}

/// Builds the policy with that moderation.
///
/// # Errors
/// Fails if the platform cannot moderate in this way.
pub fn make(
    policy: Box<dyn Policy>,
    choice: Choice,
    context: &BuildContext<'_>,
) -> Result<Box<dyn Policy>, String> {
    let platform = context.platform;
    match choice {
        Choice::Driver(rule) if !platform.can.driver_rules => Err(needs_simulated_driver(rule)),
        Choice::Fixed(period) => {
            let (shortest, longest) = platform.moderation;
            if (shortest..=longest).contains(&period) {
                return Ok(Box::new(Moderated { policy, choice }));
            }
            let micros = |span: Span| span.as_seconds() * 1e6;
            let (asked, from, to) = (micros(period), micros(shortest), micros(longest));
            Err(format!("moderation = {asked} us: the platform allows {from} us to {to} us"))
        }
        Choice::Driver(_) => Ok(Box::new(Moderated { policy, choice })),
    }
}

/// Returns the reason why this driver rule works on no real machine, and an alternative.
pub fn needs_simulated_driver(rule: RuleKind) -> String {
    format!(
        "moderation = \"{rule}\": this rule decides at each interrupt, which only a simulated \
         driver lets us do (`wattline sim --requests`); on a machine leave its card to its own \
         driver (no +{rule}, moderation not among the knobs, `ethtool -C NAME adaptive-rx on`), or \
         give a duration such as 84us"
    )
}

impl Policy for Moderated {
    fn looks_at(&self) -> Looks {
        self.policy.looks_at()
    }
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let ask = self.policy.decide(seen, point);
        if let Choice::Fixed(period) = self.choice {
            point.set_moderation(seen.platform, period);
        }
        ask
    }
    fn driver_rule(&self, _queue: usize) -> Option<RuleKind> {
        match self.choice {
            Choice::Driver(rule) => Some(rule),
            Choice::Fixed(_) => None,
        }
    }
    fn reason(&self) -> Option<Reason> {
        self.policy.reason()
    }
    fn remark(&self) -> Option<String> {
        self.policy.remark()
    }
}
