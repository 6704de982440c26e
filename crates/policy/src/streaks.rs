//! Streaks: batches in a row that found a queue above one level or below another.

use crate::{CoreSet, OperatingPoint};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wattline_units::Span;

/// Streaks at which a policy wants to be asked. They are counted where batches are taken, by
/// [`crate::QueueEstimator`], so that the policy is asked at the end of a streak only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streaks {
    /// Cores that count streaks; empty for none.
    pub cores: CoreSet,
    /// Counting rule.
    pub rule: StreakRule,
    /// True to ask at streaks above the upper level.
    pub at_above: bool,
    /// True to ask at streaks below the lower level.
    pub at_below: bool,
    /// True to ask when one of these cores has had no sample for [`StreakRule::silence`].
    pub at_silence: bool,
}

/// Rule by which a core counts streaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreakRule {
    /// Samples with more packets than this level.
    pub above: Level,
    /// Samples with fewer packets than this level.
    pub below: Level,
    /// Fill level that counts.
    pub read: FillRead,
    /// Counters that restart at an event.
    pub reset: StreakReset,
    /// Time between two samples; zero for a sample at each batch. A later sample represents the
    /// batches since the one before.
    pub look: Span,
    /// Time without a sample after which all counters of a core restart; zero for never.
    pub silence: Span,
}

/// A fill level, and the number of samples in a row that may exceed or undershoot it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Packets in the ring.
    pub packets: u32,
    /// Maximum number of samples in a row without an event.
    pub samples: u32,
}

/// Fill level that a sample reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FillRead {
    /// With the packets of the batch; an empty pass does not count.
    Before,
    /// Without the packets of the batch.
    After,
    /// With the packets of the batch, and a pass that finds no packet in any queue is a sample of
    /// each queue.
    Pass,
}

/// Counters of a core that restart at an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreakReset {
    /// The counters of all its queues.
    All,
    /// The counters of the queue with the event.
    Own,
}

/// Reason why streaks cannot be counted where the kernel polls (NAPI).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BeyondPolls {
    /// The rule reads the queue after the batch, or at empty passes.
    #[error(
        "read: the kernel does not report how many packets wait after a poll, and has no pass over all \
         queues: only `before` works where it forwards"
    )]
    Read,
    /// No poll takes more packets than the level.
    #[error(
        "level {0}: a poll of the kernel takes {budget} packets at most, so more are never found: it \
         must be below {budget}",
        budget = OperatingPoint::NAPI_BUDGET
    )]
    Level(u32),
}

impl Level {
    /// Returns the maximum number of batches that a sample counts for. A sample contains less
    /// information than the batches that it represents, so it counts for at most an eighth of those
    /// needed for an event: several in a row have to agree.
    pub const fn most_of_a_sample(self) -> u32 {
        self.samples / 8 + 1
    }
}

impl Streaks {
    /// No streaks.
    pub const NEVER: Self = Self {
        cores: CoreSet::EMPTY,
        rule: StreakRule::NEVER,
        at_above: false,
        at_below: false,
        at_silence: false,
    };

    /// Checks that the kernel's polls show these streaks.
    ///
    /// # Errors
    /// The reason why they do not.
    pub fn check_polls(&self) -> Result<(), BeyondPolls> {
        if self.cores.is_empty() {
            return Ok(());
        }
        if self.rule.read != FillRead::Before {
            return Err(BeyondPolls::Read);
        }
        let above = self.rule.above.packets;
        if self.at_above && above >= OperatingPoint::NAPI_BUDGET {
            return Err(BeyondPolls::Level(above));
        }
        Ok(())
    }

    /// Returns true if an event of a counting core triggers the policy.
    pub fn asks(&self, above: bool) -> bool {
        if above { self.at_above } else { self.at_below }
    }
}

impl StreakRule {
    /// A rule without events.
    pub const NEVER: Self = Self {
        above: Level { packets: u32::MAX, samples: u32::MAX },
        below: Level { packets: 0, samples: u32::MAX },
        read: FillRead::Before,
        reset: StreakReset::All,
        look: Span::ZERO,
        silence: Span::ZERO,
    };
}
