//! `nics` as a user runs it: lists, choices, power models, errors.

use crate::program::{ended, json, wattline};

#[test]
fn cards_are_listed_and_shown_with_the_table_of_each_figure() {
    let list = json(&["nics", "--json"]);
    assert_eq!(list["cards"].as_array().unwrap().len(), 10);
    let shown = json(&["nics", "show", "intel(base-t)", "--json"]);
    assert_eq!(shown["idle_watts"], 21.2);
    let figures = shown["figures"].as_array().unwrap();
    let tables: Vec<&str> = figures.iter().filter_map(|figure| figure["note"].as_str()).collect();
    assert_eq!(tables.len(), figures.len(), "a figure without its table: {figures:?}");
    let text = String::from_utf8(wattline(&["nics", "SFE4003"]).stdout).unwrap();
    assert_eq!(wattline(&["nics", "show", "SFE4003"]).stdout, text.as_bytes());
    assert_eq!(json(&["nics", "intel(base-t)", "--json"]), shown);
    let (code, error) = ended(&["nics", "SFE4004"]);
    assert!(code != 0 && error.contains("SFE4004"), "{error}");
    assert_eq!(ended(&["nics", "SFE4003", "compare"]).0, 2);
    assert!(text.contains("Solarflare(CX4)") && text.contains("3.367 Gbit/s per W"), "{text}");
}

#[test]
fn a_choice_obeys_its_budgets() {
    let choose = |more: &[&str]| {
        json(&[&["nics", "choose", "--throughput", "16Gbit/s", "--json"], more].concat())
    };
    assert_eq!(choose(&[])["best"]["name"], "Solarflare(CX4)");
    let bound = choose(&["--cpu-budget", "300"]);
    assert_eq!(bound["best"]["name"], "Broadcom(Fibre)");
    assert_eq!(bound["best"]["slots"], 1);
    assert!(bound["best"]["host_cpu_percent"].as_f64().unwrap() < 300.0);
    let server = choose(&["--server-idle", "200W", "--watts-per-cpu-percent", "0.2"]);
    assert_eq!(server["best"]["name"], "Broadcom(Fibre)");
}

#[test]
fn cards_are_compared() {
    let all = json(&["nics", "compare", "--json"]);
    assert_eq!(all["ranking"][0]["name"], "Solarflare(CX4)");
    assert_eq!(all["media_of_10g"][0]["medium"], "cx4");
    assert_eq!(all["links"].as_array().unwrap().len(), 2);
}

#[test]
fn a_power_model_is_written_read_and_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("power_model.yml");
    let written = wattline(&["nics", "show", "PEG4I-RoHS", "--power-model"]);
    std::fs::write(&path, &written.stdout).unwrap();
    let file = path.to_str().unwrap();
    let asked = json(&["nics", "model", file, "--ports", "4", "--json"]);
    let watts = asked["prediction"]["power_watts"].as_f64().unwrap();
    assert!((watts - 12.26).abs() < 0.01, "{watts}");
    let again = wattline(&["nics", "model", file, "--yaml"]);
    assert_eq!(again.stdout, written.stdout);
}

#[test]
fn mistakes_have_their_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.yml");
    std::fs::write(&bad, "metadata: {device_id: d}\nQ: 3\n").unwrap();
    let bad = bad.to_str().unwrap();
    let cases = [
        (2, "no card \"x\"", ended(&["nics", "show", "x"])),
        (2, "is not a bit rate", ended(&["nics", "choose", "--throughput", "16"])),
        (2, "--slots is 0", ended(&["nics", "choose", "--throughput", "1Gbps", "--slots", "0"])),
        (
            65,
            "no kind of card carries this in 1 slot",
            ended(&["nics", "choose", "--throughput", "90Gbps"]),
        ),
        (
            65,
            "was not measured over its links",
            ended(&["nics", "show", "NC380T", "--power-model"]),
        ),
        (65, "bad.yml: Q: is not a table", ended(&["nics", "model", bad])),
        (66, "cannot open", ended(&["nics", "model", "/does/not/exist"])),
        (66, "did you mean", ended(&["nics", "--cards", "sohan-2010"])),
    ];
    for (code, words, (found, message)) in cases {
        assert_eq!(found, code, "{message}");
        assert!(message.contains(words), "{message}");
    }
}
