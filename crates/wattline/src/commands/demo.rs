//! `wattline demo`: real traffic by the kernel, then by Wattline, side by side.

use crate::exit::ExitError;
use crate::output;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use wattline_control::config::parse_duration;
use wattline_lab::demo::{Settings, run as demonstrate};
use wattline_lab::forwarder::Mode;
use wattline_lab::leftovers::clean_up_on_signals;
use wattline_lab::probe::Load;

/// What to send, and for how long.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How long each forwarder works on each traffic.
    #[arg(long, default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Packets per second that are offered.
    #[arg(long, default_value_t = 20_000.0)]
    rate: f64,
    /// Flows of the mix; every other one is IPv6.
    #[arg(long, default_value_t = 64)]
    flows: u16,
    /// A capture (pcap or pcapng) whose packets are forwarded too; may be given several times.
    #[arg(long, value_name = "FILE")]
    capture: Vec<PathBuf>,
    /// What Wattline's worker does when there is no work.
    #[arg(long, value_enum, default_value_t = ModeArgument::Adaptive)]
    mode: ModeArgument,
}

/// [`Mode`] on the command line.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ModeArgument {
    /// Polls its queues all the time.
    Poll,
    /// Blocks until something arrives.
    Interrupt,
    /// Polls while there is work, then blocks.
    Adaptive,
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|duration| (1..=3600).contains(&duration.as_secs()))
        .ok_or_else(|| "a duration from 1s to 1h, such as 20s or 2min, is expected".to_owned())
}

/// Runs the command.
pub fn run(args: Args, json: bool) -> Result<(), ExitError> {
    let binary = std::env::current_exe()
        .map_err(|error| ExitError::new(ExitError::IO, format!("finding this program: {error}")))?;
    let load =
        Load { rate_pps: args.rate, duration: args.duration, flows: args.flows, ..Load::default() };
    let mode = match args.mode {
        ModeArgument::Poll => Mode::Poll,
        ModeArgument::Interrupt => Mode::Interrupt,
        ModeArgument::Adaptive => Mode::Adaptive,
    };
    let settings = Settings { load, captures: args.capture, mode, binary };
    let report = clean_up_on_signals(|| demonstrate(&settings))??;
    output::print(&report, json, |out, report| write!(out, "{report}"))
}
