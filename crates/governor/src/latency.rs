//! Measured latency: the source's figures, and a policy's view of them.
//!
//! A machine queries its sources at each look. All sources give the same kinds of figures:
//! quantiles with the number, age and origin of their samples.

use wattline_policy::LatencyView;
use wattline_units::{Span, Time};

pub use wattline_status::{Origin, Refused};

/// A source that knows the latency of a service.
///
/// It has no clock and no thread, and never blocks: the caller passes the time, and waiting for a
/// socket or a scrape happens elsewhere.
pub trait LatencySource {
    /// Returns where its samples come from.
    fn origin(&self) -> Origin;

    /// Reads the data that arrived since the last call, without waiting for more. Called before
    /// every [`Self::summary`]; a source that others feed has nothing to do.
    fn poll(&mut self, _now: Time) {}

    /// Returns the present summary; none without recent samples.
    fn summary(&self, now: Time) -> Option<LatencySummary>;

    /// Returns true if it can count the requests that took longer than a bound ([`Self::late`]).
    fn counts_late(&self) -> bool {
        false
    }

    /// Counts the samples of [`Self::summary`] that took longer than `bound`, unanswered requests
    /// included. None without samples or if the source cannot count them. If only bounds of buckets
    /// are known, a sample that may have been late counts as late.
    fn late(&self, _now: Time, _bound: Span) -> Option<u64> {
        None
    }

    /// Returns the reports that were rejected since it began.
    fn refused(&self) -> Refused;
}

/// A quantile of the latency, as well as the source knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    /// Known.
    Within {
        /// The best estimate.
        estimate: Span,
        /// Upper bound: the upper end of the bucket that holds it.
        upper: Span,
    },
    /// Longer than this by an unknown time: unanswered, or in the last bucket, which has no end.
    Beyond(Span),
}

impl Quantile {
    /// Value shown to a policy for a quantile without an upper end: an hour, longer than any
    /// target, but small enough for sums.
    pub const UNBOUNDED: Span = Span::from_millis(3_600_000);

    /// Returns the best estimate; [`Self::UNBOUNDED`] without one.
    pub fn estimate(self) -> Span {
        match self {
            Self::Within { estimate, .. } => estimate,
            Self::Beyond(_) => Self::UNBOUNDED,
        }
    }
}

/// Latency as a source knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencySummary {
    /// Origin of the samples.
    pub origin: Origin,
    /// Number of requests, including failed ones.
    pub samples: u64,
    /// Time since the newest of them.
    pub age: Span,
    /// Additional age of the oldest ones, at most.
    pub window: Span,
    /// Mean of the answered ones, if the source knows it.
    pub mean: Option<Span>,
    /// Median.
    pub p50: Quantile,
    /// 95 % took no longer.
    pub p95: Quantile,
    /// 99 % took no longer.
    pub p99: Quantile,
}

impl LatencySummary {
    /// Returns the view of a policy, with the number of late samples. The median replaces an
    /// unknown mean.
    pub fn view(&self, late: u64) -> LatencyView {
        LatencyView {
            samples: self.samples,
            late,
            mean: self.mean.unwrap_or_else(|| self.p50.estimate()),
            p95: self.p95.estimate(),
            p99: self.p99.estimate(),
            age: self.age,
            window: self.window,
            part: self.origin == Origin::RoundTrips,
        }
    }
}

/// Latency that a machine shows to its policy, from one source or several together.
pub trait LatencyFeed: Send {
    /// Reads the arrived reports, observed or not: reporters must not wait.
    fn take_in(&mut self, now: Time);

    /// Returns the view for a policy, with the number of samples longer than its bound. `None` if
    /// latency is not measured; a view without samples if there were no requests.
    fn view(&self, now: Time, late_after: Option<Span>) -> Option<LatencyView>;

    /// Returns true if its views count samples longer than the bound.
    fn counts_late(&self) -> bool;
}

/// A single source: none without recent samples.
impl<S: LatencySource + Send> LatencyFeed for S {
    fn take_in(&mut self, now: Time) {
        self.poll(now);
    }

    fn view(&self, now: Time, late_after: Option<Span>) -> Option<LatencyView> {
        let summary = self.summary(now)?;
        Some(summary.view(late_of(self, now, late_after)))
    }

    fn counts_late(&self) -> bool {
        LatencySource::counts_late(self)
    }
}

/// Returns the number of samples longer than a policy's bound; 0 if the source cannot count them.
pub fn late_of(source: &(impl LatencySource + ?Sized), now: Time, late_after: Option<Span>) -> u64 {
    late_after.and_then(|bound| source.late(now, bound)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows one summary once it has been polled.
    struct Known(bool);

    impl LatencySource for Known {
        fn origin(&self) -> Origin {
            Origin::Clients
        }
        fn poll(&mut self, _: Time) {
            self.0 = true;
        }
        fn summary(&self, _: Time) -> Option<LatencySummary> {
            let known = Quantile::Within { estimate: Span::from_micros(2), upper: Span::FOREVER };
            self.0.then_some(LatencySummary {
                origin: Origin::Clients,
                samples: 100,
                age: Span::from_millis(5),
                window: Span::from_millis(80),
                mean: None,
                p50: known,
                p95: known,
                p99: Quantile::Beyond(Span::from_micros(3)),
            })
        }
        fn counts_late(&self) -> bool {
            true
        }
        fn late(&self, _: Time, bound: Span) -> Option<u64> {
            Some(if bound < Span::from_micros(3) { 2 } else { 1 })
        }
        fn refused(&self) -> Refused {
            Refused::default()
        }
    }

    #[test]
    fn policy_sees_samples_age_and_late_ones_but_no_unknown_quantile() {
        let mut known = Known(false);
        assert_eq!(known.view(Time::ZERO, None), None);
        known.take_in(Time::ZERO);
        let seen = known.view(Time::ZERO, Some(Span::from_micros(2))).unwrap();
        assert_eq!((seen.samples, seen.late, seen.age), (100, 2, Span::from_millis(5)));
        assert_eq!((seen.mean, seen.p95), (Span::from_micros(2), Span::from_micros(2)));
        assert_eq!(seen.p99, Quantile::UNBOUNDED, "later than any target");
        assert_eq!(known.view(Time::ZERO, None).unwrap().late, 0, "no bound");
    }
}
