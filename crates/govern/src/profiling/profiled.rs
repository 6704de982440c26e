//! A measured point in the file of points.

use super::grid::At;
use super::run::Run;
use serde::{Deserialize, Serialize};
use wattline_report::Spread;
use wattline_requests::NOTED_LATENESS;

/// A measured point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Profiled {
    /// Index of the load.
    pub load: usize,
    /// Indices of the frequency and of the period; `None` for the fastest frequency with the
    /// driver's own moderation.
    pub point: Option<(usize, usize)>,
    /// The period that the card held, in microseconds.
    pub held_us: Option<f64>,
    /// Number of runs in the means.
    pub repetitions: usize,
    /// True if the server sustained the rate in most runs.
    pub sustained: bool,
    /// True if two runs in a row agreed at the start. Otherwise the server was still changing.
    #[serde(default = "steady")]
    pub steady: bool,
    /// Mean 50th percentile of the runs in microseconds; `None` if the server saturated.
    pub p50_us: Option<f64>,
    /// Mean 95th percentile, like [`Self::p50_us`].
    pub p95_us: Option<f64>,
    /// Mean 99th percentile, like [`Self::p50_us`].
    pub p99_us: Option<f64>,
    /// Half the 95 % confidence interval of the 95th percentile, in microseconds.
    pub p95_half_us: Option<f64>,
    /// Mean 99th percentile of the generator's own lateness in microseconds, which is part of the
    /// latencies; `None` if it was not measured.
    #[serde(default)]
    pub late_us: Option<f64>,
    /// Mean power in watts; `None` without a reading of a meter.
    pub power_watts: Option<f64>,
    /// Packets per request that arrived at the server's queues; `None` if they were not counted.
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
        // Only runs with a reading of the meter.
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

    /// Returns true if half the confidence interval of the 95th percentile is at most this share of
    /// it, or if the point is saturated and has no interval.
    pub fn is_tight(&self, within: f64) -> bool {
        let known = self.p95_half_us.zip(self.p95_us);
        known.is_none_or(|(half, p95)| half <= within * p95)
    }

    /// Returns true if the generator's own lateness is a large part of the latencies. The report of
    /// a load uses the same limit.
    pub fn is_sent_late(&self) -> bool {
        let known = self.late_us.zip(self.p99_us);
        known.is_some_and(|(late, p99)| late > NOTED_LATENESS * p99)
    }

    /// Returns the position in the grid.
    pub fn at(&self) -> At {
        let load = self.load;
        match self.point {
            None => At::Default { load },
            Some((state, period)) => At::Point { load, state, period },
        }
    }
}

/// Default for files that were written without this field.
fn steady() -> bool {
    true
}
