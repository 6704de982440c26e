//! `wattline envelope`: the lowest energy for a traffic, and schedules that keep the budget.

use super::simulation::{self, Problems};
use crate::commands::simulation::simulation_error;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use wattline::exit::ExitError;
use wattline::output;
use wattline::progress;
use wattline_league::{Budget, Case, Envelope, LeagueError, envelope};
use wattline_server::Application;
use wattline_units::{Accuracy, Provenance, Source, Span};

/// Parameters of the calculation.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Server model: name of a shipped one or a file.
    #[arg(long, default_value = "westmere-2010")]
    server: String,
    /// Traffic, such as `poisson:5Mpps,size=64`, or a TOML file.
    #[arg(long)]
    traffic: String,
    /// Latency that at most 1 % of the packets may exceed; none may be lost.
    #[arg(long, default_value = "100us", value_parser = simulation::span)]
    p99: Span,
    /// Simulated time of the measurement.
    #[arg(long, default_value = "1s", value_parser = simulation::span)]
    duration: Span,
    /// Simulated time before the measurement.
    #[arg(long, default_value = "100ms", value_parser = simulation::span)]
    warmup: Span,
    /// Application that processes each packet: ipv4, netflow, ipsec or re.
    #[arg(long, default_value = "ipv4", value_parser = simulation::application)]
    app: Application,
    /// Seed of the traffic.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EnvelopeOfTraffic")]
pub struct Output<'a> {
    server: &'a str,
    traffic: &'a str,
    application: Application,
    seed: u64,
    budget_seconds: f64,
    duration_seconds: f64,
    source: Source,
    accuracy: Accuracy,
    #[serde(flatten)]
    envelope: Envelope,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let mut problems = Problems::default();
    let server = problems.keep(simulation::server(&args.server));
    let traffic = problems.keep(simulation::traffic(&args.traffic));
    if args.duration == Span::ZERO {
        problems.note(ExitError::USAGE, "duration: 0s is not above zero; allowed: 1ns to 10 days");
    }
    problems.check()?;
    let (Some(server), Some(traffic)) = (server, traffic) else { return Ok(()) };
    let case = Case {
        server: &server,
        application: args.app,
        traffic: &traffic,
        duration: args.duration,
        warmup: args.warmup,
        seed: args.seed,
    };
    let found = progress::during("searching for the cheapest schedule", || {
        envelope(&case, Budget::p99(args.p99))
    })
    .map_err(league_error)?;
    let Provenance { source, accuracy } = Provenance::MODELLED;
    let result = Output {
        server: &server.name,
        traffic: &args.traffic,
        application: args.app,
        seed: args.seed,
        budget_seconds: args.p99.as_seconds(),
        duration_seconds: args.duration.as_seconds(),
        source,
        accuracy,
        envelope: found,
    };
    output::print(&result, json, |out, result| table(out, result))
}

fn table(out: &mut impl Write, output: &Output<'_>) -> std::io::Result<()> {
    let Envelope { lower_bound_joules: bound, feasible_joules, static_best_joules, .. } =
        output.envelope;
    let Some(bound) = bound else {
        writeln!(
            out,
            "no schedule keeps the budget: with all cores at their highest frequency more than 1 % of \
             the packets are late"
        )?;
        return writeln!(out, "{} packets; figures are modelled", output.envelope.packets);
    };
    let watts = bound / output.duration_seconds;
    writeln!(out, "{:<44} {bound:.4} J, {watts:.3} W", "lower bound of every schedule")?;
    let mut row = |name: &str, joules: Option<f64>| match joules {
        None => writeln!(out, "{name:<44} none keeps the budget"),
        Some(joules) => writeln!(
            out,
            "{name:<44} {joules:.4} J, {:.3} W, {:.2} % above the bound",
            joules / output.duration_seconds,
            (joules / bound - 1.0) * 100.0
        ),
    };
    row("best schedule found and simulated", feasible_joules)?;
    row("best constant operating point", static_best_joules)?;
    if let Some(point) = &output.envelope.static_best {
        writeln!(out, "{:<44} {point}", "  namely")?;
    }
    writeln!(out, "{} packets; figures are modelled", output.envelope.packets)
}

/// Returns the exit code and message of this error.
pub fn league_error(error: LeagueError) -> ExitError {
    let code = match error {
        LeagueError::Sim(error) => return simulation_error(error),
        LeagueError::Traffic(_) => ExitError::DATA,
        LeagueError::Build(_) | LeagueError::Budget { .. } => ExitError::USAGE,
        LeagueError::RandomService(_)
        | LeagueError::Application { .. }
        | LeagueError::File { .. }
        | LeagueError::Plan(_) => ExitError::CONFIG,
        LeagueError::Io { .. } | LeagueError::Absent => ExitError::IO,
    };
    ExitError::new(code, error)
}
