//! `docs/reference/json.md`: the keys of the documents of `--json`, found by running the commands.

use crate::program::{any_document, wattline_in};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

const PAGE: &str = "docs/reference/json.md";
const RENEW: &str = "UPDATE_GOLDEN=1 cargo test -p commands-tests json_reference";

const HEAD: &str = "\
# JSON

Written by a test that runs these commands. With `--json` a command prints one document, the result or the error; logs and progress
are on standard error. A key ends in its unit: `_watts`, `_joules`, `_seconds`, `_hertz`, `_pps` (packets a second), `_rps` (requests a
second), `_bits_per_second`, `_bytes`; a number without one counts, or is a share of 1. `[]` is each element of a list, `*` stands
for names that depend on the input. `null` is what is not known; it is never 0 instead. Watts have `source` (`measured`,
`modelled`, `emulated`) and `accuracy` beside them. A result has `build` (`version`, `commit`, `modified`). New keys may be
added; those that are here stay. `wattline schema results` prints a JSON schema of simulations' results.

Two commands print more than one document, as they may go on for hours: `trace --json` a line for each packet and one for the
end, and `meter record --json` CSV, with its account as JSON on standard error. What is a text of its own (`servers NAME --toml`,
`govern --print-profile NAME`) is refused with `--json`.
";

/// A command, and objects whose keys are names from the input.
type Shown = (&'static str, &'static [&'static str]);

/// Commands that run in the folder that [`folder`] makes, in a second or two, on any machine.
const COMMANDS: &[Shown] = &[
    ("wattline sim --traffic poisson:1Mpps --duration 5ms --warmup 1ms --interval 1ms", &[]),
    ("wattline sim --requests memcached:50krps --duration 10ms", &[]),
    ("wattline sweep --traffic poisson:1Mpps --duration 2ms --warmup 1ms", &[]),
    ("wattline envelope --traffic poisson:5Mpps --duration 5ms", &[]),
    ("wattline league league.toml", &[]),
    ("wattline optimise --server westmere-2010 --target 5Mpps", &[]),
    ("wattline fit rows.csv", &[]),
    ("wattline report one two", &[]),
    ("wattline policies queue-length", &[]),
    ("wattline servers", &[]),
    ("wattline servers westmere-2010", &[]),
    ("wattline nics", &[]),
    ("wattline lookup --routes routes.txt 192.0.2.1", &[]),
    ("wattline config examples/captures.toml", &[]),
    ("wattline run examples/captures.toml", &["dropped"]),
    ("wattline meter list --root meters", &[]),
    ("wattline probe --root knobs", &[]),
    ("wattline plan --govern --root knobs", &[]),
    ("wattline sim --traffic none", &[]),
];

/// A league with every kind of key.
const LEAGUE: &str = "servers = [\"westmere-2010\"]\npolicies = [\"poll\"]\n\
    traffics = [\"poisson:1Mpps,size=64\"]\nbudgets = [\"100us\"]\nseeds = [1, 2]\n\
    duration = \"2ms\"\nwarmup = \"1ms\"\n[tuning]\nseeds = [3]\ngrids = [\"napi:cores=1|2\"]\n";

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    copy(&root().join("examples"), &path.join("examples"));
    copy(&root().join("crates/meters/tests/fixtures/acpi-power-meter"), &path.join("meters"));
    copy(&root().join("crates/knobs/tests/fixtures/intel-pstate-hwp"), &path.join("knobs"));
    std::fs::write(path.join("league.toml"), LEAGUE).unwrap();
    std::fs::write(path.join("routes.txt"), "192.0.2.0/24\n").unwrap();
    let mut rows = "frequency_hertz,cores,throughput_pps,power_watts,offered_pps\n".to_owned();
    for step in 0..=24 {
        let load = f64::from(step) / 20.0;
        let rate = 1e6 * load.min(1.0);
        let _ = writeln!(rows, "2e9,1,{rate},{},{}", 60.0 + 20.0 * load.min(1.0), 1e6 * load);
    }
    std::fs::write(path.join("rows.csv"), rows).unwrap();
    for (run, watts) in [("one", [100.0, 101.0]), ("two", [90.0, 92.0])] {
        std::fs::create_dir(path.join(run)).unwrap();
        for (seed, watts) in watts.iter().enumerate() {
            let text = format!("{{\"power_watts\": {watts:.1}}}");
            std::fs::write(path.join(run).join(format!("{seed}.json")), text).unwrap();
        }
    }
    folder
}

/// Paths of the values of a document with the kinds that they have.
fn keys(
    value: &Value,
    path: &str,
    maps: &[&str],
    found: &mut BTreeMap<String, BTreeSet<&'static str>>,
) {
    let kind = match value {
        Value::Object(members) => {
            for (key, member) in members {
                let key = if maps.contains(&path) { "*" } else { key };
                let below = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
                keys(member, &below, maps, found);
            }
            return;
        }
        Value::Array(members) => {
            let below = format!("{path}[]");
            if members.is_empty() {
                found.entry(below).or_default();
            } else {
                members.iter().for_each(|member| keys(member, &below, maps, found));
            }
            return;
        }
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "number",
        Value::String(_) => "text",
    };
    found.entry(path.to_owned()).or_default().insert(kind);
}

/// The list of a document. Elements of empty lists have no kind; they are left out where another
/// document has such elements.
fn list(document: &Value, maps: &[&str]) -> String {
    let mut document = document.clone();
    // All have it: once is enough.
    document.as_object_mut().and_then(|document| document.remove("build"));
    let mut found = BTreeMap::new();
    keys(&document, "", maps, &mut found);
    let mut list = String::new();
    for (path, kinds) in found {
        let kinds: Vec<&str> = kinds.into_iter().collect();
        let kinds = if kinds.is_empty() { "empty here".to_owned() } else { kinds.join(", ") };
        let _ = writeln!(list, "- `{path}`: {kinds}");
    }
    list
}

fn document(line: &str, folder: &Path) -> Value {
    let mut words = line.split(' ').skip(1).collect::<Vec<_>>();
    words.push("--json");
    any_document(&wattline_in(folder, &words))
}

#[test]
fn the_reference_page_of_json_has_the_keys_of_every_document() {
    let folder = folder();
    let mut page = HEAD.to_owned();
    for (line, maps) in COMMANDS {
        let document = document(line, folder.path());
        let is_error = document.get("error").is_some();
        assert_eq!(is_error, line.ends_with(" none"), "{line}: {document}");
        let heading = if is_error { "An error" } else { line };
        let _ = write!(
            page,
            "\n## {}\n\n{}",
            heading.trim_start_matches("wattline "),
            list(&document, maps)
        );
    }
    let path = root().join(PAGE);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        return std::fs::write(path, page).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    let same = found.lines().zip(page.lines()).take_while(|(old, new)| old == new).count();
    let at = |text: &str| text.lines().nth(same).unwrap_or("nothing").to_owned();
    let (old, new) = (at(&found), at(&page));
    assert!(found == page, "{PAGE}:{}: {old:?}, now {new:?}; to renew it: {RENEW}", same + 1);
}

#[test]
fn results_follow_their_schema() {
    let folder = folder();
    let schema = document("wattline schema results", folder.path());
    let check = |name: &str, document: &Value| {
        let mut one = schema["properties"][name].clone();
        assert!(one.is_object(), "{name}");
        one["$defs"] = schema["$defs"].clone();
        let errors: Vec<String> = jsonschema::validator_for(&one)
            .unwrap()
            .iter_errors(document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        errors
    };
    let names = ["sim", "sim --requests", "sweep", "envelope", "league"];
    for (name, (line, _)) in names.into_iter().zip(COMMANDS) {
        assert!(line.starts_with(&format!("wattline {name}")), "{name}: {line}");
        let mut document = document(line, folder.path());
        assert_eq!(check(name, &document), Vec::<String>::new(), "{line}");
        // A document without its last key breaks it.
        let last = schema["properties"][name]["$ref"]
            .as_str()
            .and_then(|name| schema.pointer(&name[1..]))
            .and_then(|type_| type_["required"].as_array()?.last()?.as_str())
            .unwrap()
            .to_owned();
        document.as_object_mut().unwrap().remove(&last).unwrap();
        assert_ne!(check(name, &document), Vec::<String>::new(), "{line} without {last}");
    }
}

#[test]
fn keys_are_found_at_every_depth() {
    let document = serde_json::json!({
        "a_watts": 1.5, "b": [{ "c": null }, { "c": "x" }], "d": [], "e": { "left": 1, "right": 2 }
    });
    let expected =
        "- `a_watts`: number\n- `b[].c`: null, text\n- `d[]`: empty here\n- `e.*`: number\n";
    assert_eq!(list(&document, &["e"]), expected);
}
