//! `wattline bench nic`: this machine's network cards, and what a pair of them carries.

use super::page::with_progress;
use crate::commands::errors::testbed_error;
use crate::commands::page_file::PageFile;
use wattline::commands::duration;
use wattline::exit::ExitError;
use wattline_bench::nic::{Options, Report, measure, page, probe};
use wattline_linux::sysfs::Tree;
use wattline_testbed::packets::Sizes;
use wattline_units::Span;

/// Interfaces to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show interfaces without hardware as well.
    #[arg(long)]
    all: bool,
    /// Send from this interface, [NAMESPACE/]INTERFACE, as fast as it goes. Needs root.
    #[arg(long, value_name = "INTERFACE", requires = "to")]
    from: Option<String>,
    /// The interface at the other end of the cable.
    #[arg(long, value_name = "INTERFACE", requires = "from")]
    to: Option<String>,
    /// Queues of each interface.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    queues: u32,
    /// Lengths of frames, divided by commas.
    #[arg(long, value_delimiter = ',', default_value = "64,512,1518")]
    sizes: Vec<Sizes>,
    /// How long each length is sent, and power is read without data.
    #[arg(long, default_value = "3s", value_parser = duration::parse)]
    duration: Span,
    #[command(flatten)]
    page: PageFile,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.page.check()?;
    let cards = probe(&Tree::live(), args.all);
    let mut measured = None;
    if let (Some(from), Some(to)) = (&args.from, &args.to) {
        let options = Options {
            from: from.clone(),
            to: to.clone(),
            queues: args.queues,
            sizes: args.sizes.clone(),
            duration: args.duration.into(),
        };
        measured = Some(with_progress(|tell| measure(&options, tell)).map_err(testbed_error)?);
    }
    let report = Report { cards, measured };
    args.page.show(page(&report), &report, json)
}
