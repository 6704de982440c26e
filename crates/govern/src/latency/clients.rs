//! Clients that report over a local socket.

use super::source::Source;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use wattline_requests::sources::{ClientReports, ReportSocket};
use wattline_units::Span;

/// Creates the socket, and its directory if missing.
pub(super) fn open(path: &Path, window: Span) -> io::Result<Source<ClientReports>> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let mut socket = ReportSocket::bind(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    Ok(Source::new(ClientReports::new(window), move |reports, now| {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let taken = reports.taken();
        let outcome = socket.drain(reports, now, wall.as_secs_f64());
        Some((reports.taken() > taken, outcome.err().map(|error| error.to_string())))
    }))
}
