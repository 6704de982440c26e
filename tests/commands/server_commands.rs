//! `fit`, `optimise` and `servers` as a user runs them: output, exit codes, messages.

use crate::program::{ended, json, refused, wattline};
use serde_json::Value;
use std::fmt::Write;

/// Rows of a machine with 50 W of platform, 10 to 30 W per core and χ(t) = 2t - t².
fn measured_rows() -> String {
    let mut text = "frequency_hertz,cores,throughput_pps,power_watts,offered_pps\n".to_string();
    for (cores, capacity) in [(1, 1e6), (2, 1.8e6)] {
        for step in 0..=24 {
            let load = f64::from(step) / 20.0;
            let t = load.min(1.0);
            let power = 50.0 + f64::from(cores) * (10.0 + 20.0 * (2.0 * t - t * t));
            let (forwarded, offered) = (capacity * t, capacity * load);
            writeln!(text, "2e9,{cores},{forwarded},{power},{offered}").expect("a String grows");
        }
    }
    text
}

#[test]
fn servers_lists_models_and_says_what_they_lack() {
    let list = json(&["servers", "--json"]);
    let servers = list["servers"].as_array().expect("a list");
    let uses = |name: &str| &servers.iter().find(|server| server["name"] == name).unwrap()["uses"];
    assert_eq!(*uses("westmere-2010"), serde_json::json!(["sim", "optimise"]));
    assert_eq!(*uses("bolla-x"), serde_json::json!([]));
    let shown = String::from_utf8(wattline(&["servers", "bolla-x"]).stdout).unwrap();
    assert!(shown.contains("bolla.max_rate_pps") && shown.contains("1040 kpps at 3.0 GHz"));
}

/// Every output, also an error, is one JSON document.
#[test]
fn json_is_never_another_text() {
    for args in [
        &["servers", "westmere-2010", "--toml", "--json"][..],
        &["--json", "servers", "westmere-2010", "--toml"],
        &["govern", "--print-profile", "latency", "--json"],
        &["generate", "reference", "--json"],
    ] {
        let output = wattline(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let error: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert!(error["error"]["messages"][0].as_str().unwrap().contains("has no JSON"), "{error}");
    }
    let choice = ["optimise", "--server", "westmere-2010", "--target", "5Mpps", "--json"];
    assert!(wattline(&choice).stdout.starts_with(b"{\n  "));
}

#[test]
fn usage_errors_in_json_lack_terminal_formatting() {
    let messages = |args: &[&str]| -> Vec<String> {
        let output = wattline(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let error: Value = serde_json::from_slice(&output.stdout).expect("a document");
        serde_json::from_value(error["error"]["messages"].clone()).unwrap()
    };
    let lines = messages(&["sim", "--nonsense", "--json"]);
    assert!(lines[0].starts_with("unexpected argument '--nonsense'"), "{lines:?}");
    assert!(lines.iter().all(|line| !line.is_empty() && !line.contains("For more")), "{lines:?}");
    let lines = messages(&["--json"]).join(" ");
    assert!(lines.contains("optimise") && !lines.contains("guard"), "{lines}");
    assert!(!lines.contains("generate"), "{lines}");
    assert!(!lines.contains("optimize"), "{lines}");
}

#[test]
fn fit_then_optimise() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("rows.csv"), measured_rows()).unwrap();
    let files = ["--out", &path("mine.toml"), "--svg", &path("residuals.svg")];
    let result = json(&[&["fit", &path("rows.csv"), "--json"], &files[..]].concat());
    let plot = std::fs::read_to_string(path("residuals.svg")).unwrap();
    assert!(plot.contains("residual (W)") && plot.contains("2.000 GHz"));
    // A point for each row, all in one path, and one in the legend. The plot also contains the name
    // of the folder, which may have these letters.
    assert_eq!(plot.matches("h0M").count() + plot.matches("h0\"").count(), 50 + 1);
    let fit = &result["fit"];
    let near = |value: &Value, expected: f64| (value.as_f64().unwrap() - expected).abs() < 1e-6;
    assert!(near(&fit["base_watts"]["value"], 50.0), "{fit}");
    assert!(near(&fit["frequencies"][0]["active_watts"]["value"], 30.0));
    assert!(near(&fit["gamma"][1]["gamma"]["value"], 1.8));
    assert_eq!(fit["chi"]["order"], 2);
    assert_eq!(fit["residuals"].as_array().unwrap().len(), 50);

    let mine = path("mine.toml");
    let choice = json(&["optimise", "--server", &mine, "--target", "1Mpps", "--json"]);
    assert_eq!(choice["cores"], 1);
    assert!(near(&choice["power_watts"], 80.0), "{choice}");
    assert_eq!(choice["source"], "modelled");
    std::fs::write(path("day.csv"), "time_seconds,rate_pps\n0,0\n10,1800000\n").unwrap();
    let day = json(&["optimise", "--server", &mine, "--trace", &path("day.csv"), "--json"]);
    assert!(near(&day["energy_joules"], 10.0 * 60.0 + 10.0 * 110.0), "{day}");
}

/// Figures that rows cannot know are borrowed and marked; then simulator, policy and router take the file.
#[test]
fn completed_fit_is_taken_wherever_a_server_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (rows, bare, whole) = (path("rows.csv"), path("bare.toml"), path("whole.toml"));
    std::fs::write(&rows, measured_rows()).unwrap();
    json(&["fit", &rows, "--out", &bare, "--json"]);
    let fit =
        ["fit", &rows, "--like", "westmere-2010", "--name", "mine", "--out", &whole, "--json"];
    let completed = &json(&fit)["completed"];
    assert!(completed["error_largest"].as_f64().unwrap() < 0.05, "{completed}");
    let borrowed = completed["borrowed"].as_array().unwrap();
    assert!(borrowed.contains(&"nic.rx_ring_descriptors".into()), "{completed}");
    assert!(!borrowed.contains(&"power.core_awake_watts_per_ghz".into()), "{completed}");
    let shown = String::from_utf8(wattline(&["servers", &whole]).stdout).unwrap();
    let ring = shown.lines().find(|line| line.starts_with("nic.rx_ring_descriptors")).unwrap();
    assert!(ring.contains("borrowed") && ring.contains("as westmere-2010"), "{ring}");

    let simulated = |server: &str, policy: &str| {
        let traffic = ["--traffic", "poisson:800kpps", "--duration", "50ms"];
        wattline(
            &[&["sim", "--server", server, "--policy", policy, "--json"], &traffic[..]].concat(),
        )
    };
    let refused = simulated(&bare, "napi");
    let message = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(refused.status.code() == Some(78) && message.contains("--like NAME"), "{message}");
    let table_of = |server: &str| format!("table:server={server}");
    let report = simulated(&whole, &table_of(&whole));
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let wrong = path("wrong.toml");
    let text = std::fs::read_to_string(&whole).unwrap();
    let is_it = |line: &str| line.starts_with("fixed_us");
    let line = text.lines().position(is_it).unwrap() + 1;
    let broken: Vec<_> =
        text.lines().map(|it| if is_it(it) { "fixed_us = -1.0" } else { it }).collect();
    std::fs::write(&wrong, broken.join("\n")).unwrap();
    let named = format!("wrong.toml:{line}: wake_up.fixed_us = -1: must be 0 to 1000000");
    for (option, value, code) in [("--server", &wrong, 78), ("--policy", &table_of(&wrong), 2)] {
        let (found, message) = ended(&["sim", option, value, "--traffic", "poisson:800kpps"]);
        assert!(found == code && message.contains(&named), "{found}: {message}");
    }
    // The router reads the table's file before anything starts.
    let router = |server: &str| {
        let config = format!(
            "[router]\nsocket = \"{}\"\n[power]\nplatform = \"scale\"\nserver = \"{whole}\"\n\
             policy = \"table:server={server}\"\n[[port]]\nname = \"a\"\ncapture = {{ read = \"in.pcap\" }}\nmac = \"02:00:00:00:00:01\"\n\
             addresses = [\"192.0.2.1/24\"]\n",
            path("socket")
        );
        std::fs::write(path("router.toml"), config).unwrap();
        ended(&["config", &path("router.toml")])
    };
    assert_eq!(router(&whole), (0, String::new()));
    let (code, message) = router(&wrong);
    assert!(code == 78 && message.contains(&named), "{code}: {message}");
}

#[test]
fn optimise_on_the_reference_server() {
    let args = ["optimise", "--server", "westmere-2010", "--target", "5Mpps", "--json"];
    let free = json(&args);
    let bound = json(&[&args[..], &["--latency-bound", "12us"]].concat());
    assert!(bound["latency_mean_seconds"].as_f64().unwrap() <= 12e-6);
    assert!(bound["power_watts"].as_f64() > free["power_watts"].as_f64());
}

#[test]
fn mistakes_have_their_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    std::fs::write(path("bad.csv"), "frequency_hertz,cores\n3.0,1\n").unwrap();
    std::fs::write(path("bad.toml"), "name = \"x\"\nsocks = 1\n").unwrap();
    let optimise =
        |server: &str, target: &str| ended(&["optimise", "--server", server, "--target", target]);
    let cases = [
        (66, "did you mean the shipped `westmere-2010`?", optimise("westmere", "1Mpps")),
        (78, "bolla.active_watts: Figures 1 and 2 are lost", optimise("bolla-a", "1Mpps")),
        (78, "bad.toml:2: socks: unknown", optimise(&path("bad.toml"), "1Mpps")),
        (65, "50.0000 Mpps are more than", optimise("westmere-2010", "50Mpps")),
        (2, "\"5\" is not a rate such as 5Mpps", optimise("westmere-2010", "5")),
        (66, "No such file", ended(&["fit", &path("none.csv")])),
        (65, "bad.csv:1: throughput_pps: missing", ended(&["fit", &path("bad.csv")])),
    ];
    for (code, words, (found, message)) in cases {
        assert_eq!(found, code, "{message}");
        assert!(message.contains(words), "{words:?} not in {message}");
    }
}

#[test]
fn receive_path_follows_its_sizes_proposals_and_rate() {
    let paths = |args: &[&str]| {
        let fixed = ["receive", "--packets", "6000", "--json"];
        json(&[&fixed, args].concat())["paths"].as_array().unwrap().clone()
    };
    let number = |path: &Value, key: &str| path[key].as_f64().unwrap();
    let base = &paths(&[])[0];
    assert_eq!(base["proposal"], "none");
    // The paper's packet at its own path: 2.66 GHz at 5.6 Gbit/s.
    assert!((number(base, "cycles_per_packet") - 5548.0).abs() < 1.0, "{base}");
    let fast = &paths(&["--rate", "18.98Gbit/s"])[0];
    assert!((number(fast, "cpu_watts") / number(base, "cpu_watts") - 2.0).abs() < 1e-6);
    let large = &paths(&["--llc-bytes", "33554432"])[0];
    assert!(number(large, "llc_misses_per_packet") < number(base, "llc_misses_per_packet"));
    let all = paths(&["--proposal", "all"]);
    assert_eq!(all.len(), 8);
    for path in &all[1..] {
        assert!(number(path, "cycles_per_packet") < number(base, "cycles_per_packet"), "{path}");
        assert!(!path["misses"].as_array().unwrap().is_empty());
    }
    for (args, expected) in [
        (&["receive", "--ring", "9999"][..], "ring is 9999; allowed: 1 to 4096"),
        (&["receive", "--proposal", "cache"][..], "direct-cache-access"),
        (&["receive", "--rate", "5GB"][..], "5GB"),
    ] {
        refused(args, 2, &[expected]);
    }
}

#[test]
fn simulated_router_is_characterised_into_a_server_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (own, fitted, rows) = (path("own.toml"), path("fitted.toml"), path("rows.csv"));
    let text = wattline(&["servers", "ideal-single-core", "--toml"]).stdout;
    let mut text = String::from_utf8(text).unwrap();
    for (old, new) in [
        ("cores_per_socket = 1", "cores_per_socket = 2"),
        ("power_watts = 0", "power_watts = 2"),
        (
            "exit_latency_us = 0",
            "exit_latency_us = 0\n[[idle_state]]\nname = \"C6\"\npower_watts = 0\nexit_latency_us = 40",
        ),
        ("board_watts = 0", "board_watts = 20"),
        ("queues_per_port = 1", "queues_per_port = 2"),
        ("redirect_table_entries = 1", "redirect_table_entries = 128"),
        ("rx_ring_descriptors = \"unbounded\"", "rx_ring_descriptors = 512"),
    ] {
        assert!(text.contains(old), "{old}");
        text = text.replacen(old, new, 1);
    }
    std::fs::write(&own, text).unwrap();
    let args = ["characterise", "--server", &own, "--out", &fitted, "--csv", &rows, "--json"];
    let found = json(&args);
    let frequency = &found["fit"]["frequencies"][0];
    let value = |of: &Value| of["value"].as_f64().unwrap();
    assert!((value(&frequency["max_rate_pps"]) / 1e6 - 1.0).abs() < 0.01, "{frequency}");
    let swing = value(&frequency["active_watts"]) - value(&frequency["idle_watts"]);
    assert!((swing - 8.0).abs() < 0.1, "10 W awake less 2 W halted: {frequency}");
    assert_eq!(json(&["fit", &rows, "--json"])["fit"]["gamma"], found["fit"]["gamma"]);
    let best = json(&["optimise", "--server", &fitted, "--target", "1500kpps", "--json"]);
    assert_eq!(best["cores"], 2, "{best}");
    let (code, message) = ended(&["characterise", "--server", &own, "--out", &fitted]);
    assert!(code == 74 && message.contains("--overwrite"), "{code}: {message}");
    let nobody = path("nobody");
    let (code, message) =
        ended(&["characterise", "--on", "host", "--rates", "0pps", "--socket", &nobody]);
    assert!(code == 66 && message.contains(&nobody), "{code}: {message}");
    assert_eq!(found["power"]["source"], "modelled");
    // The emulated server has the same parameters, unless this machine is too busy to emulate it.
    let args = ["characterise", "--on", "scale", "--server", &own, "--json"];
    let output = wattline(&args);
    let emulated: Value = serde_json::from_slice(&output.stdout).unwrap();
    if emulated["error"].is_object() {
        assert_eq!(output.status.code(), Some(69), "{emulated}");
        assert!(emulated.to_string().contains("too busy"), "{emulated}");
        println!("not decided: {emulated}");
        return;
    }
    assert_eq!(emulated["power"]["source"], "emulated");
    let of = |it: &Value, key: &str| value(&it["fit"]["frequencies"][0][key]);
    for (key, within) in [("max_rate_pps", 0.02), ("active_watts", 0.02)] {
        let (one, other) = (of(&found, key), of(&emulated, key));
        assert!((other / one - 1.0).abs() < within, "{key}: simulated {one}, emulated {other}");
    }
}
