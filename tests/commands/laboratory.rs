//! Commands of the laboratory are handed over to `wattline-lab`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A copy of `wattline` in a folder of its own, without a laboratory.
struct Alone {
    folder: tempfile::TempDir,
}

impl Alone {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["bin", "path"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        crate::copy_program(&folder.path().join("bin/wattline"));
        Self { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Puts a laboratory there that prints a word and its arguments.
    fn laboratory(&self, path: &str, word: &str) {
        let path = self.at(path);
        fs::write(&path, format!("#!/bin/sh\necho {word} \"$@\"\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(self.at("bin/wattline"));
        command.args(arguments).env("PATH", self.at("path")).output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn laboratory_that_is_not_installed_is_named_with_its_package() {
    let alone = Alone::new();
    for arguments in [&["sim", "--policy", "poll"][..], &["help", "bench"]] {
        let output = alone.run(arguments);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{message}");
        assert!(message.contains("install the package wattline-lab"), "{message}");
    }
    let output = alone.run(&["--json", "sim"]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"]["exit_code"], 69, "{document}");
    // An operator's commands work without it.
    assert!(alone.run(&["policies"]).status.success());
    let help = text(&alone.run(&["--help"]).stdout);
    assert!(help.contains("\nLaboratory (wattline-lab): sim, sweep, "), "{help}");
}

#[test]
fn laboratory_beside_the_program_comes_before_that_of_the_path() {
    let alone = Alone::new();
    alone.laboratory("path/wattline-lab", "path");
    let arguments = ["sim", "--policy", "a b"];
    assert_eq!(text(&alone.run(&arguments).stdout), "path sim --policy a b\n");
    alone.laboratory("bin/wattline-lab", "beside");
    assert_eq!(text(&alone.run(&arguments).stdout), "beside sim --policy a b\n");
    // A mistyped command belongs to neither program.
    let output = alone.run(&["simm"]);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("unrecognized subcommand") && message.contains("'sim'"), "{message}");
}

#[test]
fn programs_that_links_lead_to_find_each_other() {
    let alone = Alone::new();
    for name in ["elsewhere", "links", "more"] {
        fs::create_dir(alone.at(name)).unwrap();
    }
    let link =
        |target: &Path, name: &str| std::os::unix::fs::symlink(target, alone.at(name)).unwrap();
    alone.laboratory("elsewhere/wattline-lab", "linked");
    // A chain of links, one of them relative; the laboratory is beside the second.
    link(&alone.at("bin/wattline"), "links/wattline");
    link(&alone.at("elsewhere/wattline-lab"), "links/wattline-lab");
    link(Path::new("../links/wattline"), "more/wattline");
    let run = |program: &Path, folder: &str| {
        let mut command = Command::new(program);
        command.args(["sim", "x"]).current_dir(alone.at(folder)).env("PATH", alone.at("path"));
        let output = command.output().unwrap();
        (text(&output.stdout), text(&output.stderr))
    };
    for (program, folder) in [
        (alone.at("links/wattline"), "path"),
        (alone.at("more/wattline"), "path"),
        (PathBuf::from("./wattline"), "links"),
        (PathBuf::from("more/wattline"), "."),
    ] {
        assert_eq!(run(&program, folder).0, "linked sim x\n", "{program:?} in {folder}");
    }
    // The program beside the file itself is of its build.
    alone.laboratory("bin/wattline-lab", "beside");
    assert_eq!(run(&alone.at("links/wattline"), "path").0, "beside sim x\n");
    fs::remove_file(alone.at("bin/wattline-lab")).unwrap();
    // Links that lead nowhere or in a circle are no laboratory.
    for target in ["nothing", "wattline-lab"] {
        fs::remove_file(alone.at("links/wattline-lab")).unwrap();
        link(Path::new(target), "links/wattline-lab");
        let message = run(&alone.at("links/wattline"), "path").1;
        assert!(message.contains("install the package wattline-lab"), "{message}");
    }
}

#[test]
fn program_that_is_no_laboratory_is_reported_and_not_called_again() {
    let alone = Alone::new();
    // A link to the caller, beside it or in the path.
    for place in ["path/wattline-lab", "bin/wattline-lab"] {
        std::os::unix::fs::symlink(alone.at("bin/wattline"), alone.at(place)).unwrap();
        let output = alone.run(&["sim"]);
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{message}");
        assert!(message.contains("calls wattline again"), "{message}");
        fs::remove_file(alone.at(place)).unwrap();
    }
    // A file that cannot be run does not hide another one.
    fs::create_dir(alone.at("bin/wattline-lab")).unwrap();
    let message = text(&alone.run(&["sim"]).stderr);
    assert!(
        message.contains("Permission denied") && message.contains("install the package"),
        "{message}"
    );
    alone.laboratory("path/wattline-lab", "path");
    assert_eq!(text(&alone.run(&["sim"]).stdout), "path sim\n");
}

#[test]
fn router_on_emulated_cores_is_run_by_the_laboratory() {
    let alone = Alone::new();
    let file = alone.at("router.toml");
    let ports = "[[port]]\nname = \"a\"\ncapture = { read = \"x\" }\n";
    let run = |power: &str| {
        fs::write(&file, format!("{ports}[power]\nplatform = \"{power}\"\n")).unwrap();
        alone.run(&["run", file.to_str().unwrap()])
    };
    let message = text(&run("scale").stderr);
    assert!(message.contains("install the package wattline-lab"), "{message}");
    assert!(message.contains("[power] platform"), "{message}");
    let message = text(&run("none").stderr);
    assert!(!message.contains("wattline-lab"), "{message}");
    alone.laboratory("bin/wattline-lab", "emulated");
    assert_eq!(text(&run("scale").stdout), format!("emulated run {}\n", file.display()));
}

#[test]
fn laboratory_of_another_build_refuses_to_run() {
    let laboratory = Path::new(wattline_needs::program()).with_file_name("wattline-lab");
    let run = |caller: &str| {
        let mut command = Command::new(&laboratory);
        command.args(["servers", "--json"]).env("WATTLINE_CALLER_BUILD", caller).output().unwrap()
    };
    let version = Command::new(wattline_needs::program()).arg("--version").output().unwrap();
    let version = text(&version.stdout);
    let build = version.trim().strip_prefix("wattline ").unwrap();
    assert!(run(build).status.success());
    let output = run("0.0.9 (0123456789)");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{message}");
    assert!(message.contains("0.0.9 (0123456789)") && message.contains(build), "{message}");
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["error"]["exit_code"], 69, "{document}");
}
