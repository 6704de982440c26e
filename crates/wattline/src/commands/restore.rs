//! `wattline restore`: undoes the changes of a killed run.

use super::root::Root;
use crate::exit::ExitError;
use crate::output;
use std::io::Write;
use wattline_knobs::restore::{Report, Restored};
use wattline_knobs::{Bounded, Machine, restore_commands, restore_now};

/// Machine to restore, and the form.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only print the shell commands that would undo the changes.
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    root: Root,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let tree = args.root.tree()?;
    let state = args.root.state();
    let mut out = output::stdout();
    if args.print {
        let undo = restore_commands(&tree, &state)?;
        if json {
            output::document(&mut out, &undo)?;
        } else {
            for command in &undo.commands {
                writeln!(out, "{command}")?;
            }
        }
        let damaged: Vec<String> = undo.bad_lines.iter().map(|line| damage(line)).collect();
        if damaged.is_empty() {
            return Ok(());
        }
        return Err(ExitError::new(ExitError::DATA, damaged.join("\n")).after_result());
    }
    let report = restore_now(&mut Bounded::new(Machine::new(&tree)), &tree, &state)?;
    if json {
        output::document(&mut out, &report)?;
    } else {
        for line in &report.lines {
            writeln!(out, "{line}")?;
        }
        if report.outlived > 0 {
            writeln!(out, "changes of an earlier boot ended with it; nothing to undo")?;
        } else if report.lines.is_empty() && report.bad_lines.is_empty() {
            writeln!(out, "nothing to undo")?;
        }
    }
    verdict(&report).map_err(ExitError::after_result)
}

/// Judges a restore: successful only if everything in the journal is undone, and the journal
/// removed.
///
/// # Errors
/// Lists settings that are not as they were, or not known to be.
pub(in crate::commands) fn verdict(report: &Report) -> Result<(), ExitError> {
    let mut problems: Vec<String> = report.failures().map(ToString::to_string).collect();
    let denied = |line: &wattline_knobs::restore::Line| {
        matches!(line.result, Restored::Failed { permission: true, .. })
    };
    let code = if report.failures().any(denied) {
        ExitError::NO_PERMISSION
    } else if !problems.is_empty() || report.journal_problem.is_some() {
        ExitError::IO
    } else {
        ExitError::DATA
    };
    let kept = problems.is_empty() && report.journal_problem.is_none();
    if let Some(problem) = &report.journal_problem {
        problems.push(format!("the journal cannot be put away: {problem}"));
    }
    problems.extend(report.bad_lines.iter().map(|line| damage(line)));
    if kept && !report.bad_lines.is_empty() {
        problems.push(
            "the journal is kept as knobs.journal.damaged: check whether it names settings that \
             still have the values of that run"
                .into(),
        );
    }
    if problems.is_empty() { Ok(()) } else { Err(ExitError::new(code, problems.join("\n"))) }
}

fn damage(line: &str) -> String {
    format!("journal, {line}: its changes are not undone")
}
