//! The program of an operator, `wattline`, is built from nothing that only researchers use.

use crate::features::packages;
use crate::house::House;

/// Libraries of fitting and statistics.
const RESEARCH: [&str; 4] = ["levenberg-marquardt", "nalgebra", "rayon", "statrs"];

#[test]
fn operators_program_contains_the_listed_crates_alone() {
    let operator = packages("wattline", &[]);
    let ours: Vec<&str> =
        operator.iter().filter_map(|name| name.strip_prefix("wattline-")).collect();
    assert_eq!(
        ours,
        House::read().operator(),
        "`operator` in house.toml lists what an operator's program is built from"
    );
    let whole = packages("wattline-lab", &[]);
    for name in RESEARCH {
        assert!(whole.contains(name), "{name} is not used at all: take it out of the list");
        assert!(!operator.contains(name), "{name} is built into a router");
    }
}
