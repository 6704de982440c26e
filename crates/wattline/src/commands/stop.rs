//! `wattline stop`: the end of a router.

use super::ask::Which;
use crate::exit::ExitError;
use std::io::Write;
use wattline_daemon::socket::Request;

/// Which router.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let answer = args.which.ask(Request::Stop)?;
    if json {
        writeln!(std::io::stdout(), "{answer:#}")?;
    }
    Ok(())
}
