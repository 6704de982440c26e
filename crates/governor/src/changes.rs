//! The last changes that a policy asked for, with their reasons, for people.

use serde::Serialize;
use std::collections::VecDeque;
use wattline_policy::{OperatingPoint, Platform, Trigger};
use wattline_units::Time;

/// Changes that are remembered.
pub const REMEMBERED: usize = 32;

/// A change of the operating point: each pair is the old value and the new one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Change {
    /// When, on the machine's clock: of the model where it is emulated.
    pub at_seconds: f64,
    /// Cores that packets are sent to.
    pub cores: [usize; 2],
    /// Frequency of the fastest of them; absent where nobody sets frequencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fastest_hertz: Option<[f64; 2]>,
    /// Longest distance of interrupts; absent where nobody sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moderation_seconds: Option<[f64; 2]>,
    /// What made the policy decide.
    pub asked_by: &'static str,
    /// Why, in the policy's words; absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// The last changes, the oldest first. Noting one allocates nothing.
#[derive(Debug, Clone)]
pub(crate) struct Changes(VecDeque<Change>);

impl Default for Changes {
    fn default() -> Self {
        Self(VecDeque::with_capacity(REMEMBERED))
    }
}

impl Changes {
    /// Notes one, from what was wanted to what is.
    pub fn note(
        &mut self,
        now: Time,
        platform: &Platform,
        points: [&OperatingPoint; 2],
        trigger: Trigger,
        reason: Option<&'static str>,
    ) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        let can = platform.can;
        self.0.push_back(Change {
            at_seconds: now.as_seconds(),
            cores: points.map(|point| point.active.len()),
            fastest_hertz: can.set_frequency.then(|| points.map(|point| fastest(platform, point))),
            moderation_seconds: can.set_moderation.then(|| points.map(moderation)),
            asked_by: words(trigger),
            reason,
        });
    }

    /// All that are remembered.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.0.iter()
    }
}

fn fastest(platform: &Platform, point: &OperatingPoint) -> f64 {
    let active = point.cores.iter().enumerate().filter(|(core, _)| point.active.contains(*core));
    let rung = active.map(|(_, core)| core.frequency).max().unwrap_or(0);
    platform.frequencies.get(rung).map_or(0.0, |hertz| hertz.0)
}

fn moderation(point: &OperatingPoint) -> f64 {
    point.moderation.iter().max().map_or(0.0, |span| span.as_seconds())
}

fn words(trigger: Trigger) -> &'static str {
    match trigger {
        Trigger::Start => "at the start",
        Trigger::Timer => "by its timer",
        Trigger::Batch { .. } => "at a batch",
        Trigger::Fill { .. } => "by a queue that filled",
        Trigger::EmptyPolls { .. } => "by a core without work",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::platform;
    use wattline_policy::CoreSet;

    #[test]
    fn the_last_changes_are_kept_with_both_values() {
        let platform = platform();
        let full = OperatingPoint::full(&platform);
        let mut less = full.clone();
        less.active = CoreSet::first(1);
        less.cores[0].frequency = 0;
        let mut changes = Changes::default();
        for number in 0..REMEMBERED as u64 + 5 {
            let now = Time::ZERO + wattline_units::Span::from_millis(1000 * number);
            changes.note(now, &platform, [&full, &less], Trigger::Timer, Some("less came"));
        }
        let kept: Vec<&Change> = changes.iter().collect();
        assert_eq!((kept.len(), kept[0].at_seconds), (REMEMBERED, 5.0));
        let change = kept[REMEMBERED - 1];
        assert_eq!(change.cores, [platform.cores, 1]);
        let [slowest, fastest] =
            [0, platform.frequencies.len() - 1].map(|at| platform.frequencies[at].0);
        assert_eq!(change.fastest_hertz, Some([fastest, slowest]));
        assert_eq!((change.asked_by, change.reason), ("by its timer", Some("less came")));
    }
}
