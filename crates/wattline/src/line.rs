//! The command line of this program, alone and with the commands of the laboratory.

use crate::cli::{self, Cli};
use crate::{commands, laboratory};
use clap::{Command, CommandFactory};

/// Returns the command line of this program. It only names the commands of the laboratory, which
/// are handed over before the line is parsed.
pub fn own() -> Command {
    let named = |(name, about)| Command::new(name).about(about);
    let line = Cli::<commands::Command>::command().subcommands(laboratory::COMMANDS.map(named));
    cli::complete(line, "", false)
}

/// Returns the commands of this program and the given ones of the laboratory, with examples.
pub fn with_laboratory(commands: impl IntoIterator<Item = Command>, examples: &str) -> Command {
    let line = Cli::<commands::Command>::command();
    cli::complete(line.subcommands(commands), examples, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn american_spelling_is_understood_and_not_shown() {
        let read = |text: &str| {
            let cli = Cli::<commands::Command>::try_parse_from(text.split(' ')).unwrap();
            format!("{cli:?}")
        };
        assert_eq!(read("wattline show neighbors"), read("wattline show neighbours"));
        let help = own().render_long_help().to_string();
        assert!(help.contains("Laboratory (wattline-lab): sim,"), "{help}");
        assert!(help.contains("optimise") && !help.contains("optimize"), "{help}");
    }

    #[test]
    fn command_line_is_consistent() {
        own().debug_assert();
    }
}
