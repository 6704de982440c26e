//! Reports of a load to a governor.

use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline_requests::sources::Reporter;

/// Recipient of latency reports.
#[derive(Debug, clap::Args)]
pub struct ReportTo {
    /// Report the latencies of each interval, warm-up included, to this socket of `wattline govern`
    /// (`clients` of a section [[latency]]). The load continues if reports are not accepted.
    #[arg(long, value_name = "SOCKET")]
    report: Option<PathBuf>,
}

impl ReportTo {
    /// Returns the reporter, if requested.
    pub fn reporter(&self) -> Result<Option<Reporter>, ExitError> {
        let Some(path) = &self.report else { return Ok(None) };
        let failed = |error| ExitError::new(ExitError::IO, format_args!("--report: {error}"));
        Reporter::new(path).map(Some).map_err(failed)
    }
}
