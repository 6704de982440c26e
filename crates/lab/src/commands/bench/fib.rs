//! `wattline bench fib`: longest-prefix match over a given table.

use crate::commands::page_file::PageFile;
use std::io::IsTerminal;
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline::output::note;
use wattline_bench::fib::{self, Error, Options};
use wattline_fib::SimdLevel;
use wattline_fib::routes_file::RoutesFileError;

/// Table, and its competitors.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// File with one prefix per line, optionally followed by a next hop; # begins a comment.
    #[arg(long, value_name = "FILE")]
    routes: PathBuf,
    /// Measure DPDK's rte_fib in the same run, by this harness (see bench/peers).
    #[arg(
        long,
        value_name = "PROGRAM",
        num_args = 0..=1,
        default_missing_value = "target/peers/dpdk-fib"
    )]
    peer: Option<PathBuf>,
    /// Passes over each set of addresses.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    /// Look up with this kernel instead of the best one for this processor.
    #[arg(long, value_parser = kernel)]
    kernel: Option<SimdLevel>,
    #[command(flatten)]
    page: PageFile,
}

fn kernel(name: &str) -> Result<SimdLevel, String> {
    let names = SimdLevel::ALL.map(SimdLevel::name).join(" or ");
    let found = SimdLevel::ALL.into_iter().find(|kernel| kernel.name() == name);
    found.ok_or_else(|| format!("{names} is allowed"))
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.page.check()?;
    let options = Options {
        routes: args.routes.clone(),
        repeats: args.repeats.into(),
        peer: args.peer.clone(),
        level: args.kernel,
    };
    let show_progress = std::io::stderr().is_terminal();
    let report = fib::run(&options, |step| {
        if show_progress {
            note!("{step} ...");
        }
    })
    .map_err(|error| {
        let code = match &error {
            Error::Routes(RoutesFileError::Unreadable { .. }) => ExitError::NO_INPUT,
            Error::Routes(_) | Error::Empty(_) | Error::Table(_) => ExitError::DATA,
            Error::Peer { .. } | Error::SimdLevel(_) => ExitError::UNAVAILABLE,
            Error::Zipf(_) | Error::Write { .. } => ExitError::IO,
        };
        ExitError::new(code, error)
    })?;
    args.page.show(fib::page(&report), &report, json)
}
