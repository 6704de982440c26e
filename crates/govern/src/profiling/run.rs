//! Result of a run.

/// Result of one run of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Latencies in seconds at the percentiles 50, 95 and 99; infinite if so many requests were not
    /// served at all.
    pub percentiles: [f64; 3],
    /// True if the server sustained the rate with almost no failures.
    pub sustained: bool,
    /// True if the generator could not hold the rate, so that the run does not describe the server.
    pub generator_too_slow: bool,
    /// 99th percentile of the generator's own lateness in seconds, which is part of the latencies;
    /// `None` if it was not measured.
    pub late_seconds: Option<f64>,
    /// Packets per request that arrived at the server's queues; `None` if they are not counted.
    pub arrivals_per_request: Option<f64>,
    /// Energy in joules; `None` without a meter.
    pub joules: Option<f64>,
    /// Seconds between the meter's readings for [`Self::joules`]; 0 if it was not read during the
    /// run.
    pub seconds: f64,
}
