//! Reasons why a machine is not governed.

use std::io;
use wattline_daemon::settings::ConfigError;
use wattline_daemon::socket::SocketError;
use wattline_host::TakeOverError;
use wattline_policy::SpecError;

/// Reason why a machine is not governed.
#[derive(Debug, thiserror::Error)]
pub enum GovernError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The policy's text is invalid, or it cannot work on this machine.
    #[error("[govern] policy: {0}")]
    Policy(#[from] SpecError),
    /// The configuration leaves nothing of this machine to govern.
    #[error("{0}")]
    Nothing(String),
    /// A source of latency cannot be opened.
    #[error("[[latency]] {name}: {source}")]
    Source {
        /// Its name.
        name: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The machine cannot be taken over, or was not restored.
    #[error(transparent)]
    Machine(#[from] TakeOverError),
    /// The control socket cannot be made.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Its governor has panicked.
    #[error(
        "the governor has panicked, which is a defect of Wattline; the machine stays ungoverned until \
         it is started again"
    )]
    Panicked,
    /// A facility of the system does not work.
    #[error("{what}: {source}")]
    System {
        /// Action that failed.
        what: String,
        /// Error of the system.
        source: io::Error,
    },
}

impl GovernError {
    pub(crate) fn system(what: impl Into<String>, source: io::Error) -> Self {
        Self::System { what: what.into(), source }
    }
}
