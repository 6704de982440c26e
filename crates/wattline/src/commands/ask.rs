//! Asking a running router, for the commands that do.

use crate::exit::ExitError;
use serde_json::Value;
use std::path::PathBuf;
use wattline_daemon::socket::{self, Request, SocketError};
use wattline_daemon::stream::Inlet;

/// Which router.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// Its control socket; not needed when only one router or governor runs.
    #[arg(long, global = true)]
    socket: Option<PathBuf>,
}

impl Which {
    /// Its answer to a request.
    pub fn ask(&self, request: Request) -> Result<Value, ExitError> {
        Ok(socket::ask(&self.path()?, request)?)
    }

    /// Its first answer to a request for what goes on for a while, and where the rest comes.
    pub fn listen(&self, request: &Request) -> Result<(Value, Inlet), ExitError> {
        Ok(socket::listen(&self.path()?, request)?)
    }

    /// Its control socket.
    pub fn path(&self) -> Result<PathBuf, SocketError> {
        self.socket.clone().map_or_else(socket::find, Ok)
    }
}

impl From<SocketError> for ExitError {
    fn from(error: SocketError) -> Self {
        let code = match &error {
            SocketError::None(_) => Self::NO_INPUT,
            SocketError::Several(_) => Self::USAGE,
            SocketError::NotAllowed { .. }
            | SocketError::Untrusted { .. }
            | SocketError::Foreign { .. } => Self::NO_PERMISSION,
            SocketError::Silent { source, .. } => match source.kind() {
                std::io::ErrorKind::PermissionDenied => Self::NO_PERMISSION,
                std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
                    Self::NO_INPUT
                }
                _ => Self::IO,
            },
            SocketError::Refused(_) => Self::CONFIG,
            SocketError::Bind { .. } => Self::IO,
        };
        Self::new(code, error)
    }
}
