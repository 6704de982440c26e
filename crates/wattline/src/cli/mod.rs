//! The command line: what is parsed, with its groups and examples.

mod examples;
#[cfg(test)]
mod golden;
mod groups;

use crate::commands;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser};
use std::sync::LazyLock;
use wattline_units::Build;

/// A software router and energy governor whose power follows its traffic.
///
/// Exit codes: 0 done; 1 an audit found a difference; 2 usage; 65 bad data; 66 an input cannot be
/// opened; 69 hardware or kernel feature missing; 74 input/output error; 75 done in part, the rest
/// needs a restart; 77 no permission; 78 configuration error.
#[derive(Debug, Parser)]
#[command(name = "wattline", version, about, long_about, verbatim_doc_comment)]
pub struct Cli {
    /// Print one JSON document: the result, or the error.
    #[arg(long, global = true)]
    pub json: bool,
    /// What is asked for.
    #[command(subcommand)]
    pub command: commands::Command,
}

/// Build of this program, as `--version` prints it.
static BUILD: LazyLock<String> = LazyLock::new(|| Build::default().to_string());

/// The whole command line as clap knows it: help, manual pages, completions and the reference page
/// are all made from it.
pub fn line() -> clap::Command {
    groups::apply(examples::apply(Cli::command())).version(BUILD.as_str())
}

/// Reads the arguments of this process.
///
/// # Errors
/// When they are wrong, and when help or the version is asked for.
pub fn parse() -> Result<Cli, clap::Error> {
    let matches = line().try_get_matches().map_err(without_hidden).map_err(left_out)?;
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut line()))
}

/// The error without hidden commands and aliases, which clap lists where a command is missing.
fn without_hidden(mut error: clap::Error) -> clap::Error {
    let kind = ContextKind::ValidSubcommand;
    if let Some(ContextValue::Strings(names)) = error.get(kind) {
        let line = line();
        let shown = names.iter().filter(|name| !is_hidden(&line, name)).cloned().collect();
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
fn is_hidden(command: &clap::Command, name: &str) -> bool {
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
    fn lists_take_commas_as_well_as_repetition() {
        for (commas, repeated) in [
            ("wattline reproduce bolla,sohan --out x", "wattline reproduce bolla sohan --out x"),
            ("wattline demo --capture a,b", "wattline demo --capture a --capture b"),
            #[cfg(feature = "bench-app")]
            (
                "wattline bench app ipv4 --capture a,b",
                "wattline bench app ipv4 --capture a --capture b",
            ),
        ] {
            let read = |text: &str| format!("{:?}", Cli::try_parse_from(text.split(' ')).unwrap());
            assert_eq!(read(commas), read(repeated));
        }
    }

    #[test]
    fn command_that_was_left_out_is_named() {
        let line = clap::Command::new("wattline").subcommand(clap::Command::new("run"));
        let mut line = line.subcommand_required(true);
        let error = |line: &mut clap::Command, word| {
            let result = line.try_get_matches_from_mut(["wattline", word]);
            left_out(result.unwrap_err()).to_string()
        };
        assert!(error(&mut line, "sim").contains("wattline sim: this program was built without"));
        assert!(error(&mut line, "simm").contains("unrecognized subcommand"));
    }

    #[test]
    fn american_spelling_is_understood_and_not_shown() {
        let alike = |american: &str, british: &str| {
            let read = |text: &str| {
                let words = text.split(' ');
                let cli =
                    Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{text}: {error}"));
                format!("{cli:?}")
            };
            assert_eq!(read(american), read(british));
        };
        alike(
            "wattline optimize --server westmere-2010 --target 5Mpps",
            "wattline optimise --server westmere-2010 --target 5Mpps",
        );
        alike("wattline show neighbors", "wattline show neighbours");
        alike(
            "wattline bench eer --class data-center --stabilization 2ms",
            "wattline bench eer --class data-centre --stabilisation 2ms",
        );
        let help = line().render_long_help().to_string();
        assert!(help.contains("optimise") && !help.contains("optimize"), "{help}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        line().debug_assert();
    }
}
