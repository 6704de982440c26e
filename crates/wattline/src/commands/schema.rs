//! `wattline schema`: the contract of daemons, and the documents of the laboratory.

use super::ask::print_json;
use crate::exit::ExitError;
use crate::{laboratory, output};

/// Documents to describe.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Documents to describe.
    #[arg(value_enum, default_value_t, value_name = "DOCUMENTS")]
    of: Documents,
}

/// Kinds of documents.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum Documents {
    /// Documents of a running router or governor.
    #[default]
    Daemon,
    /// Results of `sim`, `sweep`, `envelope` and `league`.
    Results,
}

/// Runs the command: the schema is JSON with and without `--json`.
pub fn run(args: &Args) -> Result<(), ExitError> {
    match args.of {
        Documents::Daemon => Ok(print_json(&mut output::stdout(), &wattline_status::schema())?),
        Documents::Results => Err(laboratory::hand_over("`schema results`")),
    }
}
