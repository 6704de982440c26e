//! The examples of CONTRIBUTING.md, recorded as diffs in `docs/examples`: they apply to this tree,
//! and touch as many files as CONTRIBUTING.md says. Whether they compile was seen when they were
//! recorded; an example whose surroundings change has to be recorded anew.

use std::collections::BTreeMap;
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

/// What CONTRIBUTING.md says of each: `[...](docs/examples/NAME.patch), 3 files`.
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

/// What git says against a diff; `None` where there is no git.
fn objection(diff: &Path) -> Option<Result<(), String>> {
    let root = root();
    let output = Command::new("git")
        .args(["apply", "--check", "--whitespace=nowarn"])
        .arg(diff)
        .current_dir(&root)
        // Sources that were unpacked within somebody else's repository are none of its business.
        .env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(&root))
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Some(if output.status.success() { Ok(()) } else { Err(said) })
}

#[test]
fn examples_apply_and_touch_as_many_files_as_is_said() {
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
            None => println!("{name}: there is no git here, so nobody knows whether it applies"),
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The check can fail: a diff of something that is not there.
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
    assert_eq!(stated("see [it](docs/examples/a.patch), 7 files."), [("a.patch".into(), 7)].into());
}
