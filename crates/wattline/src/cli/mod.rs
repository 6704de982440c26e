//! The command line: parsing, groups and examples.

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
/// input/output error; 75 done in part, the rest needs a restart; 77 no permission; 78
/// configuration error.
#[derive(Debug, Parser)]
#[command(name = "wattline", version, about, long_about, verbatim_doc_comment)]
pub struct Cli<C: Subcommand> {
    /// Print one JSON document: the result, or the error.
    #[arg(long, global = true)]
    pub json: bool,
    /// Command to run.
    #[command(subcommand)]
    pub command: C,
}

/// Build of this program, as `--version` prints it.
static BUILD: LazyLock<String> = LazyLock::new(|| Build::default().to_string());

/// Adds groups, examples and the build to the command line of a program.
pub fn complete(line: Command, examples: &str, is_laboratory: bool) -> Command {
    groups::apply(examples::apply(line, examples), is_laboratory).version(BUILD.as_str())
}

/// Reads the arguments of this process.
///
/// # Errors
/// Fails if the arguments are wrong, and if help or the version is requested.
pub fn parse<C: Subcommand>(line: fn() -> Command) -> Result<Cli<C>, clap::Error> {
    let shown = |error| left_out(without_hidden(error, &line()));
    let matches = line().try_get_matches().map_err(shown)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut line()))
}

/// Removes hidden commands and aliases from the error, which clap lists if a command is missing.
fn without_hidden(mut error: clap::Error, line: &Command) -> clap::Error {
    let kind = ContextKind::ValidSubcommand;
    if let Some(ContextValue::Strings(names)) = error.get(kind) {
        let shown = names.iter().filter(|name| !is_hidden(line, name)).cloned().collect();
        error.insert(kind, ContextValue::Strings(shown));
    }
    error
}

/// Replaces the error if this program was built without the command, instead of suggesting another.
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

/// Returns true if a command at any level below `command` is hidden under this name.
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
    fn missing_command_is_named() {
        let line = Command::new("wattline").subcommand(Command::new("run"));
        let mut line = line.subcommand_required(true);
        let error = |line: &mut Command, word| {
            let result = line.try_get_matches_from_mut(["wattline", word]);
            left_out(result.unwrap_err()).to_string()
        };
        let message = error(&mut line, "new-keys");
        assert!(message.contains("wattline new-keys: this program was built without"), "{message}");
        assert!(error(&mut line, "new-key").contains("unrecognized subcommand"));
    }
}
