//! `wattline clear`: counters of a running router restart at 0.

use super::ask::{Daemon, print_json};
use crate::exit::ExitError;
use crate::output;
use wattline_daemon::socket::Request;
use wattline_status::Empty;

/// Counters to clear.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    subject: Subject,
    #[command(flatten)]
    daemon: Daemon,
}

#[derive(Debug, Clone, Copy, clap::Subcommand)]
enum Subject {
    /// Packets, ports, workers and nodes in `stats`, `top` and `graph` restart at 0. Metrics and
    /// the account at the end go on from the start.
    Counters,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let answer: Empty = match args.subject {
        Subject::Counters => args.daemon.ask(Request::ClearCounters)?,
    };
    if json {
        print_json(&mut output::stdout(), &answer)?;
    }
    Ok(())
}
