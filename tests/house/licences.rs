//! Every dependency has a licence that `deny.toml` allows and comes from crates.io.
//! cargo-deny checks more, where it is installed (`scripts/check-dependencies`).

use serde_json::Value;
use std::path::Path;
use std::process::Command;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[test]
fn all_licences_and_sources_are_allowed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let allowed = allow_list(&std::fs::read_to_string(root.join("deny.toml")).unwrap());
    assert!(allowed.contains(&"MIT".to_owned()), "{allowed:?}");

    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform"])
        .arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
        .current_dir(&root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 20, "{} packages", packages.len());

    let problems: Vec<_> =
        packages.iter().filter_map(|package| problem(package, &allowed)).collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

/// The Python package is a workspace of its own. Packages in its lock file that are not built for
/// this target are ignored.
#[test]
fn all_licences_of_the_python_package_are_allowed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let allowed = allow_list(&std::fs::read_to_string(root.join("deny.toml")).unwrap());
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none"])
        .args(["--format", "{p}|{l}", "--manifest-path"])
        .arg(root.join("python/Cargo.toml"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> = tree.lines().filter_map(|line| line.split_once('|')).collect();
    assert!(lines.len() > 20, "{tree}");
    let refused =
        |(_, licence): &&(&str, &str)| !permitted(licence.trim_end_matches(" (*)"), &allowed);
    let problems: Vec<_> = lines.iter().filter(refused).collect();
    assert!(problems.is_empty(), "{problems:#?}");
    let lock = std::fs::read_to_string(root.join("python/Cargo.lock")).unwrap();
    let sources = lock.lines().filter(|line| line.starts_with("source = "));
    for source in sources {
        assert_eq!(source, format!("source = \"{REGISTRY}\""));
    }
}

fn problem(package: &Value, allowed: &[String]) -> Option<String> {
    let name = package["name"].as_str()?;
    // Packages of this workspace have no source.
    if let Some(source) = package["source"].as_str()
        && source != REGISTRY
    {
        return Some(format!("{name} comes from {source}; only crates.io is allowed"));
    }
    match package["license"].as_str() {
        Some(licence) if permitted(licence, allowed) => None,
        Some(licence) => Some(format!("{name} is under {licence}, which deny.toml does not allow")),
        None => Some(format!("{name} states no licence")),
    }
}

/// Returns true if a licence expression (SPDX; `/` in old manifests means OR) can be met with
/// allowed licences alone. OR binds looser than AND, and brackets bind tightest.
fn permitted(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.trim().replace('/', " OR ");
    for (operator, all) in [(" OR ", false), (" AND ", true)] {
        let parts = split_outside_brackets(&expression, operator);
        if parts.len() > 1 {
            return if all {
                parts.iter().all(|part| permitted(part, allowed))
            } else {
                parts.iter().any(|part| permitted(part, allowed))
            };
        }
    }
    match expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => permitted(inner, allowed),
        None => allowed.contains(&expression),
    }
}

fn split_outside_brackets<'a>(text: &'a str, separator: &str) -> Vec<&'a str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0_i32, 0);
    for (index, letter) in text.char_indices() {
        depth += i32::from(letter == '(') - i32::from(letter == ')');
        if depth == 0 && index >= start && text[index..].starts_with(separator) {
            parts.push(&text[start..index]);
            start = index + separator.len();
        }
    }
    parts.push(&text[start..]);
    parts
}

/// The strings of `allow = [...]`.
fn allow_list(deny: &str) -> Vec<String> {
    let list = deny.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']'));
    let (list, _) = list.expect("deny.toml has `allow = [`");
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn expressions_are_understood() {
    let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"].map(str::to_owned);
    for good in [
        "MIT",
        "MIT OR GPL-3.0",
        "MIT/Apache-2.0",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "MIT AND Apache-2.0",
    ] {
        assert!(permitted(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR GPL-3.0) AND LGPL-2.1", ""] {
        assert!(!permitted(bad, &allowed), "{bad}");
    }
}
