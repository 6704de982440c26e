//! `envelope` and `league` as a user runs them: the promised keys, and messages.

use crate::program::{ended_with, errors, json, number, refused, wattline, words};
use serde_json::Value;
use std::process::Command;

#[test]
fn envelope_brackets_the_optimum() {
    let line = "envelope --server westmere-2010 --traffic poisson:4Mpps,size=64 --p99 100us \
                --duration 4ms --warmup 1ms --seed 3 --json";
    let envelope = json(&words(line, &[]));
    let (bound, found) =
        (number(&envelope, "lower_bound_joules"), number(&envelope, "feasible_joules"));
    assert!(bound > 0.0 && bound <= found, "{envelope}");
    assert!(found <= number(&envelope, "static_best_joules"), "{envelope}");
    assert!((number(&envelope, "budget_seconds") - 1e-4).abs() < 1e-12, "{envelope}");
}

/// All cores together serve 28.8 Mpps.
#[test]
fn a_budget_that_no_schedule_keeps_has_no_bound() {
    let args = ["envelope", "--traffic", "poisson:30Mpps,size=64", "--duration", "10ms"];
    let output = wattline(&args);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("no schedule keeps the budget") && !text.contains(" J"), "{text}");
    let found = json(&[&args[..], &["--json"]].concat());
    for key in ["lower_bound_joules", "feasible_joules", "static_best_joules", "feasible_gap"] {
        assert!(found.get(key).is_some_and(Value::is_null), "{key}: {found}");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("small.toml");
    std::fs::write(
        &file,
        "servers = [\"westmere-2010\"]\npolicies = [\"poll\"]\n\
         traffics = [\"poisson:30Mpps,size=64\"]\nbudgets = [\"100us\"]\nseeds = [1]\n\
         duration = \"10ms\"\nwarmup = \"2ms\"\n",
    )
    .unwrap();
    let results = json(&["league", file.to_str().unwrap(), "--json"]);
    let row = &results["rows"][0];
    for key in ["gap_to_lower_bound", "gap_above_base"] {
        assert!(row.get(key).is_some_and(Value::is_null), "{key}: {row}");
    }
    assert!(results["standings"][0]["gap"].is_null(), "{results}");
}

/// A league replaces only its own page, and checks that before it plays.
#[test]
fn a_page_that_is_no_leagues_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let [file, page] = ["small.toml", "index.html"].map(|name| folder.path().join(name));
    std::fs::write(
        &file,
        "servers = [\"westmere-2010\"]\npolicies = [\"ovs-sleep\"]\n\
         traffics = [\"poisson:2Mpps,size=64\"]\nbudgets = [\"100us\"]\nseeds = [1]\n\
         duration = \"3ms\"\nwarmup = \"2ms\"\n",
    )
    .unwrap();
    std::fs::write(&page, "<title>mine</title>").unwrap();
    let args = ["league", file.to_str().unwrap(), "--out", folder.path().to_str().unwrap()];
    ended_with(&wattline(&args), 74, &["index.html: is there already"]);
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "<title>mine</title>");
    assert!(!folder.path().join("pieces").exists(), "nothing is begun");
    assert!(wattline(&[&args[..], &["--overwrite"]].concat()).status.success());
    assert!(wattline(&args).status.success(), "its own page");
}

/// The file, the line and the key, in the words of the program.
#[test]
fn mistake_in_a_league_is_reported_on_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    let good = "servers = [\"westmere-2010\"]\npolicies = [\n  \"poll\",\n]\ntraffics = [\"poisson:2Mpps\"]\n\
                budgets = [\"100us\"]\nseeds = [1]\nduration = \"3ms\"\nwarmup = \"2ms\"\n";
    for (from, to, expected) in [
        (
            "seeds = [1]",
            "seeds = 1",
            "bad.toml:7: seeds: invalid type: integer `1`, expected a sequence",
        ),
        ("  \"poll\"", "  3", "bad.toml:3: policies: invalid type"),
        ("duration", "length", "bad.toml:8: length: unknown field"),
        ("warmup = \"2ms\"\n", "", "bad.toml: missing field `warmup`"),
        ("seeds = [1]", "seeds = [1", "bad.toml:"),
        (
            "  \"poll\"",
            "  \"napi:idle=C9\"",
            "bad.toml: policies: \"napi:idle=C9\": on server westmere-2010: idle = \"C9\"",
        ),
        (
            "poisson:2Mpps",
            "capture:no.pcap",
            "bad.toml: traffics: capture:no.pcap: no.pcap: cannot be opened",
        ),
        ("[\"100us\"]", "[\"2us\"]", "bad.toml: budgets: p99 = 2.00 us: no packet passes"),
    ] {
        std::fs::write(&file, good.replace(from, to)).unwrap();
        let message = ended_with(&wattline(&["league", file.to_str().unwrap()]), 78, &[expected]);
        assert_eq!(message.lines().count(), 1, "{message}");
    }
}

#[test]
fn a_league_prints_a_row_for_each_play_and_writes_its_page() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("small.toml");
    std::fs::write(
        &file,
        "servers = [\"westmere-2010\"]\npolicies = [\"wattline:p99={p99}\", \"ovs-sleep\"]\n\
         traffics = [\"poisson:2Mpps,size=64\"]\nbudgets = [\"100us\"]\nseeds = [1, 2]\n\
         duration = \"3ms\"\nwarmup = \"2ms\"\n",
    )
    .unwrap();
    let out = directory.path().join("out");
    let args = ["league", file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--json"];
    let results = json(&args);
    let rows = results["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 4, "{results}");
    for row in rows {
        for key in [
            "budget_seconds",
            "energy_joules",
            "gap_to_lower_bound",
            "late_fraction",
            "dropped_packets",
            "reordered_packets",
            "changes_per_second",
        ] {
            assert!(number(row, key) >= 0.0, "{key}: {row}");
        }
        assert!(row["policy"].is_string() && row["server"] == "westmere-2010", "{row}");
        assert!(row["traffic"] == "poisson:2Mpps,size=64" && row["seed"].is_u64(), "{row}");
        assert!(row["feasible"].is_boolean(), "{row}");
    }
    let page = std::fs::read_to_string(out.join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("ovs-sleep"));
    // The pieces are there: on one thread the same comes from them.
    assert_eq!(json(&[&args[..], &["--threads", "1"]].concat())["rows"], results["rows"]);
}

/// A league without yardsticks of a policy, with these seeds.
fn write_league(folder: &std::path::Path, seeds: u32, duration: &str) -> String {
    let file = folder.join("seeds.toml");
    let seeds: Vec<String> = (0..seeds).map(|seed| seed.to_string()).collect();
    let text = format!(
        "servers = [\"westmere-2010\"]\npolicies = [\"poll:cores=12\"]\n\
         traffics = [\"poisson:5Mpps,size=64\"]\nbudgets = [\"100us\"]\nseeds = [{}]\n\
         duration = \"{duration}\"\nwarmup = \"0s\"\nenvelope = false\n",
        seeds.join(", ")
    );
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn an_interrupted_league_says_what_is_kept_and_goes_on_from_there() {
    use std::os::unix::process::ExitStatusExt as _;
    let folder = tempfile::tempdir().unwrap();
    let file = write_league(folder.path(), 40, "200ms");
    let out = folder.path().join("out");
    let args = ["league", &file, "--out", out.to_str().unwrap(), "--threads", "1"];
    for (signal, number) in [("-INT", 2), ("-TERM", 15)] {
        let before = std::fs::read_dir(out.join("pieces")).map_or(0, Iterator::count);
        let league = Command::new(wattline_needs::program())
            .args(args)
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        while std::fs::read_dir(out.join("pieces")).map_or(0, Iterator::count) < before + 3 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let id = league.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let ended = league.wait_with_output().unwrap();
        let message = errors(&ended);
        assert_eq!(ended.status.signal(), Some(number), "{message}");
        let says = format!(" of 40 pieces are kept in {}; the same command goes on", out.display());
        assert!(message.contains(&says), "{message}");
        let kept: usize = message
            .lines()
            .find_map(|line| line.strip_prefix("wattline: ")?.split(' ').next()?.parse().ok())
            .unwrap();
        assert!((2..40).contains(&kept), "{message}");
        let again = format!("of 40 pieces are in {} already", out.display());
        assert_eq!(message.contains(&again), before > 0, "{message}");
    }
}

#[test]
fn a_league_that_nothing_keeps_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let message = |seeds| {
        let file = write_league(folder.path(), seeds, "100us");
        let output = wattline(&["league", &file]);
        assert!(output.status.success());
        errors(&output)
    };
    let says = "an interruption loses all 100 pieces; --out DIR keeps them";
    assert!(message(100).contains(says));
    assert!(!message(5).contains("interruption"));
}

#[test]
fn impossible_league_is_refused() {
    for (line, code, part) in [
        ("envelope --traffic poisson:1Mpps --p99 2us", 2, "2.00 us"),
        ("envelope --traffic poison:1Mpps", 2, "poisson"),
        ("league no-such-file.toml", 74, "no-such-file.toml"),
        (
            "league some.toml --tuned",
            2,
            "a file with [tuning] is tuned by itself: wattline league FILE",
        ),
        ("league some.toml --quick", 2, "takes no file"),
        (
            "league --quick --threads 10000",
            2,
            "allowed is 0, for one per core of this machine, or a number up to 1024",
        ),
        ("sweep --traffic poisson:1Mpps --threads x", 2, "up to 1024"),
        ("sweep --traffic poisson:1Mpps --seed 1,2 --seed 1", 2, "seed: one is there twice"),
    ] {
        refused(&words(line, &[]), code, &[part]);
    }
}
