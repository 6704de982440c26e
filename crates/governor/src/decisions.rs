//! The last changes of the operating point that a policy requested, with their reasons.
//!
//! Recording a change neither allocates nor formats: it may happen between two batches of packets.
//! The text is made on request.

use std::collections::VecDeque;
use wattline_policy::{OperatingPoint, Platform, Reason, Trigger, Wait};
use wattline_units::{Span, Time};

pub use wattline_status::{Decision, Waiting};

/// Factor below which two naps or moderations count as equal: a policy may fit them to the traffic
/// at every decision.
const MUCH: f64 = 2.0;

/// Recorded part of a change.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Kept {
    at: Time,
    cores: usize,
    frequencies: Option<(usize, usize)>,
    wait: Wait,
    moderation: Span,
    reason: Option<Reason>,
    trigger: Trigger,
}

impl Kept {
    fn new(
        at: Time,
        trigger: Trigger,
        platform: &Platform,
        point: &OperatingPoint,
        reason: Option<Reason>,
    ) -> Self {
        let active = || point.active.iter().filter_map(|core| point.cores.get(core));
        let frequencies = || active().map(|core| core.frequency);
        let low = frequencies().min().unwrap_or(0);
        let high = frequencies().max().unwrap_or(0);
        Self {
            at,
            cores: point.active.len(),
            frequencies: platform.can.set_frequency.then_some((low, high)),
            // Waking cores may still poll: the first core has the final wait mode.
            wait: active().next().map_or(Wait::Interrupt, |core| core.wait),
            moderation: if platform.can.set_moderation {
                point.moderation.first().copied().unwrap_or(Span::ZERO)
            } else {
                Span::ZERO
            },
            reason,
            trigger,
        }
    }

    /// Returns true if the two are equal for a user.
    fn is_like(&self, other: &Self) -> bool {
        let same_wait = match (self.wait, other.wait) {
            (Wait::Sleep(one), Wait::Sleep(two)) => alike(one, two),
            (one, two) => one == two,
        };
        self.cores == other.cores
            && self.frequencies == other.frequencies
            && same_wait
            && alike(self.moderation, other.moderation)
    }

    fn describe(&self, number: u64, platform: &Platform) -> Decision {
        let hertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |hertz| hertz.0);
        let moderation = (self.moderation > Span::ZERO).then(|| self.moderation.as_seconds());
        let (wait, nap_seconds) = match self.wait {
            Wait::Poll => (Waiting::Poll, None),
            Wait::Pause => (Waiting::Pause, None),
            Wait::Sleep(nap) => (Waiting::Sleep, Some(nap.as_seconds())),
            Wait::Interrupt => (Waiting::Interrupt, moderation),
        };
        let reason = match self.reason {
            Some(reason) => reason.to_string(),
            None => format!("its rule, {}", describe_trigger(self.trigger)),
        };
        Decision {
            number,
            at_seconds: self.at.as_seconds(),
            cores_active: self.cores,
            frequency_hertz: self.frequencies.map(|(low, high)| (hertz(low), hertz(high))),
            wait,
            nap_seconds,
            reason,
        }
    }
}

fn alike(one: Span, two: Span) -> bool {
    let (less, more) = (one.min(two).as_seconds(), one.max(two).as_seconds());
    more <= less * MUCH
}

/// Describes a trigger, for policies without reasons.
fn describe_trigger(trigger: Trigger) -> String {
    match trigger {
        Trigger::Start => "asked at the start".to_owned(),
        Trigger::Timer => "asked at the requested time".to_owned(),
        Trigger::Batch { queue, taken, .. } => {
            format!("asked at a batch of {taken} from queue {queue}")
        }
        Trigger::Fill { queue } => format!("asked when queue {queue} was full enough"),
        Trigger::EmptyPolls { core } => format!("asked when core {core} had found nothing"),
        Trigger::Streak { queue, above: true } => {
            format!("asked when queue {queue} had stayed too full")
        }
        Trigger::Streak { queue, above: false } => {
            format!("asked when queue {queue} had stayed nearly empty")
        }
        Trigger::Silence { core } => format!("asked when core {core} had taken no batch"),
    }
}

/// The last changes.
#[derive(Debug, Clone)]
pub struct Decisions {
    kept: VecDeque<Kept>,
    most: usize,
    total: u64,
}

impl Decisions {
    /// Creates a list of the last `most` changes, at least one.
    pub fn keeping(most: usize) -> Self {
        let most = most.max(1);
        Self { kept: VecDeque::with_capacity(most), most, total: 0 }
    }

    /// Records the operating point that the policy requests from now on.
    pub fn note(
        &mut self,
        now: Time,
        trigger: Trigger,
        platform: &Platform,
        wanted: &OperatingPoint,
        reason: Option<Reason>,
    ) {
        let new = Kept::new(now, trigger, platform, wanted, reason);
        if self.kept.back().is_some_and(|last| last.is_like(&new)) {
            return;
        }
        if self.kept.len() == self.most {
            self.kept.pop_front();
        }
        self.kept.push_back(new);
        self.total += 1;
    }

    /// Returns the kept changes after the first `seen` of the run, the oldest first.
    pub fn after(&self, seen: u64, platform: &Platform) -> Vec<Decision> {
        let first = self.total - self.kept.len() as u64 + 1;
        let numbered = (first..).zip(&self.kept).filter(|(number, _)| *number > seen);
        numbered.map(|(number, kept)| kept.describe(number, platform)).collect()
    }
}

/// Logs changes with a number above `logged`, and returns the number of the last one. For threads
/// that handle no packets, about once a second: kept changes since the last call are logged, the
/// others counted.
pub fn log(decisions: &[Decision], logged: u64) -> u64 {
    let mut last = logged;
    for decision in decisions.iter().filter(|decision| decision.number > logged) {
        if decision.number > last + 1 {
            tracing::debug!("{} changes before are not kept", decision.number - last - 1);
        }
        tracing::debug!("change {} at {:.6} s: {decision}", decision.number, decision.at_seconds);
        last = decision.number;
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_policy::{Can, FrequencyDomain};
    use wattline_units::{Hertz, PacketsPerSecond};

    fn platform() -> Platform {
        Platform {
            cores: 2,
            frequencies: vec![Hertz(1e9), Hertz(2e9)],
            domain: FrequencyDomain::Core,
            can: Can { set_moderation: false, ..Can::EVERY_KNOB },
            ..Platform::BARE
        }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_millis(1_000 * seconds)
    }

    #[test]
    fn last_changes_are_returned_with_their_numbers_and_reasons() {
        let platform = platform();
        let mut decisions = Decisions::keeping(2);
        let mut point = OperatingPoint::full(&platform);
        decisions.note(at(0), Trigger::Start, &platform, &point, None);
        point.set_active(1, 0, 0);
        let batch = Trigger::Batch { queue: 1, taken: 32, batches: 1 };
        decisions.note(at(1), batch, &platform, &point, None);
        point.cores[0].frequency = 0;
        point.set_wait(Wait::Sleep(Span::from_micros(80)));
        let rate = Some(PacketsPerSecond(1e6));
        let reason = Reason { words: "it is cheaper", rate, phase: None };
        decisions.note(at(2), Trigger::Timer, &platform, &point, Some(reason));
        let texts: Vec<String> =
            decisions.after(0, &platform).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "1 core at 2.00 GHz, interrupts: its rule, asked at a batch of 32 from queue 1",
                "1 core at 1.00 GHz, naps of 80.0 us: for 1.000 Mpps, it is cheaper",
            ]
        );
        let numbers = |seen| -> Vec<u64> {
            decisions.after(seen, &platform).iter().map(|decision| decision.number).collect()
        };
        assert_eq!((numbers(0), numbers(2), numbers(3)), (vec![2, 3], vec![3], vec![]));
    }

    #[test]
    fn slightly_fitted_nap_is_no_change() {
        let platform = platform();
        let mut decisions = Decisions::keeping(8);
        let mut point = OperatingPoint::full(&platform);
        for (look, micros) in [50, 70, 90, 101, 60, 50].into_iter().enumerate() {
            point.set_wait(Wait::Sleep(Span::from_micros(micros)));
            decisions.note(at(look as u64), Trigger::Timer, &platform, &point, None);
        }
        let micros = |decision: &Decision| (decision.nap_seconds.unwrap() * 1e6).round() as u64;
        let naps: Vec<u64> = decisions.after(0, &platform).iter().map(micros).collect();
        // Compared with the last recorded change, so that a slow drift shows as well.
        assert_eq!(naps, [50, 101, 50]);
    }
}
