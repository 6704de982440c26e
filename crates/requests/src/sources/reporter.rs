//! Reports the generator's measurements to a governor, as any client of a service may.

use super::client_report::ClientReport;
use crate::engine::Interval;
use crate::latency::Times;
use serde::Serialize;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

/// Sends a report of each interval. Never waits: a report that the socket does not accept at once
/// is counted as failed.
#[derive(Debug)]
pub struct Reporter {
    socket: UnixDatagram,
    path: PathBuf,
    reported: Reported,
}

/// Outcome of the reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Reported {
    /// Reports that the socket accepted. The governor's statistics count refused ones.
    pub sent_reports: u64,
    /// Reports that the socket did not accept: there is no listener, its queue is full, or
    /// permission is missing.
    pub failed_reports: u64,
    /// Reason of the first failure.
    pub first_failure: Option<String>,
}

impl Reporter {
    /// Creates a reporter for the socket at this path. The listener may come later and may go away.
    ///
    /// # Errors
    /// Fails when the process may not open another socket.
    pub fn new(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path: path.to_owned(), reported: Reported::default() })
    }

    /// Reports an interval that ended now, with its latencies. Returns the first failure, once.
    pub fn report(&mut self, interval: &Interval, latency: &Times) -> Option<String> {
        // The governor refuses and counts numbers that are too large.
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let steps = latency.steps();
        let report = ClientReport {
            latency_seconds: steps.map(|(seconds, times)| (seconds, count(times))).collect(),
            failed_requests: count(interval.failed_requests),
            time_unix_seconds: None,
        };
        let line = serde_json::to_vec(&report).map_err(io::Error::from);
        match line.and_then(|line| self.socket.send_to(&line, &self.path)) {
            Ok(_) => self.reported.sent_reports += 1,
            Err(error) => {
                self.reported.failed_reports += 1;
                if self.reported.first_failure.is_none() {
                    let why = format!("{}: {error}", self.path.display());
                    self.reported.first_failure = Some(why.clone());
                    return Some(why);
                }
            }
        }
        None
    }

    /// Returns the outcome of the reports so far.
    pub fn reported(&self) -> &Reported {
        &self.reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::{ClientReports, LatencySource as _, Quantile, ReportSocket};
    use wattline_units::{Span, Time};

    const WINDOW: Span = Span::from_millis(10_000);

    fn interval(failed_requests: u64) -> Interval {
        Interval {
            start_seconds: 0.0,
            length_seconds: 1.0,
            warmup: false,
            after_end: false,
            sent_rate_rps: 0.0,
            served_rate_rps: 0.0,
            failed_requests,
            latency_p50_seconds: None,
            latency_p99_seconds: None,
            latency_max_seconds: None,
        }
    }

    /// The governor's source and the load agree on an interval.
    #[test]
    fn governor_receives_number_of_requests_and_percentiles() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latency");
        let mut socket = ReportSocket::bind(&path).unwrap();
        let mut reporter = Reporter::new(&path).unwrap();
        // A long tail: 50 us to 0.1 s.
        let mut times = Times::new();
        let latencies = (1..=100_000_u64).map(|rank| 50_000 + 100_000_000 / rank);
        latencies.for_each(|nanos| times.record(nanos));
        assert_eq!(reporter.report(&interval(40), &times), None);
        let now = Time::ZERO + WINDOW;
        let mut reports = ClientReports::new(WINDOW);
        assert_eq!(socket.drain(&mut reports, now, 0.0).unwrap(), 1);
        let summary = reports.summary(now).unwrap();
        assert_eq!((summary.samples, reports.refused().total()), (100_040, 0));
        for (quantile, reported) in [(0.5, summary.p50), (0.95, summary.p95), (0.99, summary.p99)] {
            let Quantile::Within { estimate, .. } = reported else { panic!("{reported:?}") };
            let measured = times.quantile(quantile, 40).unwrap() as f64 / 1e9;
            let ratio = estimate.as_seconds() / measured;
            // The steps of a report are a little apart, and round up.
            assert!((0.998..1.02).contains(&ratio), "{quantile}: {estimate:?}, {measured} s");
        }
        // A report without requests is a sign of life.
        assert_eq!(reporter.report(&interval(0), &Times::new()), None);
        let taken = reports.taken();
        socket.drain(&mut reports, now, 0.0).unwrap();
        assert_eq!(reports.taken(), taken + 1);
    }

    #[test]
    fn absent_or_slow_governor_is_reported_once_and_never_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("latency");
        let mut reporter = Reporter::new(&path).unwrap();
        let mut times = Times::new();
        times.record(1_000_000);
        let why = reporter.report(&interval(0), &times).unwrap();
        assert!(why.contains("latency: No such file"), "{why}");
        assert_eq!(reporter.report(&interval(0), &times), None);
        // The governor starts later and reads nothing: the queue fills, but the reporter does not
        // block.
        let mut socket = ReportSocket::bind(&path).unwrap();
        while reporter.reported().failed_reports < 5 {
            assert_eq!(reporter.report(&interval(0), &times), None);
        }
        let reported = reporter.reported().clone();
        assert_eq!((reported.failed_reports, reported.first_failure), (5, Some(why)));
        let mut reports = ClientReports::new(WINDOW);
        let now = Time::ZERO + WINDOW;
        assert_eq!(socket.drain(&mut reports, now, 0.0).unwrap() as u64, reported.sent_reports);
        assert_eq!(reports.summary(now).unwrap().samples, reported.sent_reports);
    }
}
