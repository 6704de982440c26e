//! A client's report, as it goes over the socket. `docs/reference/latency-reports.md` describes it.

use serde::{Deserialize, Serialize};

/// One line of JSON.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientReport {
    /// Latencies in seconds, and how often each came.
    #[serde(default)]
    pub latency_seconds: Vec<(f64, i64)>,
    /// Requests without an answer.
    #[serde(default)]
    pub failed_requests: i64,
    /// When they ended; none for the moment of arrival.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_unix_seconds: Option<f64>,
}
