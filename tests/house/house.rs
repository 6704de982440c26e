//! The crates as Cargo knows them, and their rules from `house.toml`.

use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

const RULES: &str = include_str!("house.toml");

/// `house.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    floors: Vec<Vec<String>>,
    operator: Vec<String>,
    #[serde(default)]
    sideways: Vec<Sideways>,
    #[serde(default)]
    tests: Vec<Sideways>,
    #[serde(default)]
    circle: Vec<Circle>,
}

/// A use that the floors alone would not allow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sideways {
    /// The crate that uses.
    pub user: String,
    /// The crate that it uses.
    pub used: String,
    why: String,
}

/// Files of a crate that import each other.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Circle {
    of: String,
    files: BTreeSet<PathBuf>,
    why: String,
}

/// The workspace and its rules.
#[derive(Debug)]
pub struct House {
    rules: Rules,
    metadata: Value,
}

impl House {
    /// Asks Cargo and reads the rules.
    pub fn read() -> Self {
        let rules: Rules = toml::from_str(RULES).unwrap_or_else(|e| panic!("house.toml: {e}"));
        let whys = rules.sideways.iter().chain(&rules.tests).map(|it| &it.why);
        for why in whys.chain(rules.circle.iter().map(|it| &it.why)) {
            assert!(why.split_whitespace().count() > 3, "house.toml: {why:?} is no reason");
        }
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { rules, metadata: serde_json::from_slice(&output.stdout).unwrap() }
    }

    /// The crates that the program of an operator is built from.
    pub fn operator(&self) -> &[String] {
        &self.rules.operator
    }

    /// The crates of the workspace, by the names of their folders, and the folders.
    pub fn crates(&self) -> Vec<(String, PathBuf)> {
        let packages = self.metadata["packages"].as_array().unwrap().iter();
        let packages = packages.map(|package| (short(&package["name"]), folder(package)));
        packages.filter(|(_, folder)| !is_tests(folder)).collect()
    }

    /// Returns the uses within the workspace: (user, used, whether by its tests alone).
    pub fn uses(&self) -> BTreeSet<(String, String, bool)> {
        let mut uses = BTreeSet::new();
        let packages = self.metadata["packages"].as_array().unwrap().iter();
        for package in packages.filter(|package| !is_tests(&folder(package))) {
            for used in package["dependencies"].as_array().unwrap() {
                // Crates of the workspace come from a path.
                if used["path"].is_string() {
                    let tests = used["kind"].as_str() == Some("dev");
                    uses.insert((short(&package["name"]), short(&used["name"]), tests));
                }
            }
        }
        uses
    }

    /// The floor of each crate, from 1.
    pub fn floors(&self) -> BTreeMap<&str, usize> {
        let floors = self.rules.floors.iter().enumerate();
        let all: Vec<(&str, usize)> = floors
            .flat_map(|(below, crates)| crates.iter().map(move |name| (name.as_str(), below + 1)))
            .collect();
        let map: BTreeMap<_, _> = all.iter().copied().collect();
        assert_eq!(map.len(), all.len(), "house.toml: a crate stands on two floors");
        map
    }

    /// Uses that are allowed beyond the floors, by tests alone or by the crate itself.
    pub fn sideways(&self, tests: bool) -> &[Sideways] {
        if tests { &self.rules.tests } else { &self.rules.sideways }
    }

    /// The circles that a crate may have.
    pub fn circles(&self, of: &str) -> Vec<BTreeSet<PathBuf>> {
        let circles = self.rules.circle.iter().filter(|circle| circle.of == of);
        circles.map(|circle| circle.files.clone()).collect()
    }

    /// Crates that have a circle to their name.
    pub fn with_circles(&self) -> impl Iterator<Item = &str> {
        self.rules.circle.iter().map(|circle| circle.of.as_str())
    }
}

/// The folder of a package.
fn folder(package: &Value) -> PathBuf {
    let manifest = PathBuf::from(package["manifest_path"].as_str().unwrap());
    manifest.parent().unwrap().to_owned()
}

/// Returns true if a package tests the whole program: it may use every crate.
fn is_tests(folder: &Path) -> bool {
    folder.parent().is_some_and(|parent| parent.ends_with("tests"))
}

/// Returns the name without the common prefix.
fn short(name: &Value) -> String {
    let name = name.as_str().unwrap();
    name.strip_prefix("wattline-").unwrap_or(name).to_owned()
}

/// The sources below a folder.
pub fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}
