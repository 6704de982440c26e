//! `wattline report`: comparison of runs.

use crate::commands::overwrite::Overwrite;
use crate::commands::page_file;
use std::io::ErrorKind;
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline_report::runs::{Comparison, Run, RunError};

/// Runs, and figures to compare.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A folder with the results of a run: files *.json as `--json` prints them, one for each
    /// repetition. The others are compared with the first. All must be of one build of the program.
    #[arg(required = true, num_args = 2.., value_name = "DIR")]
    runs: Vec<PathBuf>,
    /// Only figures whose path contains this text, such as `watts`.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Show figures without a shown difference as well.
    #[arg(long)]
    all: bool,
    /// Write a page with all figures.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.overwrite.check(args.page.as_deref())?;
    let comparison =
        Comparison::new(Run::read_all(&args.runs).map_err(runs_error)?, args.only.as_deref());
    if comparison.figures.is_empty() {
        let only = args.only.as_deref().unwrap_or_default();
        let message = format!("--only \"{only}\": no figure of these runs has it in its path");
        return Err(ExitError::new(ExitError::DATA, message));
    }
    let page = comparison.page(args.all);
    page_file::show((args.page.as_deref(), args.overwrite), page, &comparison, json)
}

/// Returns the exit code and message of this error.
pub fn runs_error(error: RunError) -> ExitError {
    let code = match &error {
        RunError::Unreadable { source, .. } => match source.kind() {
            ErrorKind::PermissionDenied => ExitError::NO_PERMISSION,
            _ => ExitError::NO_INPUT,
        },
        RunError::TooMany { .. } | RunError::Mixed { .. } | RunError::Nothing { .. } => {
            ExitError::DATA
        }
    };
    ExitError::new(code, error)
}
