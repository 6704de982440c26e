//! Groups in which `wattline --help` lists the commands. clap has headings for options only (its
//! issue 1553), so the groups are part of the help template.

use std::fmt::Write;

/// Headings and their commands: first for operators, then those of the laboratory.
pub const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Route packets",
        &["run", "config", "new-keys", "lookup", "reload", "active", "stop", "block"],
    ),
    (
        "Watch what runs",
        &[
            "status", "top", "stats", "explain", "show", "audit", "trace", "capture", "graph",
            "clear", "schema",
        ],
    ),
    (
        "Save power on this machine",
        &["govern", "trial", "probe", "plan", "meter", "policies", "restore"],
    ),
    (
        "Laboratory: work with models",
        &[
            "sim",
            "sweep",
            "league",
            "envelope",
            "servers",
            "nics",
            "fit",
            "characterise",
            "optimise",
            "receive",
        ],
    ),
    (
        "Laboratory: measure and compare",
        &["demo", "load", "profile", "bench", "report", "reproduce"],
    ),
];

/// Start of the headings of the laboratory.
const LABORATORY: &str = "Laboratory";

/// Lists the commands in groups in the help; ungrouped commands come last. The laboratory's
/// commands take one line unless this program is the laboratory.
pub fn apply(command: clap::Command, is_laboratory: bool) -> clap::Command {
    let header = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    let mut rest: Vec<&clap::Command> =
        command.get_subcommands().filter(|command| !command.is_hide_set()).collect();
    let width = rest.iter().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut list = String::new();
    let mut show = |heading: &str, members: &[&clap::Command]| {
        if members.is_empty() {
            return;
        }
        // Writing to a String does not fail.
        let _ = writeln!(list, "{header}{heading}:{header:#}");
        for member in members {
            let about = member.get_about().map(ToString::to_string).unwrap_or_default();
            let name = member.get_name();
            let _ = writeln!(list, "  {literal}{name:<width$}{literal:#}  {about}");
        }
        list.push('\n');
    };
    let mut elsewhere = Vec::new();
    for (heading, names) in GROUPS {
        let mut members = Vec::new();
        for name in names {
            let place = rest.iter().position(|command| command.get_name() == *name);
            members.extend(place.map(|place| rest.remove(place)));
        }
        if is_laboratory || !heading.starts_with(LABORATORY) {
            show(heading, &members);
        } else {
            elsewhere.extend(members.iter().map(|member| member.get_name()));
        }
    }
    show("Others", &rest);
    if !elsewhere.is_empty() {
        let (names, program) = (elsewhere.join(", "), crate::laboratory::PROGRAM);
        let _ = writeln!(list, "{header}{LABORATORY} ({program}):{header:#} {names}\n");
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}\
         {header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template).after_help(
        "`wattline COMMAND --help` explains a command, with examples. The documentation \
         begins at docs/index.md (installed: share/doc/wattline/docs/index.md).",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{laboratory, line};
    use std::collections::BTreeMap;

    #[test]
    fn every_command_is_in_exactly_one_group() {
        let mut named: BTreeMap<&str, usize> = BTreeMap::new();
        for name in GROUPS.iter().flat_map(|(_, names)| names.iter()) {
            *named.entry(name).or_default() += 1;
        }
        let line = line::own();
        let mut wrong = Vec::new();
        for command in line.get_subcommands().filter(|command| !command.is_hide_set()) {
            match named.remove(command.get_name()) {
                Some(1) => {}
                times => {
                    wrong.push(format!("{}: in {} groups", command.get_name(), times.unwrap_or(0)))
                }
            }
        }
        wrong.extend(named.keys().map(|name| format!("{name}: no such command")));
        assert!(wrong.is_empty(), "GROUPS in cli/groups.rs: {}", wrong.join("; "));
    }

    #[test]
    fn commands_of_the_laboratory_come_last_under_headings_that_name_it() {
        let is_laboratory =
            |name: &&str| laboratory::COMMANDS.iter().any(|(command, _)| command == name);
        for (heading, names) in GROUPS {
            let named = heading.starts_with(LABORATORY);
            let wrong: Vec<_> = names.iter().filter(|name| is_laboratory(name) != named).collect();
            assert!(wrong.is_empty(), "{heading}: {wrong:?}");
        }
        assert!(GROUPS.is_sorted_by_key(|(heading, _)| heading.starts_with(LABORATORY)));
    }
}
