//! Why there is no result.

use std::path::PathBuf;
use wattline_fib::routes_file::RoutesFileError;
use wattline_fib::{FibError, Kernel};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table cannot be read.
    #[error(transparent)]
    Routes(#[from] RoutesFileError),
    /// The file holds no prefix.
    #[error("{}: holds no prefix", .0.display())]
    Empty(PathBuf),
    /// The table does not take the prefixes.
    #[error(transparent)]
    Table(#[from] FibError),
    /// The processor lacks what was asked for.
    #[error("this processor cannot look up by {}; {} is always there", .0.name(), Kernel::Scalar.name())]
    Kernel(Kernel),
    /// The distribution refuses its parameters.
    #[error("no Zipf distribution: {0}")]
    Zipf(rand_distr::ZipfError),
    /// The harness cannot be started or does not answer.
    #[error(
        "{}: {source}; `make -C bench/peers` builds it where libdpdk-dev is installed",
        program.display()
    )]
    Peer {
        /// The harness.
        program: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// A file for the harness cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
}
