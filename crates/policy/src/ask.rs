//! The time and events at which a policy wants to be asked next.

use crate::{CoreSet, Streaks};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use wattline_units::Time;

/// Occasions for the next call of a policy: it is asked at the first of them. The others remain
/// valid until the next answer replaces them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskAgain {
    /// At this time; [`Time::NEVER`] for no timer. A time in the past means "as soon as time has
    /// advanced".
    pub at: Time,
    /// At every batch that one of these cores takes from one of its queues.
    pub on_batch: CoreSet,
    /// When a core of `on_batch` has found its queues empty this many times in a row.
    pub after_empty_polls: Option<NonZeroU32>,
    /// When a core finds one of its queues filled up to a level.
    pub on_fill: FillLevel,
    /// At the end of a streak of batches that found a queue too full or nearly empty, and at
    /// silences.
    pub on_streak: Streaks,
}

/// Cores and the fill level of their queues at which a policy wants to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FillLevel {
    /// The cores; empty for none.
    pub cores: CoreSet,
    /// This many packets or more in the ring.
    pub packets: u32,
}

impl FillLevel {
    /// No fill level.
    pub const NEVER: Self = Self { cores: CoreSet::EMPTY, packets: u32::MAX };
}

impl AskAgain {
    /// Never again: the operating point is final.
    pub const NEVER: Self = Self {
        at: Time::NEVER,
        on_batch: CoreSet::EMPTY,
        after_empty_polls: None,
        on_fill: FillLevel::NEVER,
        on_streak: Streaks::NEVER,
    };

    /// Asks at a point of time.
    pub const fn at(at: Time) -> Self {
        Self { at, ..Self::NEVER }
    }
    /// Asks at every batch of these cores.
    pub const fn on_batch(cores: CoreSet) -> Self {
        Self { on_batch: cores, ..Self::NEVER }
    }
    /// Also asks when one of these cores finds a queue with at least this many packets.
    #[must_use]
    pub const fn and_on_fill(self, cores: CoreSet, packets: u32) -> Self {
        Self { on_fill: FillLevel { cores, packets }, ..self }
    }
    /// Asks only at streaks.
    pub const fn on_streak(streaks: Streaks) -> Self {
        Self { on_streak: streaks, ..Self::NEVER }
    }
    /// Returns the cores whose queues are watched.
    pub fn watched(&self) -> CoreSet {
        self.sampled().union(self.on_streak.cores)
    }
    /// Returns the watched cores whose queues a machine has to read if it samples once per period.
    pub fn sampled(&self) -> CoreSet {
        self.on_batch.union(self.on_fill.cores)
    }
}
