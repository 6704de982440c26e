//! The clock of a command.

use std::time::Instant;
use wattline_units::{Span, Time};

/// Monotonic time since the start of the command.
pub(super) struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn now(&self) -> Time {
        Time::ZERO + Span::from(self.0.elapsed())
    }

    pub(super) fn sleep_until(&self, then: Time) {
        std::thread::sleep(then.since(self.now()).into());
    }
}
