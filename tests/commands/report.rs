//! `wattline report`: simulations compared.

use crate::program::{ended_with, json, refused, wattline, words};
use std::path::Path;
use wattline_needs::browser::{Browser, look, url_of};

/// Three simulations of a policy, as a user would keep them.
fn simulate(folder: &Path, policy: &str) -> String {
    let at = folder.join(policy);
    std::fs::create_dir(&at).unwrap();
    for seed in ["1", "2", "3"] {
        let line = "sim --traffic poisson:1Mpps,size=64 --duration 20ms --json --policy";
        let output = wattline(&words(line, &[policy, "--seed", seed]));
        ended_with(&output, 0, &[]);
        std::fs::write(at.join(format!("{seed}.json")), output.stdout).unwrap();
    }
    at.display().to_string()
}

#[test]
fn two_policies_differ_in_watts_by_more_than_chance_and_one_not_from_itself() {
    let folder = tempfile::tempdir().unwrap();
    let (poll, saver) = (simulate(folder.path(), "poll"), simulate(folder.path(), "queue-length"));
    std::fs::write(Path::new(&saver).join("4.json"), "{\"half\": ").unwrap();
    let page = folder.path().join("page.html");
    let output = wattline(&["report", &poll, &saver, "--page", page.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ended_with(&output, 0, &[]);
    for words in ["3 repetitions", "left out: 4.json: is not JSON", "watts", "less", "by chance"] {
        assert!(text.contains(words), "{words:?} is missing in\n{text}");
    }
    let report = json(&["report", &poll, &saver, "--only", "watts", "--json"]);
    let figures = report["figures"].as_array().unwrap();
    let power = figures.iter().find(|it| it["path"].as_str().unwrap().ends_with("power_watts"));
    let difference = &power.unwrap_or_else(|| panic!("{report:#}"))["differences"][0];
    assert_eq!(difference["outcome"], "less", "{difference}");
    assert!(difference["mean"].as_f64().unwrap() + difference["half"].as_f64().unwrap() < 0.0);

    let report = json(&["report", &poll, &poll, "--json"]);
    for figure in report["figures"].as_array().unwrap() {
        let outcome = figure["differences"][0]["outcome"].as_str().unwrap();
        assert!(["same", "not-shown"].contains(&outcome), "{figure}");
    }

    assert!(std::fs::metadata(&page).unwrap().len() < 1 << 20);
    let Some(mut browser) = Browser::start("the page of runs") else { return };
    let wrong =
        look(&mut browser, "report", &url_of(&page), "document.querySelectorAll('svg').length > 1");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(browser.text().contains("no difference shown") || browser.text().contains("less"));
}

#[test]
fn file_without_a_run_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    for (arguments, code, words) in [
        (&["report", at][..], 2, "2 values required"),
        (&["report", at, at], 65, "a run is a folder of files *.json"),
        (&["report", at, "/nowhere"], 65, "a run is a folder"),
        (&["report", "/nowhere", at], 66, "/nowhere"),
    ] {
        refused(arguments, code, &[words]);
    }
    std::fs::write(folder.path().join("1.json"), "{\"watts\": 1}").unwrap();
    let output = wattline(&["report", at, at, "--only", "volts"]);
    assert_eq!(output.status.code(), Some(65));
    let output = wattline(&["report", at, at]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("has no interval"));
}
