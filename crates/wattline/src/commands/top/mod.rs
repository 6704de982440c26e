//! `wattline top`: a running router at a glance.

mod frame;
mod screen;

pub use frame::bits;

use super::ask::Daemon;
use crate::exit::ExitError;
use crate::output;
use std::io::{IsTerminal, Write};
use std::time::Duration;
use wattline_daemon::settings::parse_duration;
use wattline_daemon::socket::Request;
use wattline_status::{Rates, Sample};

/// Router to watch, and the form.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    daemon: Daemon,
    /// Time between two samples.
    #[arg(long, default_value = "1s", value_parser = interval)]
    interval: Duration,
    /// Print one sample as text and exit, for scripts and without a terminal.
    #[arg(long)]
    once: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|span| (Duration::from_millis(100)..=Duration::from_secs(60)).contains(span))
        .ok_or_else(|| "a duration from 100ms to 60s, such as 500ms, is expected".to_owned())
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let look = || Ok(Sample::of(&args.daemon.ask(Request::Stats)?));
    let first: Sample = look()?;
    if !(json || args.once) {
        if std::io::stdout().is_terminal() && std::io::stdin().is_terminal() {
            return screen::run(first, args.interval, look);
        }
        let message = "top needs a terminal; --once or --json print one sample";
        return Err(ExitError::new(ExitError::USAGE, message));
    }
    std::thread::sleep(args.interval);
    let rates = Rates::between(&first, &look()?);
    output::print(&rates, json, |out, rates| write!(out, "{}", frame::text(rates)))
}
