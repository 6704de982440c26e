//! Dependencies that Cargo features leave out.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Returns the packages that a program is made of, without dependencies of its tests.
pub fn packages(program: &str, features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", program, "--edges", "normal"])
        .args(["--prefix", "none", "--format", "{p}"])
        .args(features)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn a_router_without_ipsec_has_no_library_for_encryption() {
    let encrypts = |name: &String| name.starts_with("aws-lc") || name == "wattline-ipsec";
    assert!(
        packages("wattline", &[]).iter().any(encrypts),
        "the features that are on by default have it"
    );
    for features in [
        &["--no-default-features"][..],
        &["--no-default-features", "--features", "flow-records,redundancy"],
    ] {
        let packages = packages("wattline", features);
        assert!(packages.iter().any(|name| name == "wattline-router"), "{features:?}");
        let found: Vec<_> = packages.iter().filter(|name| encrypts(name)).collect();
        assert!(found.is_empty(), "{features:?}: {found:?}");
    }
}
