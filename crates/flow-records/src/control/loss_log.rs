//! Warnings about lost records: in the log at most once a minute.

use std::time::{Duration, Instant};

/// Shortest time between two warnings.
const BETWEEN: Duration = Duration::from_secs(60);

/// Numbers of lost records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Records for which the workers' rings to the control thread had no room.
    pub overload: u64,
    /// Records that collectors did not take, summed over all collectors.
    pub collector: u64,
}

/// Losses that the log has reported.
#[derive(Debug, Default)]
pub(super) struct LossLog {
    reported: Losses,
    next: Option<Instant>,
}

impl LossLog {
    /// Returns the losses since the last report, if there are any and it is time.
    pub fn due(&mut self, losses: Losses, now: Instant) -> Option<Losses> {
        if losses == self.reported || self.next.is_some_and(|next| now < next) {
            return None;
        }
        let Losses { overload, collector } = self.reported;
        self.reported = losses;
        self.next = Some(now + BETWEEN);
        // Records of a refused message are counted as sent until the kernel reports it.
        let more = Losses {
            overload: losses.overload.saturating_sub(overload),
            collector: losses.collector.saturating_sub(collector),
        };
        (more != Losses::default()).then_some(more)
    }

    /// Writes the losses that are due to the log.
    pub fn report(&mut self, losses: Losses, now: Instant) {
        let Some(Losses { overload, collector }) = self.due(losses, now) else { return };
        if overload > 0 {
            tracing::warn!(
                "flow records: {overload} records were lost by overload: flows end faster than their \
                 records can be sent; raise [flow_records] flows or sampling"
            );
        }
        if collector > 0 {
            tracing::warn!(
                "flow records: {collector} records were lost because collectors did not take them; \
                 `wattline stats` names the collectors"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_reported_once_a_minute_with_all_that_came_between() {
        let mut log = LossLog::default();
        let start = Instant::now();
        let mut due = |seconds, overload, collector| {
            log.due(Losses { overload, collector }, start + Duration::from_secs(seconds))
        };
        let losses = |overload, collector| Some(Losses { overload, collector });
        assert_eq!(due(0, 0, 0), None);
        assert_eq!(due(1, 5, 0), losses(5, 0));
        assert_eq!(due(2, 9, 1), None, "too soon");
        assert_eq!(due(61, 9, 1), losses(4, 1));
        assert_eq!(due(200, 9, 1), None, "nothing more");
    }
}
