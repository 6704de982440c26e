//! Reports of a load to a governor.

use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline_requests::sources::Reporter;

/// Who is told of the latency.
#[derive(Debug, clap::Args)]
pub struct ReportTo {
    /// Report the latencies of each interval, of the warm-up too, to this socket of `wattline govern`
    /// (`clients` of a section [[latency]]). The load goes on where nobody takes them.
    #[arg(long, value_name = "SOCKET")]
    report: Option<PathBuf>,
}

impl ReportTo {
    /// The reporter, if one is wanted.
    pub fn reporter(&self) -> Result<Option<Reporter>, ExitError> {
        let Some(path) = &self.report else { return Ok(None) };
        let failed = |error| ExitError::new(ExitError::IO, format_args!("--report: {error}"));
        Reporter::new(path).map(Some).map_err(failed)
    }
}
