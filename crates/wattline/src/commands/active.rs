//! `wattline active`: how many workers serve traffic.

use super::ask::Which;
use crate::exit::ExitError;
use crate::output;
use std::io::Write;
use wattline_daemon::socket::Request;

/// How many, of which router.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of workers, from 1. The others block and still forward what reaches them.
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let answer = args.which.ask(Request::Active { workers: args.workers })?;
    if json {
        writeln!(output::stdout(), "{answer:#}")?;
    }
    Ok(())
}
