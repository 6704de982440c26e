//! `--dashboard` of long-running commands.

use crate::exit::ExitError;
use std::net::SocketAddr;
use wattline_daemon::dashboard::{DashboardError, Opened, Place};
use wattline_status::Stats;

/// Address of the dashboard.
#[derive(Debug, clap::Args)]
pub struct Dashboard {
    /// Serve a read-only dashboard for browsers at this address, such as 127.0.0.1:9418.
    #[arg(long = "dashboard", value_name = "ADDRESS")]
    address: Option<SocketAddr>,
    /// Allow an address of the dashboard that other machines reach: without password, unencrypted.
    #[arg(long = "dashboard-remote", requires = "address")]
    remote: bool,
}

impl Dashboard {
    /// Listens, if requested, before anything else starts.
    pub fn open(&self) -> Result<Listening, ExitError> {
        let place = self.address.map(|address| Place { address, remote: self.remote });
        Ok(Listening(place.map(Place::open).transpose()?))
    }
}

/// Address of a dashboard, if requested.
pub struct Listening(Option<Opened>);

impl Listening {
    /// Returns true if a dashboard is requested.
    pub fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Shows this process under the name `what`; `stats` returns its statistics.
    pub fn show(
        self,
        what: &str,
        stats: impl Fn() -> Option<Stats> + Send + 'static,
    ) -> Result<(), ExitError> {
        let Some(opened) = self.0 else { return Ok(()) };
        let address = opened.address();
        let node = rustix::system::uname();
        opened.serve(&format!("{what} on {}", node.nodename().to_string_lossy()), stats)?;
        tracing::info!("dashboard at http://{address}/");
        if !address.ip().is_loopback() {
            tracing::warn!(
                "other machines can read the dashboard, without password and unencrypted"
            );
        }
        Ok(())
    }
}

impl From<DashboardError> for ExitError {
    fn from(error: DashboardError) -> Self {
        let code = match &error {
            DashboardError::Remote(_) => Self::USAGE,
            DashboardError::Listen { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => Self::NO_PERMISSION,
                _ => Self::UNAVAILABLE,
            },
        };
        Self::new(code, error)
    }
}
