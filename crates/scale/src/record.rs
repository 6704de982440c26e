//! Recording of a span of model time, by interval.

use super::{Disturbance, Scale, ScaleError};
use serde::Serialize;
use wattline_governor::account::{Interval, LatencySummary};
use wattline_policy::Latency;
use wattline_units::{Span, Time};

/// Recorded intervals of a run.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// The whole span.
    #[serde(flatten)]
    pub whole: Interval,
    /// Intervals. One that a late thread closed is longer than requested.
    pub intervals: Vec<Interval>,
    /// Lag of the threads behind the model.
    pub disturbance: Disturbance,
}

impl Scale {
    /// Records from one model time on for so long, by intervals, while time runs; `each` gets every
    /// interval as soon as it is over.
    ///
    /// # Errors
    /// Fails if a worker does not answer.
    pub fn record(
        &self,
        from: Time,
        duration: Span,
        interval: Span,
        mut each: impl FnMut(&Interval),
    ) -> Result<Record, ScaleError> {
        let end = from + duration;
        let interval = interval.max(Span::from_nanos(1));
        let (start, _) = self.totals_at(from)?;
        let mut last = start.clone();
        let mut intervals = Vec::new();
        let mut all: Option<Latency> = None;
        while last.at < end {
            let (totals, latency) = self.totals_at((last.at + interval).min(end))?;
            let mut seen = Interval::between(&last, &totals);
            seen.latency = latency.as_ref().and_then(summary);
            each(&seen);
            intervals.push(seen);
            last = totals;
            match (&mut all, latency) {
                (Some(all), Some(latency)) => all.add(&latency),
                (all @ None, latency) => *all = latency,
                (Some(_), None) => {}
            }
        }
        let mut whole = Interval::between(&start, &last);
        whole.latency = all.as_ref().and_then(summary);
        Ok(Record { whole, intervals, disturbance: self.disturbance() })
    }
}

fn summary(latency: &Latency) -> Option<LatencySummary> {
    LatencySummary::new(latency.mean(), |fraction| latency.quantile(fraction), latency.max())
}
