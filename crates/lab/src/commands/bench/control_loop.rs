//! `wattline bench loop`: the cost of the governor's loop itself.

use crate::commands::page_file::PageFile;
use crate::commands::simulation;
use wattline::exit::ExitError;
use wattline_bench::control_loop;

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
    page: PageFile,
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
    args.page.show(control_loop::page(&report), &report, json)
}
