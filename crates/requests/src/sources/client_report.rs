//! Format of a client's report on the socket (`docs/reference/latency-reports.md`).

use serde::{Deserialize, Serialize};

/// One line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientReport {
    /// Latencies in seconds, each with the number of requests.
    #[serde(default)]
    pub latency_seconds: Vec<(f64, i64)>,
    /// Requests without an answer.
    #[serde(default)]
    pub failed_requests: i64,
    /// Time at which the requests ended; `None` for the time of arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_unix_seconds: Option<f64>,
}
