//! The command lines of this program, and of both programs together.

use clap::{Command, CommandFactory, Subcommand};
use wattline::cli::{self, Cli};

/// The examples of the laboratory, as in `wattline::cli::EXAMPLES`.
const EXAMPLES: &str = include_str!("examples.txt");

/// Returns the command line of this program, which is called as `wattline`.
pub fn own<C: Subcommand>() -> Command {
    cli::complete(Cli::<C>::command().bin_name("wattline"), EXAMPLES, true)
}

/// Returns the command line of both programs, from which help, manual pages, completions and the
/// reference page are generated.
pub fn whole<C: Subcommand>() -> Command {
    let own = C::augment_subcommands(Command::new("wattline"));
    let shown = own.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    wattline::line::with_laboratory(shown, EXAMPLES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands;
    use clap::Parser;
    use std::collections::BTreeSet;
    use wattline::laboratory;

    #[test]
    fn wattline_delegates_exactly_the_commands_of_the_laboratory() {
        let own = own::<commands::Command>();
        let (hidden, shown): (Vec<_>, Vec<_>) =
            own.get_subcommands().partition(|command| command.is_hide_set());
        let shown: Vec<(String, String)> = shown
            .iter()
            .map(|it| (it.get_name().to_owned(), it.get_about().unwrap().to_string()))
            .collect();
        let listed = laboratory::COMMANDS.map(|(name, about)| (name.to_owned(), about.to_owned()));
        assert_eq!(shown, listed, "COMMANDS in wattline/src/laboratory.rs");
        // `run` is delegated because of its configuration, `schema` for its documents; `guard` is
        // started by this program itself.
        let own_too = ["run", "schema", "guard"];
        let hidden = hidden.iter().map(|it| it.get_name()).filter(|it| !own_too.contains(it));
        let hidden: BTreeSet<&str> =
            hidden.chain(own.get_subcommands().flat_map(|it| it.get_all_aliases())).collect();
        assert_eq!(
            hidden,
            BTreeSet::from(laboratory::HIDDEN),
            "HIDDEN in wattline/src/laboratory.rs"
        );
    }

    fn parsed(text: &str) -> Cli<commands::Command> {
        Cli::try_parse_from(text.split(' ')).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn lists_take_commas_as_well_as_repetition() {
        for (commas, repeated) in [
            ("wattline reproduce bolla,sohan --out x", "wattline reproduce bolla sohan --out x"),
            ("wattline demo --capture a,b", "wattline demo --capture a --capture b"),
            (
                "wattline bench app ipv4 --capture a,b",
                "wattline bench app ipv4 --capture a --capture b",
            ),
        ] {
            let read = |text: &str| format!("{:?}", parsed(text));
            assert_eq!(read(commas), read(repeated));
        }
    }

    #[test]
    fn american_spelling_is_accepted_but_not_shown() {
        let alike = |american: &str, british: &str| {
            let read = |text: &str| format!("{:?}", parsed(text));
            assert_eq!(read(american), read(british));
        };
        alike(
            "wattline optimize --server westmere-2010 --target 5Mpps",
            "wattline optimise --server westmere-2010 --target 5Mpps",
        );
        alike(
            "wattline bench eer --class data-center --stabilization 2ms",
            "wattline bench eer --class data-centre --stabilisation 2ms",
        );
        let help = whole::<commands::Command>().render_long_help().to_string();
        assert!(help.contains("optimise") && !help.contains("optimize"), "{help}");
    }

    #[test]
    fn both_command_lines_are_consistent() {
        own::<commands::Command>().debug_assert();
        whole::<commands::Command>().debug_assert();
    }

    /// Returns the words of an example before any shell syntax.
    fn words(example: &str) -> Vec<&str> {
        example.split(' ').take_while(|word| !["|", ">", "<"].contains(word)).collect()
    }

    #[test]
    fn examples_are_valid_command_lines_of_their_command() {
        for (path, text) in [cli::EXAMPLES, EXAMPLES].into_iter().flat_map(cli::sections) {
            let examples = text.lines().filter_map(|line| line.strip_prefix("    "));
            assert!(examples.clone().count() >= 2, "{path} has fewer than two examples");
            assert_eq!(text.lines().count(), 2 * examples.clone().count(), "{path}");
            for example in examples {
                let matches = whole::<commands::Command>().try_get_matches_from(words(example));
                let matches = matches.unwrap_or_else(|error| panic!("{example}:\n{error}"));
                let mut named = Vec::new();
                let mut level = &matches;
                while let Some((name, below)) = level.subcommand() {
                    named.push(name);
                    level = below;
                }
                let named = named.join(" ");
                assert!(named.starts_with(path), "{example} is an example of {path}");
            }
        }
    }

    /// Collects the commands below this one, at every level, that have no examples.
    fn collect(command: &clap::Command, path: &str, without: &mut Vec<String>) {
        for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let path = format!("{path} {}", command.get_name()).trim_start().to_owned();
            if cli::text(&path, EXAMPLES).is_none() {
                without.push(path.clone());
            }
            collect(command, &path, without);
        }
    }

    #[test]
    fn every_command_has_examples() {
        let mut without = Vec::new();
        collect(&whole::<commands::Command>(), "", &mut without);
        assert!(without.is_empty(), "EXAMPLES lacks {}", without.join(", "));
    }
}
