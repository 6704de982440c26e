//! The reference page of the command line.

use clap::{Arg, Command};
use std::fmt::Write;

const HEAD: &str = "# Commands

Made from the program by `wattline generate reference`; a test sees that this page is up to date.
`wattline COMMAND --help` prints the same, and so do the manual pages (`man wattline-sim`).

Every command takes `--json`: standard output then is one JSON document, the result or the error. `trace --json` prints a line
of JSON for each packet and one for the end, and `meter record` writes CSV, with `--json` too: both may go on for hours.

| exit code | meaning |
|---|---|
| 0 | done |
| 2 | the command line is wrong |
| 65 | a capture, table or measurement holds something that it must not |
| 66 | an input cannot be opened |
| 69 | hardware or a kernel feature is missing |
| 70 | a defect of the program itself |
| 74 | reading or writing failed |
| 75 | done in part: the rest of a configuration needs a restart |
| 77 | a capability or permission is missing |
| 78 | the configuration is wrong |
";

/// The page, in Markdown.
pub fn reference(line: &Command) -> String {
    let mut line = line.clone();
    line.build();
    let mut page = HEAD.to_owned();
    let mut commands: Vec<&Command> = visible(&line).collect();
    commands.sort_by_key(|command| command.get_name());
    for command in commands {
        section(command, 2, &mut page);
    }
    page
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help")
}

// Writing to a String does not fail: results of `write!` are dropped below.

fn section(command: &Command, level: usize, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let _ = write!(page, "\n{} {name}\n\n{}\n", "#".repeat(level), plain(&about));
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ").trim();
    let _ = write!(page, "\n```text\n{usage}\n```\n");
    table(command, page);
    if let Some(examples) = command.get_after_help() {
        let _ = write!(page, "\n```text\n{examples}\n```\n");
    }
    for command in visible(command) {
        section(command, level + 1, page);
    }
}

/// Arguments and options, but for those that every command has.
fn table(command: &Command, page: &mut String) {
    let own = |argument: &&Arg| {
        !argument.is_hide_set()
            && !["help", "version", "json"].contains(&argument.get_id().as_str())
    };
    let arguments: Vec<&Arg> = command.get_arguments().filter(own).collect();
    if arguments.is_empty() {
        return;
    }
    page.push_str("\n| argument | default | meaning |\n|---|---|---|\n");
    for argument in arguments {
        let help = argument.get_long_help().or(argument.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let defaults: Vec<String> = if argument.is_hide_default_value_set() {
            Vec::new()
        } else {
            let values = argument.get_default_values().iter();
            values.map(|value| format!("`{}`", value.to_string_lossy())).collect()
        };
        // A flag is off by default, which needs no word.
        let defaults = if argument.get_action().takes_values() { defaults } else { Vec::new() };
        let _ = writeln!(
            page,
            "| `{}` | {} | {} |",
            spelling(argument),
            defaults.join(", "),
            plain(&help).replace('|', "\\|")
        );
    }
}

/// How an argument is written: `--seed <SEED>`, `<FILE>`, `[ADDRESS]...`.
fn spelling(argument: &Arg) -> String {
    argument.to_string().replace('|', "\\|")
}

/// One line, in which nothing reads like HTML.
fn plain(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('<', "&lt;")
}
