//! `wattline active`: how many workers serve traffic.

use super::ask::{Daemon, print_json};
use crate::exit::ExitError;
use crate::output;
use wattline_daemon::socket::Request;
use wattline_status::ActiveWorkers;

/// Number of workers, and the router.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of workers, from 1. The others block, but forward frames that reach them.
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,
    #[command(flatten)]
    daemon: Daemon,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let answer: ActiveWorkers = args.daemon.ask(Request::Active { workers: args.workers })?;
    if json {
        print_json(&mut output::stdout(), &answer)?;
    }
    Ok(())
}
