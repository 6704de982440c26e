//! Errors of experiments.

use std::path::PathBuf;
use wattline_traffic::capture::CaptureError;

/// An experiment that could not be set up or carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that the experiment needs is not installed.
    #[error("`{program}` is not installed; `make tools` installs what the experiments use")]
    ProgramMissing {
        /// Name of the program.
        program: String,
    },
    /// A program ran and failed.
    #[error("`{command}` failed ({status}): {output}")]
    ProgramFailed {
        /// The command line.
        command: String,
        /// Exit status or signal.
        status: String,
        /// Output of the command on standard error, or else on standard output.
        output: String,
    },
    /// A program did not end in time and was stopped.
    #[error("`{command}` was still running after {seconds} s and was stopped")]
    ProgramHangs {
        /// The command line.
        command: String,
        /// Time limit.
        seconds: u64,
    },
    /// The caller may not build namespaces or open raw sockets.
    #[error("{action} needs root (CAP_NET_ADMIN, CAP_SYS_ADMIN and CAP_NET_RAW): {source}")]
    Privilege {
        /// Attempted action.
        action: String,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// The machine forbids a program's work.
    #[error("{what}: {reason}. {remedy}")]
    Forbidden {
        /// The program and the forbidden action.
        what: String,
        /// Origin of the prohibition.
        reason: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// An operating-system call failed.
    #[error("{action}: {source}")]
    Io {
        /// Attempted action.
        action: String,
        /// Error of the kernel.
        source: std::io::Error,
    },
    /// A namespace could not be made or entered.
    #[error(transparent)]
    Namespace(#[from] wattline_linux::namespace::NamespaceError),
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A file has unexpected contents.
    #[error("{path}: {reason}")]
    Data {
        /// The file.
        path: PathBuf,
        /// Problem, and the expected state.
        reason: String,
    },
    /// The virtual hardware lab is unavailable, or its guest failed.
    #[error("{what}{}{console}", if console.is_empty() { "" } else { "\nlast lines of its console:\n" })]
    Rig {
        /// Description of the failure.
        what: String,
        /// Tail of the guest's console, if any.
        console: String,
    },
    /// The generator alone, on a link without a device, holds no rate without loss, so it cannot
    /// measure a device.
    #[error(
        "no device can be measured: on {link}, without a device, the generator ({methods}) held no rate \
         with frames of {frames}, and at the last one {unsent_percent:.1} % of what was due was not sent \
         in time (1 % is allowed), or some did not arrive (flat out it sent {sent_rate_pps:.0} frames \
         per second and received {received_rate_pps:.0}). Other programs take the processors: repeat \
         on a quiet machine"
    )]
    Generator {
        /// Length of the frames, or name of the mix.
        frames: String,
        /// The link without a device.
        link: String,
        /// Methods of sending and receiving frames.
        methods: String,
        /// Share of the packets due at the last rate that were not sent in time, in per cent.
        unsent_percent: f64,
        /// Frames per second sent at full speed.
        sent_rate_pps: f64,
        /// Received rate.
        received_rate_pps: f64,
    },
    /// The router under test ended or did not come up.
    #[error("the router {what}; the end of its log: {log}")]
    Router {
        /// Description of the failure.
        what: String,
        /// Tail of its standard error.
        log: String,
    },
}

impl Error {
    /// Creates an operating-system error of `action`, as [`Error::Privilege`] if privileges are
    /// missing.
    pub fn io(action: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        let (action, source) = (action.into(), source.into());
        if source.kind() == std::io::ErrorKind::PermissionDenied {
            Self::Privilege { action, source }
        } else {
            Self::Io { action, source }
        }
    }
}
