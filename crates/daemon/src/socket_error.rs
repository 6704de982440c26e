//! Errors of requests over the control socket.

use super::group::GROUP;
use std::io;
use std::path::PathBuf;

/// Reason for which a request failed.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// No daemon was found.
    #[error("no router or governor answers in {0}: start one, or name its socket with --socket")]
    None(PathBuf),
    /// More than one daemon was found.
    #[error("several routers or governors are running: choose one with --socket: {}", .0.join(", "))]
    Several(Vec<String>),
    /// This user may not open the socket.
    #[error(
        "this user may not open {path}: run this as root, or become a member of the group {GROUP} \
         (`usermod -aG {GROUP} USER`; the group must exist when the router starts)"
    )]
    NotAllowed {
        /// The socket, or its directory.
        path: PathBuf,
    },
    /// Others can replace the files in the directory of a socket.
    #[error(
        "{path}: {why}: another user could put a control socket of his own there; remove it, or set \
         XDG_RUNTIME_DIR to a directory of your own (mode 0700), or name another socket (socket = \
         \"PATH\" in the configuration, --socket PATH)"
    )]
    Untrusted {
        /// The directory, or one above it.
        path: PathBuf,
        /// Reason why it is not trusted.
        why: String,
    },
    /// A user other than root listens at the socket.
    #[error(
        "{path} belongs to {user}: only daemons of root and of this user are asked; name another \
         socket with --socket"
    )]
    Foreign {
        /// The socket.
        path: PathBuf,
        /// The user.
        user: String,
    },
    /// The daemon does not answer.
    #[error("nothing answers at {path}: {source}")]
    Silent {
        /// Its socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The daemon refused the request.
    #[error("the request was refused: {0}")]
    Refused(String),
    /// The daemon follows another contract than this program.
    #[error(transparent)]
    Contract(#[from] wattline_status::ContractError),
    /// The socket cannot be made.
    #[error("{path}: {source}; set socket = \"PATH\" in the configuration to use another path")]
    Bind {
        /// Path of the socket.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
