//! Sources of latency for a governor: reports of clients, a Prometheus histogram of the application,
//! and TCP's own round trips. [`Reporter`] sends such reports from this crate's generator.
//!
//! Each source returns quantiles with the number of samples, their age and their origin. No source
//! has a clock or a thread; each call passes the time.

mod client_report;
mod clients;
mod prometheus;
mod reporter;
mod round_trips;
mod socket;
mod window;

pub use clients::ClientReports;
pub use prometheus::{PrometheusHistogram, Selector, SelectorError};
pub use reporter::{Reported, Reporter};
pub use round_trips::RoundTrips;
pub use socket::ReportSocket;

pub use wattline_governor::latency::{LatencySource, LatencySummary, Origin, Quantile, Refused};
use wattline_units::Span;

/// Latencies above one hour are refused as absurd.
const LONGEST_SECONDS: f64 = 3_600.0;

/// Checks a latency from outside, and counts it if it is refused.
fn latency(seconds: f64, refused: &mut Refused) -> Option<Span> {
    let counter = if !seconds.is_finite() {
        &mut refused.not_a_number
    } else if seconds < 0.0 {
        &mut refused.negative
    } else if seconds > LONGEST_SECONDS {
        &mut refused.absurd
    } else {
        return Some(Span::from_seconds(seconds));
    };
    *counter += 1;
    None
}
