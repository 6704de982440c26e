//! Result of one run of the load.

/// Result of one run of the load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Run {
    /// Latencies in seconds at the percentiles 50, 95 and 99; infinite where so many requests
    /// were not served at all.
    pub percentiles: [f64; 3],
    /// Whether the rate was held and nothing failed.
    pub sustained: bool,
    /// Whether it was the generator that could not hold the rate: then the run says nothing of
    /// the server.
    pub generator_too_slow: bool,
    /// 1 % of the requests were sent more than so many seconds late by the generator itself, which is
    /// part of the latencies; none where that was not measured.
    pub late_seconds: Option<f64>,
    /// Packets that came to the server's queues for each request; none where nobody counts them.
    pub arrivals_per_request: Option<f64>,
    /// Energy in joules, where a meter saw it.
    pub joules: Option<f64>,
    /// Time over which that was drawn as the meter saw it, in seconds: 0 where it was not read
    /// meanwhile.
    pub seconds: f64,
}
