//! Errors of the lookup benchmark.

use std::path::PathBuf;
use wattline_fib::routes_file::RoutesFileError;
use wattline_fib::{FibError, SimdLevel};

/// Reasons why the benchmark has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file of routes cannot be read.
    #[error(transparent)]
    Routes(#[from] RoutesFileError),
    /// The file of routes holds no prefix.
    #[error("{}: contains no prefix", .0.display())]
    Empty(PathBuf),
    /// The table refuses the prefixes.
    #[error(transparent)]
    Table(#[from] FibError),
    /// The processor lacks the requested instructions.
    #[error("this processor does not support {} lookups; {} is always available", .0.name(), SimdLevel::Scalar.name())]
    SimdLevel(SimdLevel),
    /// The Zipf distribution refuses its parameters.
    #[error("no Zipf distribution: {0}")]
    Zipf(rand_distr::ZipfError),
    /// The harness cannot be started or does not answer.
    #[error(
        "{}: {source}; `make -C bench/peers` builds it where libdpdk-dev is installed",
        program.display()
    )]
    Peer {
        /// Path of the harness.
        program: PathBuf,
        /// Cause of the failure.
        source: std::io::Error,
    },
    /// A file for the harness cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },
}
