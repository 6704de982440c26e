//! `wattline bench costs`: converts the output of `bench app all --json` to a file of costs.

use serde::Serialize;
use std::io::Write as _;
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline::output;
use wattline_bench::app::costs;

/// Report to read, and the name of the costs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Output of `wattline bench app all --json`.
    #[arg(value_name = "FILE")]
    report: PathBuf,
    /// Name of the costs.
    #[arg(long, default_value = "measured")]
    name: String,
    /// Description of the machine; by default the processor's name in Linux.
    #[arg(long, value_name = "TEXT")]
    machine: Option<String>,
}

#[derive(Serialize)]
struct Output {
    toml: String,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let text = wattline_files::read_text(&args.report, wattline_files::MOST_TEXT)
        .map_err(|error| ExitError::no_input(&args.report, &error))?;
    let costs = costs(&text, &args.name, args.machine.as_deref()).map_err(|error| {
        let file = args.report.display();
        ExitError::new(ExitError::DATA, format_args!("{file}: {error}"))
    })?;
    let result = Output { toml: costs.to_toml() };
    output::print(&result, json, |out, result| write!(out, "{}", result.toml))
}
