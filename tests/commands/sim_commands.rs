//! `sim`, `sweep` and `policies` as a user runs them: output, exit codes, messages.

use crate::program::{document, json, number, refused, wattline};
use serde_json::Value;
use std::process::Command;

const SHORT: [&str; 4] = ["--duration", "10ms", "--warmup", "1ms"];

fn simulate(policy: &str, traffic: &str) -> Value {
    let args = ["sim", "--json", "--policy", policy, "--traffic", traffic];
    json(&[&args[..], &SHORT].concat())
}

#[test]
fn sim_prints_every_promised_key() {
    let report = simulate("queue-length", "poisson:5Mpps,size=64");
    for key in [
        "offered_packets",
        "forwarded_packets",
        "dropped_packets",
        "reordered_packets",
        "latency_min_seconds",
        "latency_mean_seconds",
        "latency_p50_seconds",
        "latency_p95_seconds",
        "latency_p99_seconds",
        "latency_p999_seconds",
        "power_watts",
        "energy_joules",
        "energy_per_packet_joules",
        "cores_active_mean",
        "frequency_mean_hertz",
        "transitions",
        "interrupts_per_packet",
        "wall_seconds",
        "simulated_packets_per_second",
    ] {
        assert!(number(&report, key) >= 0.0, "{key}");
    }
    assert_eq!(report["source"], "modelled");
    assert!(report["accuracy"].is_string());
    assert!(report["power_by_component_watts"].is_object());
}

#[test]
fn figures_of_a_run_agree_with_each_other() {
    for (policy, traffic) in [
        ("queue-length", "poisson:5Mpps,size=64"),
        ("napi:cores=1,frequency_ghz=1.6", "poisson:5Mpps,size=64"), // overloaded
        ("poll", "constant:1Gbps,size=imix"),
    ] {
        let report = simulate(policy, traffic);
        let of = |key| number(&report, key);
        let inside = of("waiting_at_end_packets") - of("waiting_at_start_packets");
        let out = of("forwarded_packets") + of("dropped_packets");
        assert_eq!(of("offered_packets"), out + inside, "{policy}");
        assert_eq!(of("dropped_packets") > 0.0, policy.starts_with("napi"), "{policy}");
        let parts = report["power_by_component_watts"].as_object().unwrap();
        let sum: f64 = parts.values().map(|watts| watts.as_f64().unwrap()).sum();
        assert!((sum - of("power_watts")).abs() < 1e-6, "{policy}: {sum}");
        let joules = of("power_watts") * of("duration_seconds");
        assert!((joules - of("energy_joules")).abs() < 1e-6, "{policy}: {joules}");
        let per_packet = of("energy_joules") / of("forwarded_packets");
        assert!((per_packet / of("energy_per_packet_joules") - 1.0).abs() < 1e-9, "{policy}");
        let latencies = ["min", "p50", "p95", "p99", "p999"]
            .map(|name| number(&report, &format!("latency_{name}_seconds")));
        // Percentiles come from a histogram with three digits.
        assert!(latencies.is_sorted_by(|a, b| *a <= b * 1.002), "{policy}: {latencies:?}");
    }
}

#[test]
fn output_links_add_their_time_and_are_counted() {
    let args = ["sim", "--json", "--policy", "poll", "--traffic", "poisson:2Mpps,size=1500"];
    let without = json(&[&args[..], &SHORT].concat());
    let with = json(&[&args[..], &SHORT, &["--output-links"]].concat());
    assert_eq!((&without["output_links"], &with["output_links"]), (&false.into(), &true.into()));
    let micros = |report: &Value| 1e6 * number(report, "latency_min_seconds");
    let more = micros(&with) - micros(&without);
    // 1436 bytes more than the short packets by which the model's own time was measured.
    assert!((more - 1.149).abs() < 0.02, "{more}");
    assert_eq!(number(&with, "dropped_at_output_packets"), 0.0);
}

#[test]
fn path_changes_costs_and_refuses_policies_of_workers() {
    let args = ["--json", "--policy", "napi", "--traffic", "poisson:2Mpps"];
    let watts = ["workers", "xdp", "kernel"].map(|path| {
        let report = json(&[&["sim"], &args[..], &SHORT, &["--path", path]].concat());
        assert_eq!(report["path"], path);
        number(&report, "power_watts")
    });
    assert!(watts.is_sorted_by(|less, more| less < more), "{watts:?}");
    let swept = json(&[&["sweep"], &args[..], &SHORT, &["--path", "kernel,workers"]].concat());
    let swept = swept["results"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["server"].as_str().unwrap().to_owned(), number(row, "power_watts")));
    let names = ["westmere-2010+kernel", "westmere-2010"].map(str::to_owned);
    let expected: Vec<_> = names.into_iter().zip([watts[2], watts[0]]).collect();
    assert_eq!(swept.collect::<Vec<_>>(), expected);
    let with =
        |policy, path| ["sim", "--traffic", "poisson:2Mpps", "--policy", policy, "--path", path];
    refused(&with("napi", "bridge"), 2, &["bridge", "workers, xdp, kernel"]);
    refused(&with("poll", "kernel"), 2, &["policy", "path workers"]);
    let server = ["--server", "ideal-single-core"];
    refused(&[&with("napi", "xdp")[..], &server].concat(), 78, &["[path.xdp]"]);
}

#[test]
fn sweep_gives_a_row_for_every_case() {
    let folder = tempfile::tempdir().unwrap();
    let csv = folder.path().join("sweep.csv");
    let csv = csv.to_str().unwrap();
    let args = ["sweep", "--json", "--policy", "poll", "--policy", "napi", "--csv", csv];
    let traffic = ["--traffic", "poisson:1Mpps", "--traffic", "poisson:2Mpps", "--seed", "7"];
    let result = json(&[&args[..], &traffic, &SHORT].concat());
    let rows = result["results"].as_array().unwrap();
    let names: Vec<_> = rows
        .iter()
        .map(|row| (row["policy"].as_str().unwrap(), row["traffic"].as_str().unwrap()))
        .collect();
    let (slow, fast) = ("poisson:1Mpps", "poisson:2Mpps");
    assert_eq!(names, [("poll", slow), ("poll", fast), ("napi", slow), ("napi", fast)]);
    let text = std::fs::read_to_string(csv).unwrap();
    let mut lines = text.lines();
    let header: Vec<_> = lines.next().unwrap().split(',').collect();
    let column = header.iter().position(|name| *name == "power_watts").unwrap();
    for (row, line) in rows.iter().zip(lines) {
        let watts: f64 = line.split(',').nth(column).unwrap().parse().unwrap();
        assert!((watts - number(row, "power_watts")).abs() < 1e-9);
    }
    // The same case alone gives the same.
    let alone = ["sim", "--json", "--policy", "napi", "--traffic", fast, "--seed", "7"];
    let alone = json(&[&alone[..], &SHORT].concat());
    assert_eq!(alone["energy_joules"], rows[3]["energy_joules"]);
}

/// The file read back by the crate that wrote it, and by pyarrow where that is installed.
#[test]
fn sweep_writes_arrow_that_others_read() {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt64Type};
    use arrow_ipc::reader::FileReader;
    // The JSON parser's last digit is not exact.
    let equal = |a: Option<f64>, b: Option<f64>| match (a, b) {
        (Some(a), Some(b)) => (a - b).abs() <= 1e-14 * a.abs(),
        (a, b) => a == b,
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sweep.arrow");
    let file = path.to_str().unwrap();
    // Nothing arrives of one packet a day: no latency, a null.
    let args = ["sweep", "--json", "--policy", "napi", "--policy", "queue-length", "--arrow", file];
    let traffic = ["--traffic", "poisson:1Mpps", "--traffic", "poisson:0.00001pps", "--seed", "7"];
    let result = json(&[&args[..], &traffic, &SHORT].concat());
    let rows = result["results"].as_array().unwrap();
    let reader = FileReader::try_new(std::fs::File::open(&path).unwrap(), None).unwrap();
    let batches: Vec<_> = reader.map(Result::unwrap).collect();
    let [batch] = batches.as_slice() else { panic!("{} batches", batches.len()) };
    assert_eq!(batch.num_rows(), 4);
    let text = |name: &str| batch[name].as_string::<i32>();
    let watts = batch["power_watts"].as_primitive::<Float64Type>();
    let latency = batch["latency_mean_seconds"].as_primitive::<Float64Type>();
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(text("policy").value(index), row["policy"].as_str().unwrap());
        assert_eq!(text("traffic").value(index), row["traffic"].as_str().unwrap());
        assert_eq!(text("source").value(index), "modelled");
        assert_eq!(batch["seed"].as_primitive::<UInt64Type>().value(index), 7);
        assert!(equal(Some(watts.value(index)), row["power_watts"].as_f64()), "row {index}");
        let shown = arrow_array::Array::is_valid(latency, index).then(|| latency.value(index));
        assert!(equal(shown, row["latency_mean_seconds"].as_f64()), "row {index}: {shown:?}");
    }
    assert_eq!(arrow_array::Array::null_count(latency), 2);

    let python = std::env::var("WATTLINE_PYTHON").unwrap_or_else(|_| "python3".into());
    let script = "import sys, json\ntry:\n import pyarrow.feather as f\nexcept ImportError:\n sys.exit(77)\n\
                  print(json.dumps(f.read_table(sys.argv[1]).to_pylist()))";
    let output = Command::new(python).args(["-c", script, file]).output();
    let Ok(output) = output.as_ref().map(|output| output.clone()) else {
        wattline_needs::machine("python3");
        return;
    };
    if output.status.code() == Some(77) {
        wattline_needs::machine("pyarrow");
        return;
    }
    let table = document(&output);
    for (ours, theirs) in rows.iter().zip(table.as_array().unwrap()) {
        for key in ["policy", "traffic", "seed"] {
            assert_eq!(ours[key], theirs[key], "{key}");
        }
        for key in ["power_watts", "latency_mean_seconds"] {
            assert!(equal(ours[key].as_f64(), theirs[key].as_f64()), "{key}: {theirs}");
        }
    }
}

#[test]
fn policies_lists_parameters_with_defaults_and_sources() {
    let list = json(&["policies", "--json"]);
    let policies = list["policies"].as_array().expect("a list");
    let find = |name: &str| policies.iter().find(|policy| policy["name"] == name).expect(name);
    for name in [
        "poll",
        "napi",
        "performance",
        "powersave-governor",
        "ondemand",
        "conservative",
        "hare",
        "tortoise",
        "table",
        "oracle",
        "queue-length",
    ] {
        assert!(find(name)["source"].as_str().is_some_and(|source| !source.is_empty()), "{name}");
    }
    let parameters = find("queue-length")["parameters"].as_array().unwrap();
    let default = |name: &str| {
        &parameters.iter().find(|parameter| parameter["name"] == name).expect(name)["default"]
    };
    assert_eq!((default("q_h"), default("q_l")), (&Value::from("32"), &Value::from("4")));
}

#[test]
fn impossible_simulation_is_refused() {
    let traffic = ["--traffic", "poisson:1Mpps"];
    let sim = |args: &[&'static str]| [&["sim"], args].concat();
    let with = |args: &[&'static str]| [&["sim"], &traffic[..], args].concat();
    let usage = 2;
    refused(&with(&["--policy", "powersafe"]), usage, &["powersafe", "queue-length"]);
    refused(&with(&["--policy", "queue-length:q_l=40"]), usage, &["q_l = 40", "q_h = 32"]);
    refused(&sim(&["--traffic", "poison:1Mpps"]), usage, &["poison", "poisson"]);
    refused(
        &sim(&["--traffic", "poisson:50Gbps,ports=8"]),
        usage,
        &["50.000 Gbit/s", "at most 40.000"],
    );
    refused(&with(&["--duration", "0s"]), usage, &["duration", "above zero", "allowed"]);
    refused(&with(&["--duration=-1s"]), usage, &["-1s", "--duration"]);
    refused(&with(&["--interval", "0s"]), usage, &["interval", "must be between"]);
    refused(&with(&["--app", "nfs"]), usage, &["nfs", "ipv4", "netflow"]);
    refused(&with(&["--knob-faults", "speed:refuse"]), usage, &["--knob-faults", "speed", "cores"]);
    refused(&with(&["--knob-faults", "cores:fail=2"]), usage, &["fail=2", "0 to 1"]);
    // All at once, not only the first.
    refused(
        &sim(&["--policy", "x", "--traffic", "y:1", "--duration", "0s"]),
        usage,
        &["duration", "policy", "traffic"],
    );
}

/// Knobs that refuse and are slow: the report says so, and the policy goes on with the rest.
#[test]
fn knobs_can_be_made_to_fail() {
    let args = ["sim", "--json", "--policy", "queue-length", "--traffic", "poisson:5Mpps,size=64"];
    let faults = ["--duration", "20ms", "--knob-faults", "frequency:refuse;cores:delay=100us"];
    let report = json(&[&args[..], &faults[..]].concat());
    assert_eq!(report["knob_faults"], faults[3]);
    let knobs = report["knobs"].as_array().unwrap();
    let of = |name: &str| knobs.iter().find(|entry| entry["knob"] == name).expect(name);
    assert!(of("frequency")["failed"].as_u64() > Some(0));
    assert_eq!(of("cores")["failed"], 0);
    let plain = json(&[&args[..], &faults[..2]].concat());
    assert!(plain["knobs"].is_null() && plain["knob_faults"].is_null(), "as ever");
}

/// schedutil decides for the first time after a while: the backlog until then is no steady state.
#[test]
fn requests_left_from_the_warm_up_are_reported() {
    let args = ["sim", "--json", "--requests", "memcached:700krps", "--policy", "schedutil+84us"];
    let of = |more: &[&str]| json(&[&args[..], more].concat());
    let (whole, cut) = (of(&[]), of(&["--warmup", "100ms"]));
    assert_eq!(whole["notes"], serde_json::json!([]), "{whole}");
    let note = cut["notes"][0].as_str().unwrap();
    assert!(note.contains("--warmup") && note.contains("requests were waiting"), "{note}");
    let p95 = |report: &Value| number(report, "latency_p95_seconds");
    assert!(p95(&cut) > 5.0 * p95(&whole), "{} and {}", p95(&cut), p95(&whole));
}

/// The same for a request server, whose cores and batches no policy sets.
#[test]
fn knobs_of_a_server_of_requests_can_be_made_to_fail() {
    let args = ["sim", "--json", "--requests", "memcached:200krps", "--policy", "ondemand+84us"];
    let faults = ["--duration", "50ms", "--knob-faults", "frequency:refuse;moderation:delay=100us"];
    let report = json(&[&args[..], &faults[..]].concat());
    assert_eq!(report["knob_faults"], faults[3]);
    let knobs = report["knobs"].as_array().unwrap();
    let of = |name: &str| knobs.iter().find(|entry| entry["knob"] == name).expect(name);
    assert!(of("frequency")["failed"].as_u64() > Some(0));
    assert_eq!((&report["transitions"], &of("moderation")["failed"]), (&0.into(), &0.into()));
    let plain = json(&[&args[..], &faults[..2]].concat());
    assert!(plain["knobs"].is_null() && plain["knob_faults"].is_null());
    assert!(plain["transitions"].as_u64() > Some(0));
    // Without --json, which puts errors on standard output.
    let plain = ["sim", "--requests", "memcached:200krps", "--policy", "ondemand+84us"];
    let with = |more: &[&'static str]| [&plain[..], more].concat();
    refused(&with(&["--knob-faults", "cores:refuse"]), 2, &["cores", "moderation", "all"]);
    refused(&with(&["--knob-faults", "frequency:fail=2"]), 2, &["fail=2", "0 to 1"]);
    for other in [["--app-costs", "model"], ["--app", "ipv4"]] {
        refused(&with(&other), 2, &[other[0], "--requests"]);
    }
    refused(&with(&["--output-links"]), 2, &["--output-links", "--requests"]);
    let profile = ["--profile", "/nowhere.csv", "--knob-faults", "frequency:refuse"];
    refused(&with(&profile), 2, &["--knob-faults", "--profile"]);
}

#[test]
fn changes_of_a_server_of_requests_are_explained() {
    let args = ["sim", "--json", "--requests", "memcached:200krps", "--policy", "ondemand+84us"];
    let plain = json(&[&args[..], &["--duration", "500ms"]].concat());
    assert!(plain["last_changes"].is_null());
    let report = json(&[&args[..], &["--duration", "500ms", "--explain"]].concat());
    let changes = report["last_changes"].as_array().unwrap();
    assert!(changes.iter().all(|change| !change["reason"].as_str().unwrap().is_empty()));
    assert!(changes.len() > 1, "{changes:?}");
    let text = wattline(&[&args[..1], &args[2..], &["--duration", "500ms", "--explain"]].concat());
    let text = String::from_utf8(text.stdout).unwrap();
    let last = changes.last().unwrap()["reason"].as_str().unwrap();
    assert!(text.contains(last), "{last}: {text}");
}

#[test]
fn bad_server_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let path = path.to_str().unwrap();
    let good = include_str!("../../crates/server/servers/westmere-2010.toml");
    let run = ["sim", "--traffic", "poisson:1Mpps", "--server", path];
    assert!(good.contains("link_gbps = 10"));
    std::fs::write(path, good.replacen("link_gbps = 10", "link_gpbs = 10", 1)).unwrap();
    refused(&run, 78, &["mine.toml", "link_gpbs", "link_gbps"]);
    let missing = ["sim", "--traffic", "poisson:1Mpps", "--server", "no/such.toml"];
    refused(&missing, 66, &["no/such.toml"]);
    let incomplete = ["sim", "--traffic", "poisson:1Mpps", "--server", "bolla-x"];
    refused(&incomplete, 78, &["bolla-x"]);
}

/// Costs that follow from measured ones take the place of the model's, and the result says so.
#[test]
fn measured_costs_of_applications_take_the_place_of_assumed_ones() {
    let run = |costs: &str| {
        let args = ["sim", "--json", "--policy", "poll:cores=1", "--app", "re"];
        let traffic = ["--traffic", "poisson:10kpps,size=1420", "--app-costs", costs];
        json(&[&args[..], &traffic, &SHORT].concat())
    };
    let (own, ratio, added) =
        (run("model"), run("sapphire-rapids-vm"), run("sapphire-rapids-vm:added"));
    assert_eq!(own["server"], "westmere-2010");
    assert_eq!(ratio["server"], "westmere-2010+sapphire-rapids-vm:ratio");
    assert!(ratio["notes"][0].as_str().unwrap().contains("application costs modelled"));
    let latency = |report| number(report, "latency_min_seconds");
    assert!(latency(&ratio) > latency(&added) && latency(&added) != latency(&own));

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let path = path.to_str().unwrap();
    let good = include_str!("../../crates/server/servers/applications/sapphire-rapids-vm.toml");
    std::fs::write(path, good.replacen("cycles_per_packet", "cycles", 1)).unwrap();
    let args = ["sweep", "--traffic", "poisson:1Mpps", "--app-costs", path];
    refused(&args, 78, &["mine.toml", "cycles_per_packet"]);
    let args = ["sim", "--traffic", "poisson:1Mpps", "--app-costs", "sapphire-rapids"];
    refused(&args, 66, &["sapphire-rapids-vm"]);
    std::fs::write(path, "{}").unwrap();
    refused(&["bench", "costs", path], 65, &["mine.toml", "bench app all --json"]);
}

#[test]
fn lists_take_commas_everywhere() {
    let traffics = "constant:1Mpps,size=64,constant:2Mpps,size=64";
    let args = ["sweep", "--json", "--policy", "poll,napi:idle=C1", "--traffic", traffics];
    let results = json(&[&args[..], &SHORT, &["--seed", "1,2"]].concat());
    let rows = results["results"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    assert_eq!(rows[7]["policy"], "napi:idle=C1");
    assert_eq!(rows[7]["traffic"], "constant:2Mpps,size=64");
    let name = rows[0]["policy"].as_str().unwrap();
    assert_eq!(json(&["policies", "--json", "napi"])["policies"][0]["name"], "napi", "{name}");
    refused(&["policies", "hare,napi"], 2, &["is not known", "hare, "]);
}

#[test]
fn a_table_is_replaced_only_when_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("there.csv");
    std::fs::write(&path, "mine").unwrap();
    let file = path.to_str().unwrap();
    let args = ["sweep", "--policy", "poll", "--traffic", "constant:1Mpps,size=64", "--csv", file];
    refused(&[&args[..], &SHORT].concat(), 74, &[file, "--overwrite"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert!(wattline(&[&args[..], &SHORT, &["--overwrite"]].concat()).status.success());
    assert!(std::fs::read_to_string(&path).unwrap().starts_with("server,"));
}

#[test]
fn pages_tables_and_models_replace_no_file_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let mine = folder.path().join("mine");
    std::fs::write(&mine, "mine").unwrap();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    std::fs::write(folder.path().join("out/index.html"), "mine").unwrap();
    let (file, out) = (mine.to_str().unwrap(), folder.path().join("out"));
    let out = out.to_str().unwrap();
    // Before any work is done: none of these folders and rows exist.
    for args in [
        &["sim", "--traffic", "poisson:1Mpps", "--page", file][..],
        &["sim", "--requests", "memcached:1krps", "--profile", file],
        &["report", "none", "nor-this", "--page", file],
        &["fit", "none.csv", "--out", file],
        &["fit", "none.csv", "--svg", file],
        &["reproduce", "bolla", "--out", out],
        &["bench", "eer", "--page", file],
        &["bench", "breakdown", "--page", file],
        &["bench", "fib", "--routes", "none", "--page", file],
        &["bench", "pipeline", "--routes", "none", "--page", file],
        &["bench", "nic", "--page", file],
        &["bench", "loop", "--page", file],
        &["bench", "sim", "--page", file],
    ] {
        refused(args, 74, &["is there already", "--overwrite"]);
    }
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
    let args = ["sim", "--traffic", "poisson:1Mpps", "--page", file, "--overwrite"];
    assert!(wattline(&[&args[..], &SHORT].concat()).status.success());
    assert!(std::fs::read_to_string(&mine).unwrap().contains("<html"));
}

#[test]
fn a_capture_replaces_no_file_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("router.toml");
    std::fs::write(&path, "mine").unwrap();
    let file = path.to_str().unwrap();
    refused(&["capture", "udp", "-w", file], 74, &[file, "is there already", "--overwrite"]);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
}

#[test]
fn intervals_are_shown_to_people_too() {
    let args = ["sim", "--policy", "poll", "--traffic", "constant:1Mpps,size=64"];
    let output = wattline(&[&args[..], &SHORT, &["--interval", "2ms"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let table = text.lines().skip_while(|line| !line.starts_with("from, s"));
    let table: Vec<_> = table.take_while(|line| !line.is_empty()).collect();
    assert_eq!(table.len(), 1 + 5, "{text}");
    assert!(table[5].trim_start().starts_with("0.0090 "), "{text}");
}

#[test]
fn with_json_an_error_is_a_document_as_well() {
    for (args, code, part) in [
        (&["sim", "--json", "--traffic", "nonsense"][..], 2, "is not a kind of traffic"),
        (&["sim", "--json", "--nonsense"], 2, "--nonsense"),
        (&["active", "--json", "0"], 2, "0"),
        (&["servers", "--json", "no-such-server"], 66, "no-such-server"),
    ] {
        let output = wattline(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["error"]["exit_code"], code, "{args:?}");
        assert!(document["error"]["messages"].to_string().contains(part), "{document}");
        assert!(!output.stderr.is_empty(), "people read it there");
    }
}

#[test]
fn a_request_server_is_simulated_profiled_and_governed_by_its_tables() {
    let folder = tempfile::tempdir().unwrap();
    let tables = folder.path().join("tables.csv");
    let tables = tables.to_str().unwrap();
    let requests = ["--requests", "memcached:600krps"];
    let made = json(&[&["sim", "--json", "--sparse", "--profile", tables][..], &requests].concat());
    assert!(number(&made, "points") <= 0.1 * number(&made, "points_of_full_grid"));
    let policy = format!("copi:tables={tables},target=1ms");
    let args = ["sim", "--json", "--duration", "600ms", "--warmup", "300ms", "--policy", &policy];
    let copi = json(&[&args[..], &requests].concat());
    let args = ["sim", "--json", "--duration", "600ms", "--warmup", "300ms"];
    let performance = json(&[&args[..], &requests].concat());
    assert_eq!(performance["policy"], "performance+ixgbe");
    assert!(number(&copi, "power_watts") < 0.9 * number(&performance, "power_watts"));
    assert!(number(&copi, "latency_p95_seconds") < 1.2e-3);
    assert_eq!(copi["source"], "modelled");
}

#[test]
fn request_options_are_checked() {
    refused(&["sim", "--requests", "memcache:1krps"], 2, &["workload \"memcache\""]);
    let both = ["sim", "--requests", "nginx", "--traffic", "poisson:1Mpps"];
    refused(&both, 2, &["cannot be used with"]);
    let server = ["sim", "--requests", "nginx", "--server", "westmere-2010"];
    refused(&server, 78, &["[requests]", "absent"]);
    let policy = ["sim", "--requests", "nginx", "--policy", "copi:tables=/nowhere.csv"];
    refused(&policy, 2, &["/nowhere.csv"]);
}

#[test]
fn packets_beyond_the_links_are_in_text_of_sim_and_sweep() {
    let traffic = "self-similar:38Gbps,size=64,hurst=0.9,shortest=1ms,longest=4ms";
    let traffic =
        ["--policy", "poll", "--traffic", traffic, "--duration", "5ms", "--warmup", "1ms"];
    let report = json(&[&["sim", "--json"], &traffic[..]].concat());
    assert!(number(&report, "beyond_link_packets") > 0.0);
    let page = tempfile::tempdir().unwrap();
    let page = page.path().join("page.html");
    let with_page = ["--page", page.to_str().unwrap()];
    for (command, text) in [("sim", "beyond the links"), ("sweep", "beyond the links' rate")] {
        let output =
            wattline(&[&[command], &traffic[..], &with_page[..], &["--overwrite"]].concat());
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains(text), "{command}: {shown}");
        let html = std::fs::read_to_string(&page).unwrap();
        assert!(html.contains("beyond the links"), "{command}");
    }
}

#[test]
fn latencies_of_a_run_are_a_distribution() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let page_of = ["--page", page.to_str().unwrap()];
    let args = ["sim", "--json", "--traffic", "poisson:5Mpps,size=64"];
    let report = json(&[&args[..], &SHORT, &page_of].concat());
    let curve = report["latency_curve"].as_array().unwrap();
    let point = |at: usize| curve.iter().map(move |point| point[at].as_f64().unwrap());
    assert!(curve.len() > 10 && point(1).is_sorted(), "{curve:?}");
    let median = point(0).zip(point(1)).find(|(share, _)| *share == 0.5).unwrap();
    assert_eq!(median.1, number(&report, "latency_p50_seconds"));
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("Distribution of the latency"));
}

#[test]
fn figure_is_made_of_rates_of_the_readers_own() {
    let folder = tempfile::tempdir().unwrap();
    let rates = folder.path().join("rates.csv");
    std::fs::write(&rates, "time_seconds,rate_pps\n0,1e6\n0.001,2e6\n").unwrap();
    let out = folder.path().join("out");
    let own = ["--rates", rates.to_str().unwrap(), "--out", out.to_str().unwrap(), "--json"];
    let papers = json(&[&["reproduce", "powersave/fig14"], &own[..]].concat());
    assert!(papers[0]["figures"][0]["about"].as_str().unwrap().contains("rates.csv"), "{papers}");
    assert!(out.join("powersave/fig14.csv").exists());
    let other = folder.path().join("other");
    let own = ["--rates", rates.to_str().unwrap(), "--out", other.to_str().unwrap()];
    refused(&[&["reproduce", "powersave/fig7"], &own[..]].concat(), 2, &[]);
    let absent = ["reproduce", "powersave/fig14", "--rates", "none.csv", "--out", "none"];
    refused(&absent, 66, &["none.csv"]);
}
