//! A disk that is full when the result of minutes is written: the result is printed all the same, and
//! nothing half is left behind.

use std::path::Path;
use std::process::{Command, Output};

/// Runs a command that can put nothing into a file: for a limit on the length of files the kernel
/// refuses a write as it does on a full disk.
fn wattline(folder: &Path, words: &str) -> Output {
    let script = format!("trap '' XFSZ; ulimit -f 0; exec \"$0\" {words}");
    let mut command = Command::new("sh");
    command.args(["-c", &script, wattline_needs::program()]).current_dir(folder);
    command.output().unwrap()
}

/// The command prints these parts of its result, names each file on its own line and leaves none.
fn tells_and_leaves_nothing(words: &str, result: &[&str], files: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let output = wattline(folder.path(), words);
    let [message, printed] =
        [&output.stderr, &output.stdout].map(|text| String::from_utf8_lossy(text).into_owned());
    assert_eq!(output.status.code(), Some(74), "{words}: {message}");
    for part in result {
        assert!(printed.contains(part), "{words}: {part:?} is missing in {printed:?}");
    }
    for file in files {
        let names = |line: &&str| line.contains(file) && line.contains("File too large");
        assert_eq!(message.lines().filter(names).count(), 1, "{words}: {file}: {message}");
    }
    if words.contains("--json") {
        serde_json::from_str::<serde_json::Value>(&printed).expect("one document");
    }
    let left: Vec<_> = folder.path().read_dir().unwrap().map(|it| it.unwrap().path()).collect();
    assert!(left.is_empty(), "{words}: {left:?}");
}

#[test]
fn a_simulation_is_printed_without_its_page() {
    let short = "--traffic poisson:1Mpps --duration 2ms --warmup 1ms";
    tells_and_leaves_nothing(&format!("sim {short} --page a.html"), &["forwarded"], &["a.html"]);
    let requests = "sim --requests memcached:50krps --duration 10ms";
    tells_and_leaves_nothing(&format!("{requests} --page a.html"), &["answered"], &["a.html"]);
}

#[test]
fn a_sweep_is_printed_without_its_files() {
    let sweep = "sweep --traffic poisson:1Mpps --duration 2ms --warmup 1ms";
    tells_and_leaves_nothing(
        &format!("{sweep} --csv a.csv --page a.html"),
        &["westmere-2010"],
        &["a.csv", "a.html"],
    );
    tells_and_leaves_nothing(&format!("{sweep} --page a.html --json"), &["results"], &["a.html"]);
    tells_and_leaves_nothing(&format!("{sweep} --arrow a.arrow"), &["westmere-2010"], &["a.arrow"]);
}

#[test]
fn a_file_that_was_there_stays() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("a.html");
    std::fs::write(&page, "mine").unwrap();
    let sim = "sim --traffic poisson:1Mpps --duration 2ms --warmup 1ms --page a.html";
    assert_eq!(wattline(folder.path(), &format!("{sim} --overwrite")).status.code(), Some(74));
    assert!(page.exists());
}

#[test]
fn printed_values_are_shown_without_their_folder() {
    tells_and_leaves_nothing("reproduce bolla --out a/b", &["claims"], &["a/b/bolla/"]);
}

#[test]
fn half_a_record_of_a_machine_is_not_kept() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../crates/knobs/tests/fixtures/intel-pstate-hwp")
        .canonicalize()
        .unwrap();
    let probe = format!("probe --root {} --record a", root.display());
    tells_and_leaves_nothing(&probe, &[], &["cannot write a/"]);
}
