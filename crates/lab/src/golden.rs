//! Compares the reference page of commands with the one in the repository, so that a review shows
//! every change of the command line.

use crate::commands::{Command, generate};
use crate::line::{own, whole};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the number of commands that are not hidden, at every level.
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

const RENEW: &str = "UPDATE_GOLDEN=1 cargo test -p wattline-lab golden";

#[test]
fn reference_page_of_commands_is_up_to_date() {
    let mut wrong = Vec::new();
    let page = generate::reference(&whole::<Command>());
    compare(&root().join("docs/reference/commands.md"), &page, &mut wrong);
    assert!(wrong.is_empty(), "{}\nTo renew it: {RENEW}", wrong.join("\n"));
}

#[test]
fn manual_pages_and_completions_name_every_command() {
    let folder = tempfile::tempdir().unwrap();
    generate::man(&whole::<Command>(), folder.path()).unwrap();
    let pages = |program: &str| std::fs::read_dir(folder.path().join(program)).unwrap().count();
    // Each program has a page in addition to those of its commands.
    assert_eq!(pages("wattline") + pages("wattline-lab"), commands(&whole::<Command>()) + 1);
    assert_eq!(pages("wattline-lab"), commands(&own::<Command>()));
    let page = std::fs::read_to_string(folder.path().join("wattline-lab/wattline-sim.1")).unwrap();
    assert!(page.contains("wattline sim") && page.contains("Examples"), "{page}");
    let hidden = folder.path().join("wattline/wattline-guard.1");
    assert!(!hidden.exists(), "hidden commands have none");

    generate::completions(&whole::<Command>(), folder.path()).unwrap();
    for file in ["wattline.bash", "_wattline", "wattline.fish"] {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        for command in whole::<Command>().get_subcommands().filter(|it| !it.is_hide_set()) {
            assert!(text.contains(command.get_name()), "{file}: {}", command.get_name());
        }
    }
}
