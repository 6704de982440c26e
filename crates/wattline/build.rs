//! Hands the program the commit that it is built from, as `WATTLINE_BUILD_COMMIT`.
//!
//! The commit is empty in an unpacked archive or without git. Distributors set `WATTLINE_COMMIT`.
//! Neither names a time or a directory, so that builds can be repeated. The Python package is built
//! with this file as well.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Files that the program is made of, below the root of the checkout.
const SOURCES: [&str; 4] = ["crates", "python/src", "Cargo.toml", "Cargo.lock"];
/// Folders of a crate that do not belong to the program.
const APART: [&str; 3] = ["tests", "benches", "examples"];
/// Ending of a commit with changes on top of it.
const MODIFIED: &str = "-modified";

fn main() {
    println!("cargo:rerun-if-env-changed=WATTLINE_COMMIT");
    let commit = match std::env::var("WATTLINE_COMMIT") {
        Ok(given) if is_commit(&given) => given,
        Ok(given) if !given.is_empty() => panic!(
            "WATTLINE_COMMIT is \"{given}\": it must be a commit of 7 to 64 hexadecimal digits, followed by \
             \"{MODIFIED}\" if there are changes on top of it; leave it empty for that of the checkout"
        ),
        _ => checked_out().unwrap_or_default(),
    };
    println!("cargo:rustc-env=WATTLINE_BUILD_COMMIT={commit}");
}

fn is_commit(text: &str) -> bool {
    let digits = text.strip_suffix(MODIFIED).unwrap_or(text);
    (7..=64).contains(&digits.len())
        && digits.bytes().all(|it| matches!(it, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns the commit of the checkout that this package belongs to.
fn checked_out() -> Option<String> {
    // Unpacked sources inside of another checkout do not belong to it.
    git(&["ls-files", "--error-unmatch", "Cargo.toml"])?;
    let root = git(&["rev-parse", "--show-toplevel"])?;
    let root = Path::new(&root);
    for name in SOURCES {
        match name {
            "crates" => entries(&root.join(name)).iter().for_each(|it| watch_crate(it)),
            name => watch(&root.join(name)),
        }
    }
    // Every commit and checkout writes to the log of HEAD, or else to the branch.
    let branch = git(&["symbolic-ref", "-q", "HEAD"]);
    for name in ["HEAD", "logs/HEAD"].into_iter().chain(branch.as_deref()) {
        watch(Path::new(&git(&["rev-parse", "--git-path", name])?));
    }
    let commit = git(&["rev-parse", "HEAD"]).filter(|commit| is_commit(commit))?;
    let status = ["status", "--porcelain", "--"].into_iter();
    let sources = SOURCES.map(|name| format!(":(top){name}"));
    let apart = APART.map(|name| format!(":(top,exclude,glob)crates/*/{name}/**"));
    let paths = [&sources[..], &apart].concat();
    let changes = git(&status.chain(paths.iter().map(String::as_str)).collect::<Vec<_>>())?;
    Some(if changes.is_empty() { commit } else { commit + MODIFIED })
}

/// Watches a crate, so that a change of its tests alone does not rebuild the program.
fn watch_crate(folder: &Path) {
    for entry in entries(folder) {
        if !APART.iter().any(|name| entry.ends_with(name)) {
            watch(&entry);
        }
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

/// Has cargo run this again when the file changes. One that does not exist would count as changed.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo:rerun-if-changed={}", path.display());
    }
}

/// Returns the output of a git command, if it succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // A hook that builds names its own repository, and an index that is being written.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    // Without optional locks, other commands that run meanwhile are not disturbed.
    let output = command.arg("--no-optional-locks").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
