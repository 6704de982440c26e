//! Asking a running router, for the commands that do.

use crate::exit::ExitError;
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use wattline_daemon::socket::{self, Request, SocketError};
use wattline_daemon::stream::{Inlet, Part};
use wattline_status::{Document, WatchStart};

/// Router to ask.
#[derive(Debug, clap::Args)]
pub struct Daemon {
    /// Its control socket; not needed when only one router or governor runs.
    #[arg(long, global = true)]
    socket: Option<PathBuf>,
}

impl Daemon {
    /// Asks for a document.
    pub fn ask<T: Document>(&self, request: Request) -> Result<T, ExitError> {
        Ok(socket::ask_for(&self.path()?, request)?)
    }

    /// Asks for a capture or a trace. Returns its beginning and the source of the rest.
    pub fn listen(&self, request: &Request) -> Result<(WatchStart, Inlet), ExitError> {
        let (start, inlet) = socket::listen(&self.path()?, request)?;
        Ok((wattline_status::read(start).map_err(SocketError::from)?, inlet))
    }

    /// Asks for a document that takes the daemon some time.
    pub fn wait_for<T: Document>(
        &self,
        request: &Request,
        mut event: impl FnMut(serde_json::Value) -> Result<(), ExitError>,
    ) -> Result<T, ExitError> {
        let (_, mut inlet) = socket::listen(&self.path()?, request)?;
        let failed = |error| ExitError::new(ExitError::IO, format_args!("the router: {error}"));
        loop {
            match inlet.part().map_err(failed)? {
                Part::End(document) => {
                    return Ok(wattline_status::read(document).map_err(SocketError::from)?);
                }
                Part::Event(it) => event(it)?,
                Part::Bytes(_) => {}
            }
        }
    }

    /// Returns the path of the control socket.
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
            SocketError::Contract(_) => Self::DATA,
            SocketError::Bind { .. } => Self::IO,
        };
        Self::new(code, error)
    }
}

/// Prints a document as JSON.
pub fn print_json(out: &mut impl Write, document: &impl Serialize) -> io::Result<()> {
    let value = serde_json::to_value(document)?;
    writeln!(out, "{value:#}")
}
