//! `wattline schema`: the contract of daemons.

use super::ask::print_json;
use crate::exit::ExitError;
use crate::output;

/// Nothing to choose.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Runs the command: the schema is JSON with and without `--json`.
pub fn run() -> Result<(), ExitError> {
    Ok(print_json(&mut output::stdout(), &wattline_status::schema())?)
}
