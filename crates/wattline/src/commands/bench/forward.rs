//! `wattline bench forward`: forwarding over veth, beside the kernel and DPDK's l3fwd.

use crate::exit::ExitError;
use crate::output;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use wattline_lab::bench::forward::{self, Options, Report};
use wattline_lab::leftovers::clean_up_on_signals;

/// Beside whom, and how long.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// DPDK's l3fwd as built by bench/peers/build-l3fwd.sh; left out without this.
    #[arg(long, value_name = "PROGRAM")]
    l3fwd: Option<PathBuf>,
    /// How often each contestant runs, in turns.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds that a contestant is measured in each round.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let options = Options {
        rounds: args.rounds,
        duration: Duration::from_secs(args.seconds),
        l3fwd: args.l3fwd.clone(),
    };
    let report = clean_up_on_signals(|| forward::run(&options))
        .and_then(|report| report)
        .map_err(|error| ExitError::new(ExitError::UNAVAILABLE, error))?;
    output::print(&report, json, table)
}

fn table(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    writeln!(
        out,
        "{:20}{:9}{:>9}{:>11}{:>15}{:>11}{:>11}{:>12}",
        "",
        "receiver",
        "offered",
        "forwarded",
        "CPU ns/packet",
        "processors",
        "Mpps per",
        "CPU second"
    )?;
    writeln!(
        out,
        "{:20}{:9}{:>9}{:>11}{:>15}{:>11}{:>11}{:>12}",
        "", "", "Mpps", "Mpps", "", "", "all", "own threads"
    )?;
    for standing in &report.results {
        let share = standing.rounds.iter().map(|round| round.cpu_share).sum::<f64>()
            / standing.rounds.len().max(1) as f64;
        let own = standing
            .rate_per_own_cpu_second_pps
            .map_or_else(|| "-".to_owned(), |rate| format!("{:.3}", rate / 1e6));
        writeln!(
            out,
            "{:20}{:9}{:9.3}{:11.3}{:15.0}{:11.2}{:11.3}{:>12}",
            standing.name,
            standing.placement.name(),
            standing.offered_rate_pps / 1e6,
            standing.rate_pps / 1e6,
            standing.cpu_seconds_per_packet * 1e9,
            share,
            standing.rate_per_cpu_second_pps / 1e6,
            own,
        )?;
    }
    writeln!(out, "{}", report.note)
}
