//! The reference page of commands is the one in the repository, so that a review shows every change
//! of the command line.

use crate::cli::line;
use crate::commands::generate;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Number of commands that are not hidden, at every level.
fn commands(command: &clap::Command) -> usize {
    let shown = command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help");
    1 + shown.map(commands).sum::<usize>()
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
    assert_eq!(pages, commands(&line()), "a page for each command");
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
