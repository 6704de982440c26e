//! Clients that report over a local socket.

use super::heard::Heard;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use wattline_governor::latency::{LatencySource, LatencySummary, Origin, Refused};
use wattline_requests::sources::{ClientReports, ReportSocket};
use wattline_units::{Span, Time};

/// The socket, and what was reported over it.
pub(super) struct Clients {
    socket: ReportSocket,
    reports: ClientReports,
    heard: Option<Time>,
    problem: Option<String>,
}

impl Clients {
    /// Makes the socket, and its directory where that is missing.
    pub fn open(path: &Path, window: Span) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let socket = ReportSocket::bind(path).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", path.display()))
        })?;
        Ok(Self { socket, reports: ClientReports::new(window), heard: None, problem: None })
    }
}

impl LatencySource for Clients {
    fn origin(&self) -> Origin {
        self.reports.origin()
    }

    fn poll(&mut self, now: Time) {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let taken = self.reports.taken();
        let outcome = self.socket.drain(&mut self.reports, now, wall.as_secs_f64());
        self.problem = outcome.err().map(|error| error.to_string());
        if self.reports.taken() > taken {
            self.heard = Some(now);
        }
    }

    fn summary(&self, now: Time) -> Option<LatencySummary> {
        self.reports.summary(now)
    }

    fn counts_late(&self) -> bool {
        self.reports.counts_late()
    }

    fn late(&self, now: Time, bound: Span) -> Option<u64> {
        self.reports.late(now, bound)
    }

    fn refused(&self) -> Refused {
        self.reports.refused()
    }
}

impl Heard for Clients {
    fn heard(&self) -> Option<Time> {
        self.heard
    }

    fn problem(&self) -> Option<String> {
        self.problem.clone()
    }
}
