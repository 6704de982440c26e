//! `wattline restore`: undo what a run that was killed left behind.

use super::root::Root;
use crate::exit::ExitError;
use serde_json::json;
use std::io::Write;
use wattline_knobs::restore::Restored;
use wattline_knobs::{Bounded, Machine, restore_commands, restore_now};

/// What to undo, and how.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print shell commands that undo it, and touch nothing.
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    root: Root,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let tree = args.root.tree()?;
    let state = args.root.state();
    let mut out = std::io::stdout().lock();
    if args.print {
        let commands = restore_commands(&tree, &state)?;
        if json {
            writeln!(out, "{}", json!({ "commands": commands }))?;
        } else {
            for command in commands {
                writeln!(out, "{command}")?;
            }
        }
        return Ok(());
    }
    let report = restore_now(&mut Bounded::new(Machine::new(&tree)), &tree, &state)?;
    if json {
        writeln!(out, "{}", json!(report))?;
    } else {
        for line in &report.lines {
            writeln!(out, "{line}")?;
        }
        for line in &report.bad_lines {
            writeln!(out, "journal, {line}; the journal is kept as knobs.journal.damaged")?;
        }
        if report.outlived > 0 {
            writeln!(out, "changes of an earlier boot ended with it; nothing to undo")?;
        } else if report.lines.is_empty() && report.bad_lines.is_empty() {
            writeln!(out, "nothing to undo")?;
        }
    }
    let failed: Vec<String> = report.failures().map(ToString::to_string).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let denied = |line: &wattline_knobs::restore::Line| {
        matches!(line.result, Restored::Failed { permission: true, .. })
    };
    let code = if report.failures().any(denied) { ExitError::NO_PERMISSION } else { ExitError::IO };
    Err(ExitError::new(code, failed.join("\n")))
}
