//! One point of a profile, as it is kept.

use super::grid::At;
use super::run::Run;
use serde::{Deserialize, Serialize};
use wattline_report::Spread;
use wattline_requests::NOTED_LATENESS;

/// One point, measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Profiled {
    /// Index of the load.
    pub load: usize,
    /// Index of the frequency and of the period; none for the driver's own moderation at the
    /// fastest.
    pub point: Option<(usize, usize)>,
    /// The period that the card really held, in microseconds.
    pub held_us: Option<f64>,
    /// Runs that counted.
    pub repetitions: usize,
    /// Whether the rate was held, with every request served, in most of them.
    pub sustained: bool,
    /// Whether two loads in a row agreed before those that count. Where none did, the server had not
    /// come to rest.
    #[serde(default = "steady")]
    pub steady: bool,
    /// Means over the runs, in microseconds: percentiles 50, 95 and 99; none where it saturated.
    pub p50_us: Option<f64>,
    /// See [`Self::p50_us`].
    pub p95_us: Option<f64>,
    /// See [`Self::p50_us`].
    pub p99_us: Option<f64>,
    /// Half the 95 % confidence interval of the 95th percentile, in microseconds.
    pub p95_half_us: Option<f64>,
    /// 1 % of the requests were sent more than so many microseconds late by the generator itself,
    /// which is part of the latencies: the mean over the runs; none where that was not measured.
    #[serde(default)]
    pub late_us: Option<f64>,
    /// Mean power in watts, where a meter saw it.
    pub power_watts: Option<f64>,
    /// Packets that came to the server's queues for each request, where they were counted.
    #[serde(default)]
    pub arrivals_per_request: Option<f64>,
}

impl Profiled {
    /// Summarises the runs at a point.
    pub fn of(at: At, held_us: Option<f64>, runs: &[Run]) -> Self {
        let (load, point) = match at {
            At::Default { load } => (load, None),
            At::Point { load, state, period } => (load, Some((state, period))),
        };
        let held = runs.iter().filter(|run| run.sustained).count();
        let sustained = 2 * held > runs.len();
        let sound = || runs.iter().filter(|run| run.sustained);
        let spread = |which: usize| Spread::of(sound().map(|run| run.percentiles[which]));
        let late: Option<f64> = sound().map(|run| run.late_seconds).sum();
        let micros = |seconds: f64| (sustained && seconds.is_finite()).then_some(seconds * 1e6);
        // Of the runs that a meter saw.
        let metered = || runs.iter().filter_map(|run| Some((run.joules?, run.seconds)));
        let joules: f64 = metered().map(|(joules, _)| joules).sum();
        let seconds: f64 = metered().map(|(_, seconds)| seconds).sum();
        let arrivals: Option<f64> = runs.iter().map(|run| run.arrivals_per_request).sum();
        Self {
            load,
            point,
            held_us,
            repetitions: runs.len(),
            sustained,
            steady: true,
            p50_us: micros(spread(0).mean),
            p95_us: micros(spread(1).mean),
            p99_us: micros(spread(2).mean),
            p95_half_us: micros(spread(1).half),
            late_us: late.and_then(|sum| micros(sum / held as f64)),
            power_watts: (seconds > 0.0).then(|| joules / seconds),
            arrivals_per_request: arrivals.map(|sum| sum / runs.len().max(1) as f64),
        }
    }

    /// Whether half the confidence interval of its 95th percentile is at most this share of it; of
    /// a saturated point, which has none, too.
    pub fn is_tight(&self, within: f64) -> bool {
        let known = self.p95_half_us.zip(self.p95_us);
        known.is_none_or(|(half, p95)| half <= within * p95)
    }

    /// Whether its latencies are in good part how late the generator sent the requests. A load's
    /// report says so above the same share.
    pub fn is_sent_late(&self) -> bool {
        let known = self.late_us.zip(self.p99_us);
        known.is_some_and(|(late, p99)| late > NOTED_LATENESS * p99)
    }

    /// Returns the point's place in the grid.
    pub fn at(&self) -> At {
        let load = self.load;
        match self.point {
            None => At::Default { load },
            Some((state, period)) => At::Point { load, state, period },
        }
    }
}

/// Files of before this was noted say nothing else.
fn steady() -> bool {
    true
}
