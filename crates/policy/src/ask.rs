//! When a policy wants to be asked next.

use crate::CoreSet;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use wattline_units::Time;

/// When a policy wants to be asked next; what comes first counts, the rest stays in force
/// until the next answer replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskAgain {
    /// At this point of time; [`Time::NEVER`] for no timer. A time that has passed
    /// already means "at once, but after time has moved on".
    pub at: Time,
    /// At every batch that one of these cores takes from one of its queues.
    pub on_batch: CoreSet,
    /// When a core of `on_batch` has found its queues empty so many times in a row.
    pub after_empty_polls: Option<NonZeroU32>,
}

impl AskAgain {
    /// Never again: the operating point stays for good.
    pub const NEVER: Self =
        Self { at: Time::NEVER, on_batch: CoreSet::EMPTY, after_empty_polls: None };

    /// At a point of time.
    pub const fn at(at: Time) -> Self {
        Self { at, ..Self::NEVER }
    }
    /// At every batch of these cores.
    pub const fn on_batch(cores: CoreSet) -> Self {
        Self { on_batch: cores, ..Self::NEVER }
    }
}
