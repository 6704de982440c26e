//! A test that cannot run says so in one way, `wattline_needs`, so that `WATTLINE_REQUIRE` can forbid it.

use crate::house::rust_files;

/// Beginnings of lines that report a skip in another way.
const OTHERWISE: [&str; 4] = ["\"skipped: ", "\"SKIPPED", "\"skipped in part", "\"skipping "];
/// Files that read or print such lines: the crate itself, this file, and the test of kernels, which
/// counts the tests that are skipped inside a guest.
const ALLOWED: [&str; 3] = ["needs/src/lib.rs", "house/skips.rs", "testbed/tests/kernels.rs"];

fn otherwise(text: &str) -> Vec<usize> {
    let lines = text.lines().enumerate();
    let found = lines.filter(|(_, line)| OTHERWISE.iter().any(|way| line.contains(way)));
    found.map(|(number, _)| number + 1).collect()
}

#[test]
fn skipped_tests_say_so_in_one_way() {
    let mut files = Vec::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    rust_files(&root.join("crates"), &mut files);
    rust_files(&root.join("tests"), &mut files);
    assert!(files.len() > 500, "sources were found: {}", files.len());
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| !ALLOWED.iter().any(|allowed| file.ends_with(allowed))) {
        for line in otherwise(&std::fs::read_to_string(file).unwrap()) {
            wrong.push(format!("{}:{line}: use wattline_needs", file.display()));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// `scripts/skip` is the way of scripts.
#[test]
fn skipped_scripts_say_so_in_one_way() {
    let scripts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts");
    let mut tests = 0;
    for entry in std::fs::read_dir(scripts).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.starts_with("test-") {
            continue;
        }
        tests += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
            let said = line.to_lowercase();
            assert!(!said.contains("skipped"), "{name}: use scripts/skip: {line}");
        }
    }
    assert!(tests > 6, "{tests} scripts are tests");
}

#[test]
fn another_way_is_seen() {
    assert_eq!(otherwise("a\nprintln!(\"skipped: no ping\");"), [2]);
    assert_eq!(otherwise("wattline_needs::tool(\"ping\");"), [] as [usize; 0]);
}
