//! Streaks: batches in a row that found a queue above one level or below another.

use crate::{CoreSet, OperatingPoint};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use wattline_units::Span;

/// Streaks at which a policy wants to be asked. They are counted where batches are taken, by
/// [`crate::QueueEstimator`], so that the policy is asked at the end of a streak only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streaks {
    /// Cores that count; empty for none.
    pub cores: CoreSet,
    /// The rule by which they count.
    pub rule: StreakRule,
    /// Whether to ask at streaks above the upper level.
    pub at_above: bool,
    /// Whether to ask at streaks below the lower level.
    pub at_below: bool,
    /// Whether to ask when one of these cores has had no sample for [`StreakRule::silence`].
    pub at_silence: bool,
}

/// Rule by which a core counts streaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreakRule {
    /// Samples with more packets than this level.
    pub above: Level,
    /// Samples with fewer packets than this level.
    pub below: Level,
    /// The fill level that counts.
    pub read: FillRead,
    /// Counters that start anew at an event.
    pub reset: StreakReset,
    /// Time between two samples; zero for a sample at each batch. A later sample represents the
    /// batches since the one before.
    pub look: Span,
    /// All counters of a core start anew after such a time without a sample; zero for never.
    pub silence: Span,
}

/// A fill level, and the number of samples in a row that may exceed or undershoot it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Packets in the ring.
    pub packets: u32,
    /// More samples in a row than this are an event.
    pub samples: u32,
}

/// Fill level that a sample reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FillRead {
    /// With the packets of the batch; a pass that finds no packet is no sample.
    Before,
    /// Without the packets of the batch.
    After,
    /// With the packets of the batch, and a pass that finds no packet in any queue is a sample of
    /// each queue.
    Pass,
}

/// Counters of a core that start anew at an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreakReset {
    /// Those of all its queues.
    All,
    /// Those of the queue with the event.
    Own,
}

/// Reason why streaks cannot be counted where the kernel polls (NAPI).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BeyondPolls {
    /// The rule reads the queue after the batch, or at passes that find nothing.
    #[error(
        "read: the kernel does not tell how many packets wait after a poll, and has no pass over all \
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
    /// Returns the most batches that a sample counts for. A sample says less than the batches that it
    /// represents, so it counts for no more than an eighth of those that an event takes: several in a
    /// row have to agree.
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

    /// Whether to ask at an event of a core that counts.
    pub fn asks(&self, above: bool) -> bool {
        if above { self.at_above } else { self.at_below }
    }
}

impl StreakRule {
    /// A rule by which nothing is an event.
    pub const NEVER: Self = Self {
        above: Level { packets: u32::MAX, samples: u32::MAX },
        below: Level { packets: 0, samples: u32::MAX },
        read: FillRead::Before,
        reset: StreakReset::All,
        look: Span::ZERO,
        silence: Span::ZERO,
    };
}
