//! Help texts and the reference page are what is in the repository: a change of the command line is
//! seen in its review.

use crate::cli::line;
use crate::commands::generate;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What `--help` prints of every command that is not hidden, by the name of its file.
fn helps() -> BTreeMap<String, String> {
    let mut helps = BTreeMap::new();
    collect(&line(), &["wattline"], &mut helps);
    helps
}

fn collect(command: &clap::Command, path: &[&str], helps: &mut BTreeMap<String, String>) {
    // Not by `render_long_help`: `--help` is short where no argument has more to tell.
    let words = path.iter().chain(&["--help"]);
    let help = line().try_get_matches_from(words).unwrap_err().render().to_string();
    helps.insert(format!("{}.txt", path.join("-")), help);
    for command in command.get_subcommands() {
        if !command.is_hide_set() && command.get_name() != "help" {
            collect(command, &[path, &[command.get_name()]].concat(), helps);
        }
    }
}

/// Compares a text with its file; writes it instead with `UPDATE_GOLDEN=1`.
fn compare(path: &Path, text: &str, wrong: &mut Vec<String>) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        return std::fs::write(path, text).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    if found != text {
        let same = found.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
        let shown = |text: &str| text.lines().nth(same).unwrap_or("nothing").to_owned();
        let (old, new) = (shown(&found), shown(text));
        wrong.push(format!("{}:{}: {old:?}, now {new:?}", path.display(), same + 1));
    }
}

const RENEW: &str = "UPDATE_GOLDEN=1 cargo test -p wattline --bin wattline golden";

#[test]
#[cfg(feature = "bench-app")]
fn help_of_every_command_is_as_recorded() {
    let folder = root().join("crates/wattline/tests/golden/help");
    let helps = helps();
    assert!(helps.len() > 30, "{} commands", helps.len());
    let mut wrong = Vec::new();
    for (name, text) in &helps {
        compare(&folder.join(name), text, &mut wrong);
    }
    for file in std::fs::read_dir(&folder).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if !helps.contains_key(&name) {
            wrong.push(format!("{name}: there is no such command any more; delete the file"));
        }
    }
    assert!(wrong.is_empty(), "{}\nTo renew them: {RENEW}", wrong.join("\n"));
}

#[test]
#[cfg(feature = "bench-app")]
fn the_reference_page_of_commands_is_up_to_date() {
    let mut wrong = Vec::new();
    let page = generate::reference(&line());
    compare(&root().join("docs/reference/commands.md"), &page, &mut wrong);
    assert!(wrong.is_empty(), "{}\nTo renew it: {RENEW}", wrong.join("\n"));
}

#[test]
fn manual_pages_and_completions_name_every_command() {
    let folder = tempfile::tempdir().unwrap();
    generate::man(&line(), folder.path()).unwrap();
    let pages = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(pages, helps().len(), "a page for each command");
    let page = std::fs::read_to_string(folder.path().join("wattline-sim.1")).unwrap();
    assert!(page.contains("wattline sim") && page.contains("Examples"), "{page}");
    assert!(!folder.path().join("wattline-guard.1").exists(), "hidden commands have none");

    generate::completions(&line(), folder.path()).unwrap();
    for file in ["wattline.bash", "_wattline", "wattline.fish"] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        for command in line().get_subcommands().filter(|command| !command.is_hide_set()) {
            assert!(text.contains(command.get_name()), "{file}: {}", command.get_name());
        }
    }
}
