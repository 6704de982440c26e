//! Common part of polling data planes: each core separately, with a wait between polls.

use super::fixed::{self, Fixed};
use std::num::NonZeroU32;
use wattline_policy::{
    AskAgain, BuildContext, CoreSet, Observation, OperatingPoint, Parameters, Platform, Policy,
    Trigger, Wait,
};
use wattline_units::{Span, Time};

/// Rule for the next wait of a core.
pub(super) trait PollRule: Send {
    /// Number of empty polls in a row after which [`Self::nothing`] is called; repeated after every
    /// further such number.
    const EMPTY_POLLS: u32;

    /// Called after the core took `taken` packets from a queue that held `fill`.
    fn packets(&mut self, now: Time, core: usize, taken: u32, fill: u32) -> Wait;

    /// Called after the core found its queues empty [`Self::EMPTY_POLLS`] times in a row.
    fn nothing(&mut self, now: Time, core: usize) -> Wait;
}

/// Applies a fixed operating point at the start, then a rule to each core separately.
pub(super) struct Polling<R> {
    start: Fixed,
    batch: u32,
    rule: R,
}

impl<R: PollRule> Polling<R> {
    /// Starts with the given number of cores at the fastest frequency, polling in batches of
    /// `batch` packets, every idle state allowed.
    ///
    /// # Errors
    /// Fails if the platform does not ask at batches and at empty polls, or lacks a way to wait.
    pub fn new(
        parameters: &Parameters,
        context: &BuildContext<'_>,
        batch: u32,
        waits: &[Wait],
        rule: R,
    ) -> Result<Self, String> {
        let platform = context.platform;
        needs(platform, waits)?;
        let start = Fixed {
            cores: fixed::core_count(parameters, platform)?,
            frequency: platform.fastest(),
            idle: platform.deepest(),
            wait: Wait::Poll,
            moderation: Span::ZERO,
        };
        Ok(Self { start, batch, rule })
    }
}

/// Reports the abilities that a policy of this kind needs and the platform lacks.
pub(super) fn needs(platform: &Platform, waits: &[Wait]) -> Result<(), String> {
    let asks = platform.can.asks;
    if !asks.batch.is_noticed() || !asks.empty_polls.is_noticed() {
        return Err(
            "the platform does not ask at batches and empty polls, which the rule counts".into()
        );
    }
    for (wait, name) in [
        (Wait::Poll, "polling"),
        (Wait::Pause, "the processor's pause"),
        (Wait::Sleep(Span::from_micros(1)), "timed sleep"),
        (Wait::Interrupt, "interrupts"),
    ] {
        let wanted =
            waits.iter().any(|of| std::mem::discriminant(of) == std::mem::discriminant(&wait));
        if wanted && !platform.can.waits.allows(wait) {
            return Err(format!("the platform cannot wait by {name}"));
        }
    }
    Ok(())
}

impl<R: PollRule> Policy for Polling<R> {
    fn looks_at(&self) -> wattline_policy::Looks {
        wattline_policy::Looks::TRIGGER
    }

    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        let now = seen.now;
        match seen.trigger {
            Trigger::Start => {
                self.start.apply(seen.platform, point);
                point.batch = self.batch;
            }
            Trigger::Batch { queue, taken, .. } => {
                let (view, at) = (seen.queues.get(queue), seen.platform.queues.get(queue));
                if let (Some(view), Some(at)) = (view, at) {
                    point.cores[at.core].wait = self.rule.packets(now, at.core, taken, view.fill);
                }
            }
            Trigger::EmptyPolls { core } => point.cores[core].wait = self.rule.nothing(now, core),
            Trigger::Timer
            | Trigger::Fill { .. }
            | Trigger::Streak { .. }
            | Trigger::Silence { .. } => {}
        }
        let all = CoreSet::first(self.start.cores);
        AskAgain { after_empty_polls: NonZeroU32::new(R::EMPTY_POLLS), ..AskAgain::on_batch(all) }
    }
}

/// Applies a rule on the bench of the tests: packets of one core, or none.
#[cfg(test)]
pub(super) mod testing {
    use crate::testing::Bench;
    use wattline_policy::Wait;

    /// Returns the wait of core 0 after it took `fill` packets (at most 32), or none (0).
    pub fn step(bench: &mut Bench, fill: u32) -> Wait {
        if fill == 0 {
            bench.empty_polls(0);
        } else {
            bench.batch(0, fill);
        }
        bench.point.cores[0].wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policy::testing::westmere;

    #[test]
    fn missing_ability_of_the_platform_is_named() {
        let mut platform = westmere();
        assert!(needs(&platform, &[Wait::Poll, Wait::Interrupt]).is_ok());
        platform.can.waits.sleep = false;
        let sleep = Wait::Sleep(Span::from_micros(50));
        let error = needs(&platform, &[Wait::Poll, sleep]).unwrap_err();
        assert!(error.contains("timed sleep"), "{error}");
        platform.can.asks = wattline_policy::Asks::NOTHING;
        assert!(needs(&platform, &[]).unwrap_err().contains("empty polls"));
    }
}
