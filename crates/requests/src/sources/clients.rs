//! Latencies that clients report.
//!
//! A report is a line of JSON. A datagram holds one or more reports, separated by line feeds:
//!
//! ```json
//! {"latency_seconds": [[0.00041, 12], [0.0009, 3]], "failed_requests": 1, "time_unix_seconds": 1790000000.5}
//! ```
//!
//! | key | meaning |
//! |---|---|
//! | `latency_seconds` | pairs of a latency in seconds, 0 to 3600, and a number of requests |
//! | `failed_requests` | requests without an answer; default 0 |
//! | `time_unix_seconds` | time at which they ended; default: time of arrival |
//!
//! Other keys make a report malformed. If a latency is negative or absurd, only that latency is
//! refused.

use super::client_report::ClientReport;
use super::window::Window;
use super::{LatencySource, LatencySummary, Origin, Refused, latency};
use wattline_units::{Span, Time};

/// Largest number of requests in one field of a report.
const MOST: u64 = 1_000_000_000;
/// Largest accepted lead of a client's clock.
const AHEAD_SECONDS: f64 = 1.0;

/// Reports of clients in a time window.
#[derive(Debug)]
pub struct ClientReports {
    window: Window,
    refused: Refused,
    taken: u64,
}

impl ClientReports {
    /// Creates a source with a window of this length.
    pub fn new(window: Span) -> Self {
        Self { window: Window::new(window), refused: Refused::default(), taken: 0 }
    }

    /// Returns the number of fully accepted reports. A report without requests counts too, as a
    /// sign of life.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes a datagram that arrived at `now`, which is `unix_seconds` on the wall clock.
    pub fn take(&mut self, datagram: &[u8], now: Time, unix_seconds: f64) {
        for line in datagram.split(|byte| *byte == b'\n') {
            if !line.trim_ascii().is_empty() {
                self.take_line(line, now, unix_seconds);
            }
        }
    }

    /// Counts a datagram that was too long to be read whole.
    pub(super) fn too_long(&mut self) {
        self.refused.absurd += 1;
    }

    fn take_line(&mut self, line: &[u8], now: Time, unix_seconds: f64) {
        let refused = self.refused.total();
        self.take_report(line, now, unix_seconds);
        self.taken += u64::from(self.refused.total() == refused);
    }

    fn take_report(&mut self, line: &[u8], now: Time, unix_seconds: f64) {
        let Ok(report) = serde_json::from_slice::<ClientReport>(line) else {
            self.refused.malformed += 1;
            return;
        };
        let Some(at) = self.moment(report.time_unix_seconds, now, unix_seconds) else { return };
        for (seconds, count) in report.latency_seconds {
            let Some(latency) = latency(seconds, &mut self.refused) else { continue };
            if let Some(count) = self.count(count) {
                self.window.record(latency, count, at);
            }
        }
        if let Some(failed) = self.count(report.failed_requests) {
            self.window.fail(failed, at);
        }
    }

    /// Returns the time at which the requests of a report ended; `None` if it is refused.
    fn moment(&mut self, reported: Option<f64>, now: Time, unix_seconds: f64) -> Option<Time> {
        let Some(reported) = reported else { return Some(now) };
        let age = unix_seconds - reported;
        let counter = if !age.is_finite() {
            &mut self.refused.not_a_number
        } else if age < -AHEAD_SECONDS {
            &mut self.refused.future
        } else {
            let age = Span::from_seconds(age);
            // One part less than the window, since the oldest part is about to be forgotten.
            if age < self.window.length() - self.window.length() / 8 {
                let before = now.since(Time::ZERO) - age;
                return Some(Time::ZERO + before);
            }
            &mut self.refused.old
        };
        *counter += 1;
        None
    }

    /// Checks a number of requests; `None` if it is zero or refused.
    fn count(&mut self, count: i64) -> Option<u64> {
        match u64::try_from(count) {
            Ok(0) => None,
            Ok(count) if count <= MOST => Some(count),
            Ok(_) => {
                self.refused.absurd += 1;
                None
            }
            Err(_) => {
                self.refused.negative += 1;
                None
            }
        }
    }
}

impl LatencySource for ClientReports {
    fn origin(&self) -> Origin {
        Origin::Clients
    }
    fn summary(&self, now: Time) -> Option<LatencySummary> {
        self.window.summary(now, Origin::Clients)
    }
    fn counts_late(&self) -> bool {
        true
    }
    fn late(&self, now: Time, bound: Span) -> Option<u64> {
        self.window.late(now, bound)
    }
    fn refused(&self) -> Refused {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Quantile;

    const UNIX: f64 = 1_790_000_000.0;

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn take(reports: &[&str]) -> ClientReports {
        let mut clients = ClientReports::new(Span::from_millis(10_000));
        for report in reports {
            clients.take(report.as_bytes(), at(100_000), UNIX);
        }
        clients
    }

    #[test]
    fn reports_of_several_clients_add_up() {
        let clients = take(&[
            "{\"latency_seconds\":[[0.001,98]]}\n{\"latency_seconds\":[[0.005,1]]}\n",
            "{\"failed_requests\":1,\"time_unix_seconds\":1789999998.5}",
        ]);
        let summary = clients.summary(at(100_000)).unwrap();
        assert_eq!((summary.samples, clients.refused().total()), (100, 0));
        assert!(matches!(summary.p50, Quantile::Within { estimate, .. }
            if (estimate.as_seconds() - 0.001).abs() < 2e-6));
        assert!(matches!(summary.p99, Quantile::Within { estimate, .. }
            if (estimate.as_seconds() - 0.005).abs() < 1e-5));
        // The reported time places samples within the window.
        let clients = take(&["{\"latency_seconds\":[[1,1]],\"time_unix_seconds\":1789999998.5}"]);
        assert_eq!(clients.summary(at(100_000)).unwrap().age, Span::from_millis(1_500));
    }

    #[test]
    fn hostile_values_are_refused_and_counted() {
        let clients = take(&[
            "not json",
            "{\"latency_seconds\":[[NaN,1]]}",
            "{\"latency_seconds\":[[1e999,1]]}",
            "{\"latency_seconds\":[[0.1,1.5]]}",
            "{\"latency\":[[0.1,1]]}",
            "\u{0}\u{1}",
        ]);
        assert_eq!((clients.refused().malformed, clients.refused().total()), (6, 6));
        let clients = take(&["{\"latency_seconds\":[[-0.1,1],[1e9,1],[0.1,-1],[0.1,2000000000]]}"]);
        assert_eq!(clients.taken(), 0);
        assert_eq!(take(&["{}\n{\"latency_seconds\":[[0.1,1]]}"]).taken(), 2);
        let refused = clients.refused();
        assert_eq!((refused.negative, refused.absurd, refused.total()), (2, 2, 4));
        let clients = take(&[
            "{\"latency_seconds\":[[0.1,1]],\"time_unix_seconds\":1790000060}",
            "{\"latency_seconds\":[[0.1,1]],\"time_unix_seconds\":1789999000}",
            "{\"latency_seconds\":[[0.1,1]],\"time_unix_seconds\":-1e308}",
        ]);
        let refused = clients.refused();
        assert_eq!((refused.future, refused.old, refused.total()), (1, 2, 3));
        assert_eq!(clients.summary(at(100_000)), None);
    }

    #[test]
    fn any_datagram_is_survived() {
        bolero::check!().with_type::<(Vec<u8>, f64, u64)>().for_each(|(bytes, unix, now)| {
            let mut clients = ClientReports::new(Span::from_millis(1_000));
            let now = Time::from_picos(*now);
            clients.take(bytes, now, *unix);
            let report =
                format!("{{\"latency_seconds\":[[{unix:e},3]],\"time_unix_seconds\":{unix:e}}}");
            clients.take(report.as_bytes(), now, *unix);
            let _ = clients.summary(now);
        });
    }
}
