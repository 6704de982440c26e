//! `wattline bench loop`: what the governor's loop itself costs.

use super::page::PageArgs;
use crate::commands::simulation;
use std::io::Write;
use wattline::exit::ExitError;
use wattline_bench::control_loop::{self, Report};

/// Policy and server.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Policy, as NAME or NAME:key=value,key=value.
    #[arg(long, default_value = "queue-length")]
    policy: String,
    /// Server model: name of a shipped one or a file.
    #[arg(long, default_value = "westmere-2010")]
    server: String,
    /// Decisions per measurement.
    #[arg(long, default_value_t = 100_000,
          value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    decisions: u64,
    /// Number of measurements; the median counts.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,
    #[command(flatten)]
    page: PageArgs,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.page.check()?;
    let mut problems = simulation::Problems::default();
    let server = problems.keep(simulation::server(&args.server));
    let policy = problems.keep(simulation::policy(&args.policy));
    problems.check()?;
    let (Some(server), Some(policy)) = (server, policy) else { return Ok(()) };
    let repeats = args.repeats.into();
    let wanted = control_loop::Args { policy, decisions: args.decisions, repeats };
    let report = control_loop::run(&wanted, &server)
        .map_err(|error| ExitError::new(ExitError::USAGE, error))?;
    args.page.write_and_print(control_loop::html, &report, json, table)
}

fn table(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let nanos = |seconds: f64| seconds * 1e9;
    writeln!(
        out,
        "{} on {} cores and {} queues: {:.0} ns per decision (quartiles {:.0} and {:.0}), {:.0} ns of them \
         to look; {:.4} changes and {:.3} moved entries per decision",
        report.policy,
        report.cores,
        report.queues,
        nanos(report.decision_seconds.median),
        nanos(report.decision_seconds.lower_quartile),
        nanos(report.decision_seconds.upper_quartile),
        nanos(report.observe_seconds.median),
        report.changes_per_decision,
        report.entries_moved_per_decision,
    )?;
    writeln!(
        out,
        "at 1000 decisions per second: {:.4} % of a core",
        100.0 * report.core_share_at_1000_per_second
    )?;
    writeln!(
        out,
        "planning the steps between two operating points: {:.0} ns (quartiles {:.0} and {:.0})",
        nanos(report.plan_seconds.median),
        nanos(report.plan_seconds.lower_quartile),
        nanos(report.plan_seconds.upper_quartile),
    )?;
    writeln!(out, "{}", report.timed)?;
    if report.calibration.disturbed {
        writeln!(out, "disturbed: the machine changed speed meanwhile; repeat for firm figures")?;
    }
    Ok(())
}
