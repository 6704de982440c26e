//! Checks of `hooks.toml`, which lists everything in the kernel's path that may decide about a
//! forwarded packet.
//!
//! A new mechanism begins with a row there. `wattline_linux::netlink::forward_path` reads the
//! kernel's state, `judge` turns it into reasons, and `wattline-rib` understands routes. The table
//! of `docs/reference/kernel-features.md` is made from these rows.

use serde::Deserialize;

/// Mechanisms of the kernel, by their relation to Wattline.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Hooks {
    understood: Vec<Hook>,
    detected: Vec<Hook>,
    unseen: Vec<Hook>,
}

/// A mechanism of the kernel.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hook {
    /// The mechanism, for users.
    feature: String,
    /// Treatment of the packets.
    treatment: String,
    /// Files and names of tests.
    tests: Vec<String>,
}

fn hooks() -> Hooks {
    toml::from_str(include_str!("hooks.toml")).unwrap()
}

/// Renders a table for each standing, as the page has them.
fn tables() -> String {
    let Hooks { understood, detected, unseen } = hooks();
    let mut tables = String::new();
    for (standing, hooks) in
        [("Understood", understood), ("Detected", detected), ("Unseen", unseen)]
    {
        tables +=
            &format!("## {standing}\n\n| kernel feature | in Wattline | test |\n|---|---|---|\n");
        for Hook { feature, treatment, tests } in hooks {
            let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
            tables += &format!("| {feature} | {treatment} | {} |\n", tests.join(", "));
        }
        tables.push('\n');
    }
    tables
}

/// `UPDATE_GOLDEN=1 cargo test -p wattline-router hooks` rewrites the page.
#[test]
fn page_has_the_tables() {
    const PAGE: &str = "docs/reference/kernel-features.md";
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("## Understood").unwrap();
    let (_, after) = rest.split_once("## Flows").unwrap();
    let expected = format!("{before}{}## Flows{after}", tables());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &expected).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, expected, "{PAGE} is not of the table: UPDATE_GOLDEN=1 rewrites it");
}

#[test]
fn every_row_has_a_test() {
    let Hooks { understood, detected, unseen } = hooks();
    for hook in understood.iter().chain(&detected).chain(&unseen) {
        assert!(!hook.tests.is_empty(), "{}", hook.feature);
    }
    let leaves = ["left", "refused", "stopped", "dropped"];
    for Hook { feature, treatment, .. } in &detected {
        assert!(leaves.iter().any(|word| treatment.contains(word)), "{feature}: {treatment}");
    }
    for Hook { feature, treatment, .. } in &understood {
        assert!(treatment.contains("honoured"), "{feature}: {treatment}");
    }
    assert!(!unseen.is_empty());
}
