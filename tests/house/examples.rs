//! The examples of CONTRIBUTING.md, recorded as diffs in `docs/examples`: they apply to this tree,
//! and touch as many files as CONTRIBUTING.md says. `make test-long` compiles and tests each in a
//! copy of the tree; an example whose context changes has to be recorded again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FOLDER: &str = "docs/examples";
const REFRESH: &str = "To record it anew, with everything else committed:
    git apply --reject docs/examples/NAME.patch    # then mend what it rejects, delete *.rej
    (build, run the tests that CONTRIBUTING.md names for this kind of part)
    git add -A && git diff --cached -U1 HEAD -- . ':!docs/examples' > /tmp/NAME.patch
    git reset --hard && mv /tmp/NAME.patch docs/examples/";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Names and texts of the diffs.
fn recorded() -> BTreeMap<String, String> {
    let folder = std::fs::read_dir(root().join(FOLDER)).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path());
    let diffs = paths.filter(|path| path.extension().is_some_and(|end| end == "patch"));
    let named = diffs.map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(&path).unwrap())
    });
    named.collect()
}

/// Reads the counts of CONTRIBUTING.md: `[...](docs/examples/NAME.patch), 3 files`.
fn stated(text: &str) -> BTreeMap<String, usize> {
    let mut stated = BTreeMap::new();
    for place in text.split(&format!("]({FOLDER}/")).skip(1) {
        let (name, rest) = place.split_once(')').unwrap_or((place, ""));
        let count = rest.strip_prefix(", ").and_then(|rest| rest.split_once(" files"));
        let count = count.and_then(|(count, _)| count.parse().ok());
        let count = count.unwrap_or_else(|| {
            panic!("CONTRIBUTING.md: after the link to {name} has to stand \", N files\"")
        });
        stated.insert(name.to_owned(), count);
    }
    stated
}

/// The files that a diff touches.
fn touched(diff: &str) -> usize {
    diff.lines().filter(|line| line.starts_with("diff --git ")).count()
}

/// The packages whose sources a diff touches.
fn packages(diff: &str) -> BTreeSet<String> {
    let paths = diff.lines().filter_map(|line| line.strip_prefix("diff --git a/"));
    let crates = paths.filter_map(|path| path.strip_prefix("crates/")?.split('/').next());
    let package = |name: &str| match name {
        "wattline" => name.to_owned(),
        name => format!("wattline-{name}"),
    };
    crates.map(package).collect()
}

/// Returns git's objection to a diff, if any; `None` if there is no git.
fn objection(diff: &Path) -> Option<Result<(), String>> {
    apply(&root(), diff, &["--check"])
}

/// Applies a diff to a tree with git. Returns git's objection, and `None` if there is no git.
fn apply(tree: &Path, diff: &Path, how: &[&str]) -> Option<Result<(), String>> {
    let mut command = Command::new("git");
    command.args(["apply", "--whitespace=nowarn"]).args(how).arg(diff).current_dir(tree);
    // The tree may lie within another repository, which git must not look at.
    command.env("GIT_CEILING_DIRECTORIES", tree.parent().unwrap_or(tree));
    said(&mut command)
}

/// Runs a command and returns its output if it fails; `None` if there is no such command.
fn said(command: &mut Command) -> Option<Result<(), String>> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}

/// Copies the files that git tracks; returns false if there is no git. Modification times of
/// unchanged files stay, so that Cargo does not compile their packages again.
fn copy_of_tree(to: &Path) -> bool {
    let root = root();
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(&root).output();
    let Ok(listed) = listed else { return false };
    let _ = std::fs::remove_dir_all(to);
    let listed = String::from_utf8(listed.stdout).unwrap();
    for path in listed.split_terminator('\0') {
        let (from, to) = (root.join(path), to.join(path));
        // Removed, but not committed yet.
        let Ok(known) = from.symlink_metadata() else { continue };
        if !known.is_file() {
            continue;
        }
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&from, &to).unwrap();
        let copy = std::fs::OpenOptions::new().write(true).open(&to).unwrap();
        copy.set_modified(known.modified().unwrap()).unwrap();
    }
    !listed.is_empty()
}

#[test]
fn examples_apply_and_touch_the_stated_number_of_files() {
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    let (stated, recorded) = (stated(&text), recorded());
    assert!(recorded.len() > 3, "{:?}", recorded.keys());
    let names: Vec<_> = stated.keys().collect();
    assert_eq!(names, recorded.keys().collect::<Vec<_>>(), "linked, and there in {FOLDER}");
    let mut problems = Vec::new();
    for (name, diff) in &recorded {
        let (count, said) = (touched(diff), stated[name]);
        if count != said {
            problems.push(format!("{name} touches {count} files, CONTRIBUTING.md says {said}"));
        }
        match objection(&root().join(FOLDER).join(name)) {
            Some(Ok(())) => {}
            Some(Err(said)) => {
                let refresh = REFRESH.replace("NAME.patch", name);
                problems.push(format!("{name} does not apply:\n{said}{refresh}"));
            }
            None => println!("{name}: there is no git here, so it is not tried"),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Each in a copy of the tree, with the unit tests of the packages that it touches.
#[test]
#[ignore = "compiles most of the workspace (make test-long)"]
fn examples_compile_and_pass_their_tests() {
    let copy = root().join("target/examples/tree");
    if !copy_of_tree(&copy) {
        return wattline_needs::machine("there is no git here");
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut problems = Vec::new();
    for (name, diff) in recorded() {
        let file = root().join(FOLDER).join(&name);
        apply(&copy, &file, &[]).unwrap().unwrap_or_else(|said| panic!("{name}: {said}"));
        let run = |arguments: &[&str], packages: &BTreeSet<String>| {
            let mut command = Command::new(&cargo);
            command.args(arguments).current_dir(&copy);
            command.env("CARGO_TARGET_DIR", root().join("target/examples/build"));
            packages.iter().for_each(|package| {
                command.args(["-p", package]);
            });
            println!("{name}: {command:?}");
            said(&mut command).expect("cargo runs")
        };
        let mut packages = packages(&diff);
        if let Err(said) = run(&["check", "--tests"], &packages) {
            problems.push(format!("{name} does not compile:\n{said}"));
        }
        // It has no library.
        packages.remove("wattline");
        if !packages.is_empty()
            && let Err(said) = run(&["test", "--quiet", "--lib"], &packages)
        {
            problems.push(format!("{name} fails its tests:\n{said}"));
        }
        apply(&copy, &file, &["--reverse"]).unwrap().unwrap();
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The check can fail.
#[test]
fn a_stale_example_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let diff = folder.path().join("stale.patch");
    let stale = "diff --git a/Makefile b/Makefile\n--- a/Makefile\n+++ b/Makefile\n@@ -1,2 +1,3 @@\n \
                 never was here\n+new\n nor was this\n";
    std::fs::write(&diff, stale).unwrap();
    match objection(&diff) {
        Some(Err(said)) => assert!(said.contains("Makefile"), "{said}"),
        Some(Ok(())) => panic!("a stale diff applies"),
        None => println!("there is no git here"),
    }
    assert_eq!(touched(stale), 1);
    let two = "diff --git a/crates/fib/src/lib.rs b/crates/fib/src/lib.rs\n\
               diff --git a/crates/wattline/Cargo.toml b/crates/wattline/Cargo.toml\n\
               diff --git a/docs/index.md b/docs/index.md\n";
    assert_eq!(packages(two), ["wattline".to_owned(), "wattline-fib".to_owned()].into());
    assert_eq!(stated("see [it](docs/examples/a.patch), 7 files."), [("a.patch".into(), 7)].into());
}
