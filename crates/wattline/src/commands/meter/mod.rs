//! `wattline meter`: list, read, record or break down power.

mod align;
mod attribute;
mod clock;
mod external;
mod list;
mod meters;
mod read;
mod reading;
mod record;

pub(super) use meters::unavailable;
pub use read::over;

use crate::exit::ExitError;
use meters::Meters;

/// Action on the meters.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    meters: Meters,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// List meters, their domains, and missing ones.
    List,
    /// Power over a short interval.
    Read(read::Args),
    /// Write readings as CSV until the time is over or a signal arrives.
    Record(record::Args),
    /// Find how late each meter shows a load, by loading all CPUs of an otherwise idle machine in
    /// steps.
    Align(align::Args),
    /// Attribute the power of a loaded machine to package, memory, card and rest, by subtracting
    /// the idle machine.
    Attribute(attribute::Args),
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    match &args.action {
        Action::List => list::run(&args.meters, json),
        Action::Read(read) => read::run(read, &args.meters, json),
        Action::Record(record) => record::run(record, &args.meters, json),
        Action::Align(align) => align::run(align, &args.meters, json),
        Action::Attribute(attribute) => attribute::run(attribute, &args.meters, json),
    }
}
