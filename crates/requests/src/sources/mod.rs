//! Where a governor learns latency from: this crate's probe, reports of clients, a Prometheus
//! histogram of the application.
//!
//! All sources say the same: quantiles with the number of samples behind them, how old they are
//! and where they come from. None has a clock or a thread: time is handed to them.

mod clients;
mod probe;
mod prometheus;
mod socket;
mod window;

pub use clients::ClientReports;
pub use probe::ProbeReports;
pub use prometheus::{PrometheusHistogram, Selector, SelectorError};
pub use socket::ReportSocket;

use serde::Serialize;
use wattline_units::{Span, Time};

/// Something that knows the latency of a service.
pub trait LatencySource {
    /// Where its samples come from.
    fn origin(&self) -> Origin;

    /// What it knows now; none without any sample that is young enough.
    fn summary(&self, now: Time) -> Option<LatencySummary>;

    /// What was handed to it and not taken, since it began.
    fn refused(&self) -> Refused;
}

/// Where samples come from: what they include, and who has to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// This crate's generator: from the intended time of sending to the answer.
    Probe,
    /// Clients of the service, as they measured it.
    Clients,
    /// The application's own histogram: without the network, and mostly without what a request
    /// waited before the application took it.
    Application,
}

/// A quantile of the latency, as well as the source knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantile {
    /// Known.
    Within {
        /// The best estimate.
        estimate: Span,
        /// It is not longer than this: the upper end of the bucket that holds it.
        upper: Span,
    },
    /// Longer than this; how long is not known: it was not answered, or lies in the last bucket,
    /// which has no end.
    Beyond(Span),
}

/// What a source knows of the latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencySummary {
    /// Where it comes from.
    pub origin: Origin,
    /// Requests behind it, those that failed included.
    pub samples: u64,
    /// The time since the newest of them.
    pub age: Span,
    /// Mean of the answered ones, where the source knows it.
    pub mean: Option<Span>,
    /// Median.
    pub p50: Quantile,
    /// 95 % took no longer.
    pub p95: Quantile,
    /// 99 % took no longer.
    pub p99: Quantile,
}

/// What was not taken, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Not in the format.
    pub malformed: u64,
    /// Latencies or counts below zero.
    pub negative: u64,
    /// Not a number, or infinite.
    pub not_a_number: u64,
    /// Latencies above an hour, counts that no service reaches, texts that are too long.
    pub absurd: u64,
    /// From the future.
    pub future: u64,
    /// From longer ago than the source looks back.
    pub old: u64,
    /// Contradicting itself: a bucket that holds less than one below it, or that shrinks.
    pub inconsistent: u64,
}

impl Refused {
    /// All reasons together.
    pub fn total(&self) -> u64 {
        let Self { malformed, negative, not_a_number, absurd, future, old, inconsistent } = self;
        malformed + negative + not_a_number + absurd + future + old + inconsistent
    }
}

/// Latencies above are absurd: one hour.
const LONGEST_SECONDS: f64 = 3_600.0;

/// Checks a latency from outside and counts it when it is refused.
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
