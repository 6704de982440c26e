//! `wattline demo`: the day in miniature, as users run it. Needs neither root nor interfaces.

use crate::program::{document, ended_with};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Few and long packets: little work for a busy machine.
const LIGHT: [&str; 4] = ["--load", "10%", "--size", "1514"];

fn demo(out: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(wattline_needs::program());
    command.args(["demo", "--only", "day", "--out"]).arg(out);
    command.args(arguments).stdin(Stdio::null());
    command
}

#[test]
fn a_short_day_gives_figures_with_their_source_and_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new");
    let policies = "poll,napi:cores=6,idle=C1,queue-length";
    let arguments = ["--duration", "2s", "--policies", policies, "--json"];
    let output = demo(&out, &arguments).args(LIGHT).output().unwrap();
    ended_with(&output, 0, &["a day under poll", "emulated"]);
    let result = document(&output);
    assert!(result["comparison"].is_null());
    let days = result["day"]["days"].as_array().unwrap();
    assert_eq!(days.len(), 3);
    for day in days {
        let outcome = &day["outcome"];
        let count = |key: &str| outcome["delivery"][key].as_u64().unwrap();
        assert!(count("sent_packets") > 0, "{outcome}");
        assert_eq!(count("sent_packets"), count("received_packets") + count("dropped_packets"));
        assert_eq!(count("reordered_packets"), 0, "{outcome}");
        assert_eq!(
            (&outcome["source"], &outcome["accuracy"]),
            (&"emulated".into(), &"static".into())
        );
        assert!(outcome["power_watts"].as_f64().unwrap() > 100.0);
        assert_eq!(day["simulated"]["source"], "modelled");
        // The same packets, except packets under way at the edges of the day.
        let (real, simulated) = (&outcome["offered_packets"], &day["simulated"]["offered_packets"]);
        let ratio = real.as_f64().unwrap() / simulated.as_f64().unwrap();
        assert!((0.99..1.01).contains(&ratio), "{real} and {simulated}");
    }
    assert_eq!(days[1]["policy"], "napi:cores=6,idle=C1");
    assert_eq!(result["day"]["failures"].as_array().unwrap().len(), 0);
    let page = std::fs::read_to_string(out.join("wattline-demo.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("emulated"));
}

#[test]
fn mistakes_are_reported_all_at_once_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--policies", "pol,napi:cores=x", "--size", "fat", "--server", "nowhere"];
    let output = demo(folder.path(), &arguments).output().unwrap();
    // The code of the first.
    ended_with(&output, 66, &["nowhere", "pol", "cores", "fat"]);
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "a file was made");
}

#[test]
fn an_interrupted_day_ends_with_130_and_leaves_no_page() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = demo(folder.path(), &["--duration", "5min", "--policies", "queue-length"])
        .args(LIGHT)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Its first line: now the day runs.
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{line}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}
