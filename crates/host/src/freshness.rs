//! Age up to which a queue's fill is shown.
//!
//! A worker notes the fill of its ring when it takes a batch, for policies that ask for batches.
//! After a silence that fill is outdated (docs/explanation/closed-loop-host.md).

use wattline_policy::QueueView;
use wattline_units::{Span, Time};

/// Time without a batch after which a fill is dropped.
const STALE: Span = Span::from_millis(2);

/// Last batch of a worker: its fill is outdated after a while without a batch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Freshness {
    arrivals: u64,
    since: Time,
}

impl Freshness {
    /// Returns the queue as it is shown to a policy.
    pub fn show(&mut self, now: Time, mut seen: QueueView) -> QueueView {
        if seen.arrivals != self.arrivals {
            *self = Self { arrivals: seen.arrivals, since: now };
        } else if now.since(self.since) > STALE {
            seen.fill = 0;
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_is_forgotten_when_no_batch_comes() {
        let at = |micros| Time::ZERO + Span::from_micros(micros);
        let seen = QueueView { fill: 40, arrivals: 7, ..QueueView::default() };
        let mut fresh = Freshness::default();
        assert_eq!(fresh.show(at(10), seen).fill, 40);
        assert_eq!(fresh.show(at(1500), seen).fill, 40);
        assert_eq!(fresh.show(at(2500), seen).fill, 0);
        assert_eq!(fresh.show(at(2600), QueueView { arrivals: 8, ..seen }).fill, 40);
    }
}
