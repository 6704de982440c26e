//! Examples of every command, shown at the end of its help, in its manual page and on the reference
//! page. A test of `wattline-lab` checks that each can be parsed.

/// Examples of this program: for each command a line `# command`, then the purpose of each example
/// and, indented, the command line.
pub const EXAMPLES: &str = include_str!("examples.txt");

/// Adds the examples of this program, and others, to the commands.
pub fn apply(command: clap::Command, others: &str) -> clap::Command {
    under(command, "", others)
}

fn under(mut command: clap::Command, path: &str, others: &str) -> clap::Command {
    let names: Vec<String> =
        command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command = command.mut_subcommand(&name, |command| {
            let command = under(command, &path, others);
            match text(&path, others) {
                Some(text) => command.after_help(text),
                None => command,
            }
        });
    }
    command
}

/// Returns the examples of a command, of this program or from `others`, as its help shows them.
pub fn text(path: &str, others: &str) -> Option<String> {
    let mut sections = [EXAMPLES, others].into_iter().flat_map(sections);
    let (_, examples) = sections.find(|(command, _)| *command == path)?;
    let lines = examples.lines().map(|line| format!("\n  {line}"));
    Some(format!("Examples:{}", lines.collect::<String>()))
}

/// Returns the commands of a file of examples, each with its lines.
pub fn sections(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let commands = text.trim_start_matches("# ").split("\n# ");
    commands.filter_map(|section| section.split_once('\n')).map(|(path, it)| (path, it.trim_end()))
}
