//! `wattline bench breakdown`: processor time per packet in the kernel's stack.

use super::page::with_progress;
use crate::commands::errors::testbed_error;
use crate::commands::overwrite::Overwrite;
use crate::commands::page_file::show;
use std::path::PathBuf;
use std::time::Duration;
use wattline::exit::ExitError;
use wattline_bench::breakdown::{self, Options, Perf, page};
use wattline_testbed::leftovers::clean_up_on_signals;

/// Name of the page.
const PAGE: &str = "wattline-breakdown.html";

/// Work of iperf3, and its duration.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Bytes of each write and read, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "64,512,1024,4096,16384,65536")]
    io: Vec<u32>,
    /// Connections.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=128))]
    connections: u32,
    /// Seconds of sampling for each.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Segmentation and checksum offload and GRO: on, off or both in turn.
    #[arg(long, value_enum, default_value_t = Offloads::Both)]
    offloads: Offloads,
    /// Leave out forwarding by the kernel, workers and XDP programs.
    #[arg(long)]
    no_forwarding: bool,
    /// File for the page.
    #[arg(long, value_name = "FILE", default_value = PAGE)]
    page: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Offloads {
    /// With offloads.
    On,
    /// Without offloads.
    Off,
    /// Both in turn.
    Both,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.overwrite.check([args.page.as_path()])?;
    if let Some(wrong) = args.io.iter().find(|bytes| !(1..=1 << 20).contains(*bytes)) {
        let problem = format!("--io {wrong}: expected 1 to 1048576 bytes");
        return Err(ExitError::new(ExitError::USAGE, problem));
    }
    let options = Options {
        io_bytes: args.io.clone(),
        connections: args.connections,
        duration: Duration::from_secs(args.seconds),
        offloads: match args.offloads {
            Offloads::On => vec![true],
            Offloads::Off => vec![false],
            Offloads::Both => vec![true, false],
        },
        forwarding: !args.no_forwarding,
        perf: Perf::default(),
    };
    let report = with_progress(|progress| {
        clean_up_on_signals(|| breakdown::run(&options, progress)).and_then(|report| report)
    })
    .map_err(testbed_error)?;
    show((Some(&args.page), args.overwrite), page(&report), &report, json)
}
