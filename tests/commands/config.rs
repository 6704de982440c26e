//! `config FILE` as a user runs it: it refuses every file that `run` refuses on any machine.

use crate::program::{document, ended_with, wattline_in};

/// Returns the error of both commands about a configuration, which is the same.
fn refused(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("r.toml"), text).unwrap();
    let [checked, run] = ["config", "run"]
        .map(|command| ended_with(&wattline_in(folder.path(), &[command, "r.toml"]), 78, &[]));
    assert!(run.contains(checked.trim_end()), "{checked}{run}");
    checked
}

const CAPTURE: &str = "[[port]]\nname = \"a\"\ncapture = { read = \"a.pcap\" }\n\
                       mac = \"02:00:00:00:00:01\"\n";

#[test]
fn keys_of_removed_ports_are_unknown() {
    let port = "[[port]]\nname = \"x\"\ndpdk = \"net_null0\"\n";
    let error = refused(&format!("[dpdk]\narguments = []\n{port}"));
    for unknown in ["1: dpdk: unknown section", "5: [[port]] dpdk: unknown key"] {
        assert!(error.contains(unknown), "{error}");
    }
}

#[test]
fn tables_that_are_not_there_are_refused() {
    let power = "[power]\nplatform = \"host\"\npolicy = \"copi:tables=none-here.csv\"\n\
                 server = \"westmere-2010\"\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("r.toml"), format!("{CAPTURE}{power}")).unwrap();
    let output = wattline_in(folder.path(), &["config", "r.toml"]);
    ended_with(&output, 78, &["[power] policy", "none-here.csv"]);
}

#[test]
fn a_file_that_is_right_is_said_to_be_in_json() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("r.toml"), CAPTURE).unwrap();
    std::fs::write(folder.path().join("g.toml"), "[govern]\n").unwrap();
    for args in [&["config", "r.toml"][..], &["config", "--govern", "g.toml"]] {
        let silent = wattline_in(folder.path(), args);
        assert!(silent.status.success() && silent.stdout.is_empty(), "{silent:?}");
        let report = document(&wattline_in(folder.path(), &[args, &["--json"]].concat()));
        assert_eq!(report["right"], true);
        assert!(args.contains(&report["file"].as_str().unwrap()), "{report}");
    }
}
