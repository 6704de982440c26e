//! The Grafana board and the alerts for Prometheus: they name metrics that the program has, by
//! labels that it gives them, and Prometheus understands them. The results of the queries are
//! tested with a running router and governor (`commands/prometheus.rs`).

use crate::documents::{metrics_of_code, read, root};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use wattline_testbed::command::program;

/// Units of Grafana (`@grafana/data`, valueFormats) that fit the metrics.
const UNITS: [&str; 9] =
    ["watt", "pps", "bps", "s", "hertz", "none", "percentunit", "ops", "joule"];

/// Options that panels must have, by their type: `required` in the JSON schemas of Grafana's
/// foundation SDK (jsonschema/stat.jsonschema.json, timeseries and common).
const REQUIRED: [(&str, &[&str]); 2] = [
    (
        "stat",
        &[
            "/reduceOptions/calcs",
            "/orientation",
            "/textMode",
            "/colorMode",
            "/graphMode",
            "/justifyMode",
            "/wideLayout",
            "/showPercentChange",
            "/percentChangeColorMode",
        ],
    ),
    (
        "timeseries",
        &[
            "/legend/displayMode",
            "/legend/placement",
            "/legend/showLegend",
            "/legend/calcs",
            "/tooltip/mode",
            "/tooltip/sort",
        ],
    ),
];

fn board() -> Value {
    serde_json::from_str(&read("packaging/grafana/wattline.json")).unwrap()
}

fn panels(board: &Value) -> &Vec<Value> {
    board["panels"].as_array().unwrap()
}

fn queries(board: &Value) -> Vec<String> {
    let targets = panels(board).iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

/// Names of metrics in a text, histograms without the endings of their samples.
fn names(text: &str) -> BTreeSet<String> {
    let word = |character: char| !(character.is_ascii_alphanumeric() || character == '_');
    let named = text.split(word).filter(|word| word.starts_with("wattline_"));
    let plain = |name: &str| name.strip_suffix("_bucket").unwrap_or(name).to_owned();
    named.map(plain).collect()
}

fn run(arguments: &[&str], folder: &Path) {
    let output = program("promtool").unwrap().args(arguments).current_dir(folder).output().unwrap();
    let message = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&message));
}

#[test]
fn board_is_valid_for_grafana() {
    let board = board();
    assert_eq!((&board["uid"], &board["schemaVersion"]), (&"wattline".into(), &39.into()));
    assert!(board["id"].is_null(), "a number of one Grafana alone");
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels(&board) {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id is there twice");
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{title}: wider than the board");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "{title}: lies on another panel");
            }
        }
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap();
        assert!(UNITS.contains(&unit), "{title}: {unit}");
        let known = REQUIRED.iter().find(|(kind, _)| panel["type"] == *kind);
        for key in known.unwrap_or_else(|| panic!("{title}: a type not known here")).1 {
            assert!(panel["options"].pointer(key).is_some(), "{title}: options{key} is missing");
        }
        let sources =
            panel["targets"].as_array().unwrap().iter().map(|target| &target["datasource"]);
        for source in sources.chain([&panel["datasource"]]) {
            assert_eq!(source["uid"], "${datasource}", "{title}: a source of one Grafana alone");
        }
    }
    let variables = board["templating"]["list"].as_array().unwrap();
    for variable in variables {
        let current = &variable["current"];
        assert!(current.is_null() || !current["value"].is_null(), "{variable}: half a choice");
    }
    let variables: Vec<_> = variables.iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(variables, ["datasource", "instance"]);
}

#[test]
fn board_and_alerts_name_existing_metrics() {
    let known = metrics_of_code();
    let rules = read("packaging/prometheus/wattline.rules.yml");
    for (file, text) in [
        ("wattline.json", queries(&board()).join(" ")),
        ("wattline.rules.yml", rules.clone()),
        ("wattline.rules.test.yml", read("packaging/prometheus/wattline.rules.test.yml")),
    ] {
        let named = names(&text);
        assert!(named.len() >= 3, "{file}: {named:?}");
        let unknown: Vec<_> = named.difference(&known).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}, which the program does not make");
    }
    for query in queries(&board()) {
        assert!(query.contains("$instance"), "{query} shows all instances");
    }
}

#[test]
fn prometheus_understands_queries_and_alerts() {
    if program("promtool").is_none() {
        wattline_needs::tool("promtool");
        return;
    };
    let folder = root().join("packaging/prometheus");
    run(&["check", "rules", "wattline.rules.yml"], &folder);
    run(&["test", "rules", "wattline.rules.test.yml"], &folder);
    let rules: Vec<String> = (queries(&board()).iter().enumerate())
        .map(|(number, query)| {
            let query = query.replace("$__rate_interval", "5m").replace("$instance", ".*");
            format!("  - {{ record: \"q{number}\", expr: {} }}\n", Value::from(query))
        })
        .collect();
    let at = tempfile::tempdir().unwrap();
    let text = format!("groups:\n- name: board\n  rules:\n{}", rules.concat());
    std::fs::write(at.path().join("board.yml"), text).unwrap();
    run(&["check", "rules", "board.yml"], at.path());
}
