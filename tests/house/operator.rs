//! The program of an operator, `wattline`, is built from nothing that only researchers use.

use crate::house::House;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Libraries of fitting and statistics.
const RESEARCH: [&str; 4] = ["levenberg-marquardt", "nalgebra", "rayon", "statrs"];

/// Names of all packages that a program is built from.
fn built(program: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", program, "-e", "normal", "--prefix", "none"])
        .args(["--format", "{p}"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn operators_program_contains_the_listed_crates_alone() {
    let operator = built("wattline");
    let ours: Vec<&str> =
        operator.iter().filter_map(|name| name.strip_prefix("wattline-")).collect();
    assert_eq!(
        ours,
        House::read().operator(),
        "`operator` in house.toml lists what an operator's program is built from"
    );
    let whole = built("wattline-lab");
    for name in RESEARCH {
        assert!(whole.contains(name), "{name} is not used at all: take it out of the list");
        assert!(!operator.contains(name), "{name} is built into a router");
    }
}
