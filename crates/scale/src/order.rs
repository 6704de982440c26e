//! Keeps flows in order while entries of indirection tables move, and counts the frames held back.

use super::handover::{self, Handover};
use super::transit::{self, Transit};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wattline_policy::CoreSet;

pub use wattline_status::Holds;

/// Decides which frames have to wait at the egress port.
#[derive(Debug)]
pub struct Order {
    kind: Kind,
    sums: Mutex<Sums>,
}

#[derive(Debug)]
enum Kind {
    /// Frames are counted when they are steered to a core.
    Counted(Handover),
    /// Frames are not counted before a core takes them.
    Drained(Transit),
}

/// Place of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Counted(handover::Place),
    Drained(transit::Place),
}

#[derive(Debug, Default)]
struct Sums {
    held: u64,
    hold: Duration,
    longest_hold: Duration,
    deferred: u64,
    longest_deferral: Duration,
}

impl Order {
    /// Creates the state for so many ports with tables of so many entries (a power of two), whose
    /// frames are counted when steered ([`Self::counted`]).
    pub fn counting(ports: usize, entries: usize) -> Self {
        Self { kind: Kind::Counted(Handover::new(ports, entries)), sums: Mutex::default() }
    }

    /// Creates the state for interfaces and so many cores.
    pub fn draining(cores: usize) -> Self {
        Self { kind: Kind::Drained(Transit::new(cores)), sums: Mutex::default() }
    }

    /// Returns the counts, if frames are counted.
    pub(super) fn counted(&self) -> Option<&Handover> {
        match &self.kind {
            Kind::Counted(handover) => Some(handover),
            Kind::Drained(_) => None,
        }
    }

    /// Returns the state of rewriting, if frames are not counted.
    pub(super) fn drained(&self) -> Option<&Transit> {
        match &self.kind {
            Kind::Counted(_) => None,
            Kind::Drained(transit) => Some(transit),
        }
    }

    /// Notes that a core takes a frame from a port.
    pub(super) fn take(&self, port: usize, frame: &[u8], core: usize) -> Option<Place> {
        match &self.kind {
            Kind::Counted(handover) => handover.take(port, frame, core).map(Place::Counted),
            Kind::Drained(transit) => transit.take(core).map(Place::Drained),
        }
    }

    /// Returns true if a frame may leave.
    pub(super) fn may_leave(&self, place: Place) -> bool {
        match (&self.kind, place) {
            (Kind::Counted(handover), Place::Counted(place)) => handover.may_leave(place),
            (Kind::Drained(transit), Place::Drained(place)) => transit.may_leave(place),
            _ => true,
        }
    }

    /// Notes that a frame has left, or never will. Returns the core that may have waited for it.
    pub(super) fn left(&self, place: Place) -> Option<usize> {
        match (&self.kind, place) {
            (Kind::Counted(handover), Place::Counted(place)) => handover.left(place),
            (Kind::Drained(transit), Place::Drained(place)) => {
                transit.left(place);
                None
            }
            _ => None,
        }
    }

    /// Notes that a core has polled its queues and forwarded its frames. Returns the cores that no
    /// longer wait for it.
    pub(super) fn look(&self, core: usize, found_none: bool) -> CoreSet {
        self.drained().map_or(CoreSet::EMPTY, |transit| transit.look(core, found_none))
    }

    /// Returns true if others wait until a core has polled its queues.
    pub(super) fn awaits(&self, core: usize) -> bool {
        self.drained().is_some_and(|transit| transit.awaits(core))
    }

    /// Notes that a core ends.
    pub(super) fn forget(&self, core: usize) -> CoreSet {
        self.drained().map_or(CoreSet::EMPTY, |transit| transit.forget(core))
    }

    /// Notes that a frame was held back for so long in real time.
    pub(super) fn held(&self, hold: Duration) {
        let mut sums = self.sums();
        sums.held += 1;
        sums.hold += hold;
        sums.longest_hold = sums.longest_hold.max(hold);
    }

    /// Notes that a rewrite was deferred for so long in real time.
    pub(super) fn deferred(&self, deferral: Duration) {
        let mut sums = self.sums();
        sums.deferred += 1;
        sums.longest_deferral = sums.longest_deferral.max(deferral);
    }

    /// Returns the frames held back so far, at this dilation.
    pub fn holds(&self, dilation: u32) -> Holds {
        let longest = match &self.kind {
            Kind::Counted(handover) => handover.longest(),
            Kind::Drained(transit) => transit.longest(),
        };
        let sums = self.sums();
        let model = |real: Duration| real.as_secs_f64() / f64::from(dilation.max(1));
        Holds {
            handover_max_seconds: model(longest),
            held_packets: sums.held,
            hold_mean_seconds: model(sums.hold) / sums.held.max(1) as f64,
            hold_max_seconds: model(sums.longest_hold),
            deferred_moves: sums.deferred,
            deferral_max_seconds: model(sums.longest_deferral),
        }
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        // No holder leaves the state inconsistent.
        self.sums.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Returns the entry of its port's table; a common value if it is unknown.
    pub(super) fn entry(&self) -> u32 {
        match self {
            Self::Counted(place) => place.entry(),
            Self::Drained(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_are_summed_in_model_time() {
        let order = Order::draining(2);
        order.held(Duration::from_millis(1));
        order.held(Duration::from_millis(3));
        order.deferred(Duration::from_millis(5));
        let holds = order.holds(1_000);
        assert_eq!((holds.held_packets, holds.deferred_moves), (2, 1));
        assert!((holds.hold_mean_seconds - 2e-6).abs() < 1e-12);
        assert!((holds.hold_max_seconds - 3e-6).abs() < 1e-12);
        assert!((holds.deferral_max_seconds - 5e-6).abs() < 1e-12);
        assert!(order.counted().is_none() && order.drained().is_some());
    }
}
