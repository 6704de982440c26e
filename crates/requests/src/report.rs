//! Result of a load, as written in JSON.

use crate::clock::seconds;
use crate::engine::{Failures, Interval, LoadOptions, Recording, ThreadUse};
use crate::latency::{CurvePoint, TimesSummary};
use crate::protocol::Protocol;
use crate::schedule::Arrivals;
use crate::sources::Reported;
use crate::verdict::Verdict;
use serde::Serialize;
use std::collections::BTreeMap;

/// The result of a load.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// `memcached` or `http`.
    pub protocol: &'static str,
    /// Servers or pages.
    pub targets: Vec<String>,
    /// Spread over time.
    pub arrivals: Arrivals,
    /// Seed of the arrivals.
    pub seed: u64,
    /// Connections of all threads.
    pub connections: usize,
    /// Requests that may be outstanding on a connection.
    pub depth: usize,
    /// Length of the measured time.
    pub duration_seconds: f64,
    /// Length of the load before that.
    pub warmup_seconds: f64,
    /// Time after which an unanswered request fails.
    pub timeout_seconds: f64,
    /// Rates, and the verdict on the requested one.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Requests due in the measured time.
    pub due_requests: u64,
    /// Requests sent at any time.
    pub sent_requests: u64,
    /// Served requests, misses included.
    pub served_requests: u64,
    /// Gets of keys that the server does not have.
    pub missed_requests: u64,
    /// Requests that were due but not served, of all kinds.
    pub failed_requests: u64,
    /// The same by kind.
    #[serde(flatten)]
    pub failures: Failures,
    /// Failed attempts to reopen a connection in the whole run.
    pub failed_connects: u64,
    /// Reopened connections in the whole run.
    pub reconnects: u64,
    /// First violation of the protocol in an answer.
    pub first_protocol_error: Option<&'static str>,
    /// Time from the intended time to the answer, over all requests that were due; failed requests
    /// count as later than all others.
    pub latency: TimesSummary,
    /// Time from sending to the answer. It hides the wait for a connection; for comparison only.
    pub latency_from_sending: TimesSummary,
    /// Influence of the generator itself.
    pub generator: Generator,
    /// Outcome of reports to a governor; none if none were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub governor_reports: Option<Reported>,
    /// Requests sent in the whole run, warm-up included, by operation.
    pub run_sent_requests: BTreeMap<&'static str, u64>,
    /// Distribution of the latency, for drawing.
    pub latency_curve: Vec<CurvePoint>,
    /// Intervals, warm-up included.
    pub intervals: Vec<Interval>,
}

/// Influence of the generator itself on the measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Generator {
    /// Lateness of sending: from the later of the intended time and the moment when a connection
    /// was free, to the moment of sending. Part of the latencies.
    pub lateness: TimesSummary,
    /// Turns of the event loops with work: an answer may have been unread for this long.
    pub turns: TimesSummary,
    /// Processor time of all threads.
    pub cpu_seconds: f64,
    /// Processor time per request sent; `None` without requests.
    pub cpu_per_request_seconds: Option<f64>,
    /// Each thread.
    pub threads: Vec<ThreadUse>,
}

impl Report {
    /// Summarises a recording.
    pub fn new<P: Protocol>(
        protocol: &'static str,
        targets: Vec<String>,
        options: &LoadOptions,
        recording: &Recording,
        intervals: Vec<Interval>,
    ) -> Self {
        let window = &recording.window;
        let failed = window.failures.total();
        let cpu_seconds: f64 = recording.threads.iter().map(|thread| thread.cpu_seconds).sum();
        let sent = recording.sent_in_window;
        let operations = P::OPERATIONS.iter().copied().zip(recording.run.sent);
        Self {
            protocol,
            targets,
            arrivals: options.arrivals,
            seed: options.seed,
            connections: options.connections,
            depth: options.depth,
            duration_seconds: seconds(recording.measured),
            warmup_seconds: options.warmup.as_secs_f64(),
            timeout_seconds: options.timeout.as_secs_f64(),
            verdict: Verdict::judge(options, recording),
            due_requests: window.due,
            sent_requests: window.sent_total(),
            served_requests: window.served,
            missed_requests: window.misses,
            failed_requests: failed,
            failures: window.failures,
            failed_connects: recording.connect_failures,
            reconnects: recording.reconnects,
            first_protocol_error: recording.first_protocol_error,
            latency: recording.latency.summary(failed),
            latency_from_sending: recording.response.summary(failed - window.failures.unsent),
            generator: Generator {
                lateness: recording.lateness.summary(0),
                turns: recording.turns.summary(0),
                cpu_seconds,
                cpu_per_request_seconds: (sent > 0).then(|| cpu_seconds / sent as f64),
                threads: recording.threads.clone(),
            },
            governor_reports: None,
            run_sent_requests: operations.collect(),
            latency_curve: recording.latency.curve(failed),
            intervals,
        }
    }
}
