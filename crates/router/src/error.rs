//! Reasons why a router does not run.

use std::io;
use wattline_daemon::settings::ConfigError;
use wattline_ports::afxdp::OpenError;
use wattline_server::LoadError;
use wattline_traffic::capture::{CaptureError, Problem};
use wattline_xdp::XdpError;
use wattline_xdp::bpf::BpfError;

/// Kind of remedy that a failure calls for; exit codes follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Change the configuration.
    Config,
    /// Give a file that exists and may be read.
    Input,
    /// Give a valid capture.
    Data,
    /// Give the process more rights.
    Permission,
    /// Use another machine or kernel, or free what is in use.
    Machine,
    /// Look at the system: reading or writing failed.
    System,
    /// Report a defect, and start the router again.
    Defect,
}

/// Reason why a router does not start, or ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouterError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The configuration does not fit this machine.
    #[error("{0}")]
    Unfit(String),
    /// The kernel would do more with the packets than the router.
    #[error("{0}")]
    Obstructed(String),
    /// Capabilities are missing.
    #[error(
        "the process lacks {}: run it as root, or `setcap {}=ep` on the program",
        .0.join(", "),
        .0.join(",").to_lowercase()
    )]
    Capabilities(Vec<&'static str>),
    /// An AF_XDP socket could not be opened.
    #[error(transparent)]
    Socket(#[from] OpenError),
    /// The XDP program could not be loaded or attached.
    #[error("[[port]] {port}: {error}")]
    Xdp {
        /// Name of the port.
        port: String,
        /// Reason.
        error: XdpError,
    },
    /// A map of the XDP program could not be written.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// Capture files are not valid; at least one.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Captures(Vec<CaptureError>),
    /// The server model of the governor is not available.
    #[error("[power] server: {0}")]
    Server(#[from] LoadError),
    /// The governor's platform could not be restored to its initial state.
    #[error("{0}")]
    Platform(String),
    /// A worker has panicked. The others have ended regularly.
    #[error(
        "worker {worker} has panicked, which is a defect of Wattline: {message}; the kernel \
         forwards until the router is started again"
    )]
    Panicked {
        /// Its number.
        worker: usize,
        /// Message of the panic.
        message: String,
    },
    /// The governor of `[power]` has panicked. The workers have ended regularly.
    #[error(
        "the governor of [power] has panicked, which is a defect of Wattline; the kernel forwards \
         until the router is started again"
    )]
    Governor,
    /// A worker did not end on command, although it had nothing to wait for.
    #[error("worker {worker} hung; the router ended without it, and its frames are lost")]
    Hung {
        /// Its number.
        worker: usize,
    },
    /// The system failed.
    #[error("{action}: {source}")]
    System {
        /// Action that failed.
        action: String,
        /// Reason of the failure.
        source: io::Error,
    },
}

impl RouterError {
    /// Creates the error of a system call that failed during an action.
    pub fn system(action: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::System { action: action.into(), source: source.into() }
    }

    /// Creates the error of a key of `[power]` that does not fit.
    pub fn power(key: &str, error: &dyn std::fmt::Display) -> Self {
        Self::Unfit(format!("[power] {key}: {error}"))
    }

    /// Returns the kind of remedy.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Config(ConfigError::Unreadable { .. }) => Remedy::Input,
            Self::Config(ConfigError::Invalid(_)) | Self::Unfit(_) => Remedy::Config,
            Self::Server(LoadError::Unreadable { .. }) => Remedy::Input,
            Self::Server(_) => Remedy::Config,
            Self::Capabilities(_) => Remedy::Permission,
            Self::Socket(error) => match error {
                OpenError::MissingCapability { .. } => Remedy::Permission,
                _ => Remedy::Machine,
            },
            Self::Bpf(error) | Self::Xdp { error: XdpError::Bpf(error), .. } => match error {
                BpfError::MissingCapability { .. } => Remedy::Permission,
                _ => Remedy::Machine,
            },
            Self::Xdp { .. } | Self::Obstructed(_) => Remedy::Machine,
            Self::Captures(errors) => match errors.first().map(|error| &error.problem) {
                Some(Problem::Open(_)) => Remedy::Input,
                Some(Problem::Io(_)) => Remedy::System,
                _ => Remedy::Data,
            },
            Self::Panicked { .. } | Self::Governor | Self::Hung { .. } => Remedy::Defect,
            Self::Platform(_) | Self::System { .. } => Remedy::System,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn missing_af_xdp_calls_for_another_machine_and_is_named() {
        let lacking = OpenError::MissingFeature { feature: "AF_XDP", source: Errno::AFNOSUPPORT };
        let error = RouterError::from(lacking);
        assert_eq!(error.remedy(), Remedy::Machine);
        assert!(error.to_string().starts_with("this kernel lacks AF_XDP"), "{error}");
    }
}
