//! `wattline nics choose`: the best card within budgets.

use serde::Serialize;
use std::io::Write;
use wattline::exit::ExitError;
use wattline::output;
use wattline_report::columns::{Columns, cell, number, text};
use wattline_server::ComponentFile;
use wattline_study::cards::{Candidate, HostPower, Need, choose};
use wattline_units::{BitsPerSecond, Watts};

/// Load of the cards, and the budgets.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Throughput to carry, both directions together, such as 16Gbit/s.
    #[arg(long, value_name = "RATE")]
    throughput: BitsPerSecond,
    /// Highest use of the host's processors, in percent of one processor (four are 400).
    #[arg(long, value_name = "PERCENT")]
    cpu_budget: Option<f64>,
    /// Number of card slots; cards of one kind fill as many as they need.
    #[arg(long, default_value_t = 1)]
    slots: usize,
    /// Highest power of all cards together, such as 15W.
    #[arg(long, value_name = "POWER")]
    power: Option<Watts>,
    /// The idle server's power; with --watts-per-cpu-percent the whole server is compared.
    #[arg(long, value_name = "POWER", requires = "watts_per_cpu_percent")]
    server_idle: Option<Watts>,
    /// Power of the server for each percent of one processor, in watts.
    #[arg(long, value_name = "WATTS", requires = "server_idle")]
    watts_per_cpu_percent: Option<f64>,
}

#[derive(Serialize)]
struct Choice<'c> {
    source: &'c str,
    throughput_bits_per_second: f64,
    best: Option<&'c Candidate>,
    candidates: &'c [Candidate],
}

/// Runs the command.
pub fn run(file: &ComponentFile, args: &Args, json: bool) -> Result<(), ExitError> {
    if let Some(watts) = args.watts_per_cpu_percent.filter(|w| !(w.is_finite() && *w >= 0.0)) {
        let message = format!("--watts-per-cpu-percent is {watts}; allowed: 0 or more");
        return Err(ExitError::new(ExitError::USAGE, message));
    }
    let host = args.server_idle.zip(args.watts_per_cpu_percent);
    let need = Need {
        throughput: args.throughput,
        host_cpu_percent: args.cpu_budget,
        slots: args.slots,
        power: args.power,
        host: host.map(|(idle, watts)| HostPower { idle, per_cpu_percent: Watts(watts) }),
    };
    let candidates = choose(&file.cards, &need)
        .map_err(|error| ExitError::new(ExitError::USAGE, format!("--{error}")))?;
    let best = candidates.first().filter(|candidate| candidate.fits());
    let choice = Choice {
        source: &file.source,
        throughput_bits_per_second: need.throughput.0,
        best,
        candidates: &candidates,
    };
    output::print(&choice, json, |out, choice| {
        let mut table = Columns::new([
            text("card"),
            number("slots"),
            number("most Gbit/s"),
            number("cards W"),
            number("CPU %"),
            number("server W"),
            text("remarks"),
        ]);
        for candidate in choice.candidates {
            let remarks = match choice.best == Some(candidate) {
                true => "best".to_owned(),
                false => candidate.obstacles.join("; "),
            };
            table.row([
                candidate.name.clone(),
                candidate.slots.to_string(),
                cell(Some(candidate.most_throughput.0 / 1e9), 1),
                cell(candidate.power.map(|watts| watts.0), 1),
                cell(candidate.host_cpu_percent, 0),
                cell(candidate.server.map(|watts| watts.0), 1),
                remarks,
            ]);
        }
        writeln!(
            out,
            "{table}\nCPU in proportion to the throughput, power as under full load; from {}",
            choice.source
        )
    })?;
    match best {
        Some(_) => Ok(()),
        None => Err(ExitError::new(
            ExitError::DATA,
            format_args!(
                "no kind of card carries this {}; the remarks have the reasons. --slots, \
                 --power and --cpu-budget are the limits",
                limits(args)
            ),
        )),
    }
}

/// Describes the limits in force, including defaults.
fn limits(args: &Args) -> String {
    let slots = if args.slots == 1 { "slot" } else { "slots" };
    let mut limits = format!("in {} {slots}", args.slots);
    limits.extend(args.power.map(|watts| format!(", within {} W", watts.0)));
    limits.extend(args.cpu_budget.map(|percent| format!(", with {percent} % of the CPU")));
    limits
}
