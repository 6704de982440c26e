//! The command line: what is parsed, with its groups and examples.

mod examples;
mod groups;

pub use examples::{EXAMPLES, sections, text};
pub use groups::GROUPS;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, FromArgMatches, Parser, Subcommand};
use std::sync::LazyLock;
use wattline_units::Build;

/// A software router and energy governor whose power follows its traffic.
///
/// Exit codes: 0 done; 1 an audit found a difference; 2 usage; 3 an audit compared nothing; 65 bad
/// data; 66 an input cannot be opened; 69 hardware, kernel feature or laboratory missing; 74
/// input/output error; 75 done in part, the rest needs a restart; 77 no permission; 78 configuration
/// error.
#[derive(Debug, Parser)]
#[command(name = "wattline", version, about, long_about, verbatim_doc_comment)]
pub struct Cli<C: Subcommand> {
    /// Print one JSON document: the result, or the error.
    #[arg(long, global = true)]
    pub json: bool,
    /// What is asked for.
    #[command(subcommand)]
    pub command: C,
}

/// Build of this program, as `--version` prints it.
static BUILD: LazyLock<String> = LazyLock::new(|| Build::default().to_string());

/// Gives the command line of a program groups, examples and the build.
pub fn complete(line: Command, examples: &str, is_laboratory: bool) -> Command {
    groups::apply(examples::apply(line, examples), is_laboratory).version(BUILD.as_str())
}

/// Reads the arguments of this process.
///
/// # Errors
/// When they are wrong, and when help or the version is asked for.
pub fn parse<C: Subcommand>(line: fn() -> Command) -> Result<Cli<C>, clap::Error> {
    let shown = |error| left_out(without_hidden(error, &line()));
    let matches = line().try_get_matches().map_err(shown)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut line()))
}

/// The error without hidden commands and aliases, which clap lists where a command is missing.
fn without_hidden(mut error: clap::Error, line: &Command) -> clap::Error {
    let kind = ContextKind::ValidSubcommand;
    if let Some(ContextValue::Strings(names)) = error.get(kind) {
        let shown = names.iter().filter(|name| !is_hidden(line, name)).cloned().collect();
        error.insert(kind, ContextValue::Strings(shown));
    }
    error
}

/// The error of a command that this program was built without: says so instead of guessing another.
fn left_out(error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    if !groups::GROUPS.iter().any(|(_, names)| names.contains(&name.as_str())) {
        return error;
    }
    let message = format!(
        "wattline {name}: this program was built without it; Cargo's default features build all commands\n"
    );
    clap::Error::raw(ErrorKind::InvalidSubcommand, message)
}

/// Whether a command at any level below this one is hidden under this name.
fn is_hidden(command: &Command, name: &str) -> bool {
    command.get_subcommands().any(|command| {
        command.is_hide_set() && command.get_name() == name
            || command.get_all_aliases().any(|alias| alias == name)
            || is_hidden(command, name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_that_was_left_out_is_named() {
        let line = Command::new("wattline").subcommand(Command::new("run"));
        let mut line = line.subcommand_required(true);
        let error = |line: &mut Command, word| {
            let result = line.try_get_matches_from_mut(["wattline", word]);
            left_out(result.unwrap_err()).to_string()
        };
        let told = error(&mut line, "new-keys");
        assert!(told.contains("wattline new-keys: this program was built without"), "{told}");
        assert!(error(&mut line, "new-key").contains("unrecognized subcommand"));
    }
}
