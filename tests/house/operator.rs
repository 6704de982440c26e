//! The program of an operator, without feature `laboratory`, builds nothing that only researchers use.

use crate::house::House;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Libraries of fitting and statistics.
const RESEARCH: [&str; 4] = ["levenberg-marquardt", "nalgebra", "rayon", "statrs"];

/// Names of all packages that `wattline` is built from with these arguments.
fn built(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "-p", "wattline", "-e", "normal", "--prefix", "none"])
        .args(["--format", "{p}"])
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn operators_program_contains_the_listed_crates_alone() {
    let applications = "filter,flow-records,ipsec,redundancy";
    let operator = built(&["--no-default-features", "--features", applications]);
    let ours: Vec<&str> =
        operator.iter().filter_map(|name| name.strip_prefix("wattline-")).collect();
    assert_eq!(
        ours,
        House::read().operator(),
        "`operator` in house.toml lists what an operator's program is built from"
    );
    let whole = built(&[]);
    for name in RESEARCH {
        assert!(whole.contains(name), "{name} is not used at all: take it out of the list");
        assert!(!operator.contains(name), "{name} is built into a router");
    }
}
