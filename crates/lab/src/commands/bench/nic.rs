//! `wattline bench nic`: this machine's network cards, and the throughput of a pair.

use super::page::with_progress;
use crate::commands::errors::testbed_error;
use crate::commands::page_file::PageFile;
use wattline::commands::duration;
use wattline::exit::ExitError;
use wattline_bench::nic::{Options, Report, measure, page, probe};
use wattline_linux::sysfs::Tree;
use wattline_units::Span;

/// Interfaces to measure.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show interfaces without hardware as well.
    #[arg(long)]
    all: bool,
    /// Measure the cable from this interface, [NAMESPACE/]INTERFACE: five TCP streams. Needs root.
    #[arg(long, value_name = "INTERFACE", requires = "to")]
    from: Option<String>,
    /// The interface at the other end of the cable, in another network namespace.
    #[arg(long, value_name = "INTERFACE", requires = "from")]
    to: Option<String>,
    /// Duration of a run.
    #[arg(long, default_value = "10s", value_parser = duration::parse)]
    duration: Span,
    /// Most runs of each state, until three in a row lie within 3 %.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u8).range(3..=100))]
    runs: u8,
    /// Meter of the card: a name of `meter list`, or the file of an external meter.
    #[arg(long, value_name = "METER", requires = "from")]
    card_meter: Option<String>,
    /// Resistance of that meter's shunt, in ohms.
    #[arg(long, value_name = "OHMS", requires = "card_meter")]
    shunt_ohms: Option<f64>,
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
            interfaces: [from.clone(), to.clone()],
            duration: args.duration.into(),
            most_runs: args.runs.into(),
            card_meter: args.card_meter.clone(),
            shunt_ohms: args.shunt_ohms,
        };
        measured =
            Some(with_progress(|progress| measure(&options, progress)).map_err(testbed_error)?);
    }
    let report = Report { cards, measured };
    args.page.show(page(&report), &report, json)
}
