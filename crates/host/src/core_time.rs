//! Time of a core by state, from its worker's counters.

use super::workers::Work;
use wattline_policy::{CoreView, Wait};
use wattline_units::Span;

/// Last known state of a core.
#[derive(Debug, Clone, Copy)]
pub(super) struct Core {
    /// Wait mode of its worker.
    pub wait: Wait,
    /// View shown to a policy.
    pub seen: CoreView,
    last: Work,
}

impl Default for Core {
    /// Returns a core without any observation yet.
    fn default() -> Self {
        Self { wait: Wait::Interrupt, seen: CoreView::default(), last: Work::default() }
    }
}

impl Core {
    /// Adds its worker's work of the `passed` time since the last call; returns true if the worker
    /// took packets. The worker counts its working and polling time. The rest of the time is sleep,
    /// unless the worker only polls or did not sleep.
    pub fn account(&mut self, work: Work, passed: Span) -> bool {
        let Self { wait, seen, last } = self;
        let useful = (work.useful - last.useful).min(passed);
        let counted = (work.empty - last.empty).min(passed - useful);
        let rest = passed - useful - counted;
        let slept = work.sleeps > last.sleeps || !matches!(wait, Wait::Poll | Wait::Pause);
        seen.useful += useful;
        seen.empty += if slept { counted } else { counted + rest };
        seen.asleep += if slept { rest } else { Span::ZERO };
        seen.sleeps = work.sleeps;
        seen.packets = work.packets;
        work.packets != std::mem::replace(last, work).packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Spans only grow, and add up to the passed time, for any worker counters.
        #[test]
        fn times_of_a_core_add_up(
            looks in prop::collection::vec((0u64..2000, 0u64..2000, 0u64..3, 1u64..1000), 1..50),
            poll: bool,
        ) {
            let wait = if poll { Wait::Pause } else { Wait::Sleep(Span::from_micros(20)) };
            let mut core = Core { wait, ..Core::default() };
            let mut work = Work::default();
            let mut passed = Span::ZERO;
            for (useful, empty, sleeps, time) in looks {
                work.useful += Span::from_micros(useful);
                work.empty += Span::from_micros(empty);
                work.sleeps += sleeps;
                passed += Span::from_micros(time);
                core.account(work, Span::from_micros(time));
                let seen = core.seen;
                prop_assert_eq!(seen.useful + seen.empty + seen.asleep, passed);
            }
        }
    }

    #[test]
    fn polling_or_pausing_worker_does_not_sleep_and_napping_one_does() {
        for (wait, asleep) in [
            (Wait::Poll, 0),
            (Wait::Pause, 0),
            (Wait::Sleep(Span::from_micros(20)), 70),
            (Wait::Interrupt, 70),
        ] {
            let mut core = Core { wait, ..Core::default() };
            let span = Span::from_micros;
            let work = Work { useful: span(10), empty: span(20), ..Work::default() };
            core.account(work, span(100));
            assert_eq!(core.seen.asleep, span(asleep), "{wait:?}");
            assert_eq!(core.seen.useful, span(10));
        }
    }
}
