//! `wattline bench forward`: forwarding over veth, compared with the kernel and DPDK's l3fwd.

use crate::commands::errors::testbed_error;
use crate::commands::page_file::PageFile;
use std::path::PathBuf;
use std::time::Duration;
use wattline::exit::ExitError;
use wattline::progress::Counted;
use wattline_bench::forward::{self, Options};
use wattline_testbed::leftovers::clean_up_on_signals;

/// Competitors and durations.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// DPDK's l3fwd as built by bench/peers/build-l3fwd.sh; omitted by default.
    #[arg(long, value_name = "PROGRAM")]
    l3fwd: Option<PathBuf>,
    /// xdp-tools' xdp-forward, packaged or built by bench/peers/build-xdp-forward.sh; omitted by default.
    #[arg(long, value_name = "PROGRAM")]
    xdp_forward: Option<PathBuf>,
    /// Number of runs of each candidate, in turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds of measurement of each candidate per round.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    #[command(flatten)]
    page: PageFile,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.page.check()?;
    let options = Options {
        rounds: args.rounds,
        duration: Duration::from_secs(args.seconds),
        l3fwd: args.l3fwd.clone(),
        xdp_forward: args.xdp_forward.clone(),
    };
    let bar = Counted::new(forward::runs(&options) as u64, "runs");
    let report = clean_up_on_signals(|| forward::run(&options, || bar.step()));
    bar.end();
    let report = report.and_then(|report| report).map_err(testbed_error)?;
    args.page.show(forward::page(&report), &report, json)
}
