//! Parts of configurations on pages: the program reads each, with the ports that it names.

use super::pages::{blocks, is_configuration, page, pages, root};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// Keys whose values are names of ports.
const OF_PORTS: [&str; 4] = ["port", "on", "strict", "loose"];

/// Returns the ports that a part names but does not define.
fn ports_of(part: &toml::Table) -> BTreeSet<String> {
    fn names(key: &str, value: &toml::Value, found: &mut BTreeSet<String>) {
        match value {
            toml::Value::String(name) if OF_PORTS.contains(&key) => {
                found.insert(name.clone());
            }
            toml::Value::Array(values) => values.iter().for_each(|it| names(key, it, found)),
            toml::Value::Table(table) => table.iter().for_each(|(key, it)| names(key, it, found)),
            _ => {}
        }
    }
    let mut found = BTreeSet::new();
    if !part.contains_key("port") {
        // A router has two.
        found.extend(["one", "other"].map(str::to_owned));
        names("", &toml::Value::Table(part.clone()), &mut found);
    }
    found
}

/// Returns the program's error about a part; empty if there is none.
fn complaint(part: &str, folder: &Path) -> String {
    let table: toml::Table = part.parse().unwrap();
    let file = folder.join("part.toml");
    let mut command = Command::new(wattline_needs::program());
    let mut text = part.replace("/etc/wattline/tables.csv", "tables.csv");
    if table.contains_key("source") {
        command.args(["sim", "--duration", "1ms", "--warmup", "1ms", "--traffic", "part.toml"]);
    } else if table.contains_key("govern") || table.contains_key("latency") {
        command.args(["config", "--govern", "part.toml"]);
    } else {
        command.args(["config", "part.toml"]);
        for name in ports_of(&table) {
            let _ = write!(text, "\n[[port]]\nname = \"{name}\"\ninterface = \"{name}\"\n");
        }
    }
    std::fs::write(&file, text).unwrap();
    let output = command.current_dir(folder).output().unwrap();
    match output.status.success() {
        true => String::new(),
        false => String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Makes the files that such a part needs: keys of a tunnel, tables of a profile.
fn reader() -> tempfile::TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    for (name, byte) in [("a-to-b.key", "a1"), ("b-to-a.key", "b2")] {
        let path = folder.path().join(name);
        std::fs::write(&path, byte.repeat(20)).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let tables = page("docs/reference/profile-tables.md");
    let tables = tables.split("```\n").nth(1).unwrap();
    std::fs::write(folder.path().join("tables.csv"), tables).unwrap();
    folder
}

#[test]
fn parts_of_configurations_are_read_as_the_pages_show_them() {
    let folder = reader();
    let (mut read, mut wrong) = (0, Vec::new());
    for path in pages() {
        for block in blocks(&page(&path)).iter().filter(|block| is_configuration(block)) {
            // A part of a league is read by the league's own test.
            if block.starts_with("[tuning]") {
                assert!(root().join("crates/league/tests/leagues.rs").exists());
                continue;
            }
            read += 1;
            let message = complaint(block, folder.path());
            if !message.is_empty() {
                wrong.push(format!("{path}:\n{block}{message}"));
            }
        }
    }
    assert!(read > 10, "{read} parts were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let message = complaint("[urpf]\nstrikt = [\"customer\"]\n", folder.path());
    assert!(message.contains("strikt"), "a wrong part is refused: {message}");
}
