//! The build of the program: its version, the commit of its sources, and a mark for changes on top.

use crate::govern::running::Machine;
use crate::metrics::{free_port, get, router};
use crate::program::{document, refused, wattline};
use std::path::{Path, PathBuf};
use std::process::Command;
use wattline_needs::until;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The build that `--version` prints.
fn build() -> String {
    let output = wattline(&["--version"]);
    let text = String::from_utf8(output.stdout).unwrap();
    text.trim().strip_prefix("wattline ").unwrap_or_else(|| panic!("{text}")).to_owned()
}

/// Runs git in a directory, without the settings of a user.
fn git(folder: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(["-c", "user.name=x", "-c", "user.email=x@y", "-c", "commit.gpgsign=false"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn program_names_the_commit_of_its_sources() {
    let build = build();
    let version = env!("CARGO_PKG_VERSION");
    let commit = build.strip_prefix(&format!("{version} (")).and_then(|it| it.strip_suffix(')'));
    let commit = commit.unwrap_or_else(|| panic!("{build}"));
    let commit = commit.strip_suffix(", modified").unwrap_or(commit);
    // Built from an archive there is none.
    let known = git(&root(), &["ls-files", "--error-unmatch", "Cargo.toml"]).is_some();
    if known && std::env::var_os("WATTLINE_COMMIT").is_none() {
        // The program may be older than commits that left its sources alone.
        let ancestor = git(&root(), &["merge-base", "--is-ancestor", commit, "HEAD"]);
        assert!(ancestor.is_some() && commit.len() == 10, "{build}");
    }
}

#[test]
fn results_and_pages_name_their_build() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let line =
        ["sim", "--traffic", "poisson:1Mpps", "--duration", "2ms", "--warmup", "1ms", "--json"];
    let output = wattline(&[&line[..], &["--page", page.to_str().unwrap()]].concat());
    let result = document(&output);
    let build = build();
    let named = &result["build"];
    assert_eq!(named["version"], env!("CARGO_PKG_VERSION"), "{named}");
    assert_eq!(named["modified"], build.contains("modified"), "{named}");
    match named["commit"].as_str() {
        Some(commit) => {
            assert!(build.contains(&format!("({}", &commit[..10])), "{commit}: {build}")
        }
        None => assert!(build.contains("(unknown commit"), "{build}"),
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains(&format!("made by Wattline {build} ")), "{build}");
}

#[test]
fn daemons_name_their_build_in_log_answers_and_metrics() {
    let mut machine = Machine::new();
    machine.start("");
    let build = build();
    let log = machine.log();
    let first = log.lines().next().unwrap_or_default();
    assert!(first.ends_with(&format!("wattline {build}")), "{log}");
    let stats = machine.stats();
    let commit = stats["build"]["commit"].as_str().unwrap_or_default();
    let sample = format!(
        "wattline_build_info{{version=\"{}\",commit=\"{commit}\"",
        env!("CARGO_PKG_VERSION")
    );
    let metrics = get(machine.metrics, "/metrics").unwrap();
    assert!(metrics.contains(&sample), "{sample}: {metrics}");
    let socket = machine.socket();
    let shown = wattline(&["show", "version", "--socket", socket.to_str().unwrap()]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.starts_with(&format!("wattline {build}\n")), "{shown}");
    assert!(shown.contains("govern.toml"), "{shown}");
}

#[test]
fn settings_of_a_router_that_wait_are_shown_beside_those_in_force() {
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    let _router = router(folder.path(), port, "");
    until("it answers", || get(port, "/metrics"));
    assert!(get(port, "/metrics").unwrap().contains("wattline_build_info{version="));
    let file = folder.path().join("router.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("[router]\n", "[router]\nspare_ports = 0\n")).unwrap();
    let socket = folder.path().join("socket").display().to_string();
    assert_eq!(wattline(&["reload", "--socket", &socket]).status.code(), Some(75));
    let shown = wattline(&["show", "config", "--socket", &socket]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    let (in_force, waiting) = shown.split_once("# in the file, and not in force").unwrap();
    assert!(in_force.contains("prefix = \"203.0.113.0/24\"\n"), "{shown}");
    let line = in_force.lines().find(|line| line.starts_with("spare_ports = "));
    assert!(line.is_some_and(|line| line.ends_with("# default")), "{shown}");
    assert!(waiting.contains("# spare_ports = 0\n"), "{shown}");
}

#[test]
fn results_of_two_builds_are_not_compared() {
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, commit: &str| {
        let at = folder.path().join(name);
        std::fs::create_dir(&at).unwrap();
        let result = format!(
            "{{\"build\": {{\"version\": \"0.1.0\", \"commit\": \"{commit}\", \"modified\": false}}, \"watts\": 1}}"
        );
        std::fs::write(at.join("1.json"), result).unwrap();
        at.display().to_string()
    };
    let (one, same, other) =
        (run("one", COMMIT), run("same", COMMIT), run("other", &COMMIT[..20].repeat(2)));
    assert!(wattline(&["report", &one, &same]).status.success());
    std::fs::write(folder.path().join("other/1.json"), {
        let text = std::fs::read_to_string(folder.path().join("other/1.json")).unwrap();
        text.replace("01234", "fffff")
    })
    .unwrap();
    refused(&["report", &one, &other], 65, &["(0123456789)", "(fffff56789)"]);
}

#[test]
fn figures_of_another_build_are_not_added_to() {
    let folder = tempfile::tempdir().unwrap();
    let summary = folder.path().join("summary.json");
    let line =
        ["reproduce", "sohan/table2", "--overwrite", "--out", folder.path().to_str().unwrap()];
    let text = format!(
        "[{{\"build\": {{\"version\": \"0.1.0\", \"commit\": \"{COMMIT}\", \"modified\": false}}}}]"
    );
    std::fs::write(&summary, text).unwrap();
    refused(&line, 65, &["(0123456789)", &build()]);
}

/// The build script of the program, compiled by itself.
fn script(folder: &Path) -> PathBuf {
    let script = folder.join("script");
    let status = Command::new("rustc")
        .args(["--edition", "2024", "-o"])
        .arg(&script)
        .arg(root().join("crates/wattline/build.rs"))
        .status()
        .unwrap();
    assert!(status.success());
    script
}

/// The commit that the script prints for a package.
fn printed(script: &Path, package: &Path, given: Option<&str>) -> Result<String, String> {
    let mut command = Command::new(script);
    command.current_dir(package).env_remove("WATTLINE_COMMIT");
    // As a hook of git has them.
    command.env("GIT_DIR", root().join(".git")).env("GIT_INDEX_FILE", "none");
    if let Some(given) = given {
        command.env("WATTLINE_COMMIT", given);
    }
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let commit =
        text.lines().find_map(|it| it.strip_prefix("cargo:rustc-env=WATTLINE_BUILD_COMMIT="));
    Ok(commit.unwrap_or_else(|| panic!("{text}")).to_owned())
}

#[test]
fn build_script_finds_the_commit_and_changes() {
    if git(Path::new("/"), &["--version"]).is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = script(folder.path());
    let checkout = folder.path().join("checkout");
    let package = checkout.join("crates/wattline");
    std::fs::create_dir_all(package.join("src")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(package.join(name), text).unwrap();
    write("Cargo.toml", "[package]\n");
    write("src/main.rs", "fn main() {}\n");
    std::fs::write(checkout.join("notes.md"), "x\n").unwrap();
    let commit = || {
        git(&checkout, &["add", "-A"]).unwrap();
        git(&checkout, &["commit", "-qm", "x"]).unwrap();
        git(&checkout, &["rev-parse", "HEAD"]).unwrap()
    };
    // Unpacked, and no part of any repository.
    assert_eq!(printed(&script, &package, None), Ok(String::new()));
    git(&checkout, &["init", "-q"]).unwrap();
    assert_eq!(printed(&script, &package, None), Ok(String::new()), "nothing is committed");
    let first = commit();
    assert_eq!(printed(&script, &package, None), Ok(first.clone()));
    std::fs::write(checkout.join("notes.md"), "y\n").unwrap();
    assert_eq!(printed(&script, &package, None), Ok(first.clone()), "no part of the program");
    std::fs::create_dir(package.join("tests")).unwrap();
    write("tests/new.rs", "");
    assert_eq!(printed(&script, &package, None), Ok(first.clone()), "a test");
    write("src/new.rs", "");
    assert_eq!(printed(&script, &package, None), Ok(format!("{first}-modified")));
    let second = commit();
    assert_eq!(printed(&script, &package, None), Ok(second.clone()));
    write("src/main.rs", "fn main() { println!() }\n");
    assert_eq!(printed(&script, &package, None), Ok(format!("{second}-modified")));
    // Unpacked inside of a checkout that does not have it.
    let inside = checkout.join("target/unpacked");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(inside.join("Cargo.toml"), "[package]\n").unwrap();
    assert_eq!(printed(&script, &inside, None), Ok(String::new()));
}

#[test]
fn build_script_takes_the_commit_of_a_distributor() {
    let folder = tempfile::tempdir().unwrap();
    let script = script(folder.path());
    let modified = format!("{COMMIT}-modified");
    for given in [COMMIT, &COMMIT[..7], &modified] {
        assert_eq!(printed(&script, folder.path(), Some(given)), Ok(given.to_owned()));
    }
    assert_eq!(printed(&script, folder.path(), Some("")), Ok(String::new()));
    for wrong in ["main", "0123", "v0.1.0", "012345\"; cargo:x=", "0123456-dirty"] {
        let message = printed(&script, folder.path(), Some(wrong)).unwrap_err();
        assert!(
            message.contains("WATTLINE_COMMIT is") && message.contains("hexadecimal"),
            "{message}"
        );
    }
}
