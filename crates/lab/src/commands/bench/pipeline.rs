//! `wattline bench pipeline`: the whole IPv4 graph between memory ports on one core.

use crate::commands::page_file::PageFile;
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline_bench::pipeline::{self, Error};
use wattline_dataplane::frame::BATCH_MAX;
use wattline_fib::routes_file::RoutesFileError;

/// Table and load.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File with one prefix per line; the rest of a line and IPv6 are ignored.
    #[arg(long, value_name = "FILE")]
    routes: PathBuf,
    /// Length of a frame in bytes with its frame check sequence.
    #[arg(long, value_name = "BYTES", default_value_t = 64,
          value_parser = clap::value_parser!(u16).range(64..=1518))]
    packet_size: u16,
    /// Frames per batch.
    #[arg(long, default_value_t = BATCH_MAX as u16,
          value_parser = clap::value_parser!(u16).range(1..=BATCH_MAX as i64))]
    batch: u16,
    /// Number of measurements; the median counts.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    #[command(flatten)]
    page: PageFile,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.page.check()?;
    let report = pipeline::run(&pipeline::Args {
        routes: args.routes.clone(),
        packet_size: args.packet_size.into(),
        batch: args.batch.into(),
        repeats: args.repeats.into(),
    })
    .map_err(failed)?;
    args.page.show(pipeline::page(&report), &report, json)
}

/// Returns the exit code of a failed benchmark between memory ports.
pub(super) fn failed(error: Error) -> ExitError {
    let code = match &error {
        Error::Routes(RoutesFileError::Unreadable { .. }) => ExitError::NO_INPUT,
        Error::Argument { .. } | Error::Unknown { .. } => ExitError::USAGE,
        Error::Peer { .. } => ExitError::UNAVAILABLE,
        _ => ExitError::DATA,
    };
    ExitError::new(code, error)
}
