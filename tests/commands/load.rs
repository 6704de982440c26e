//! `wattline load` as a user runs it: output, exit codes, messages.

use crate::govern::running::Machine;
use crate::program::{document, ended_with, errors, refused, wattline, wattline_in};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Duration;
use wattline_needs::until;

/// Answer of a server to a line; the reader given to it reads the bytes after the line.
type Answer = fn(&str, &mut dyn FnMut(&mut [u8])) -> Option<&'static [u8]>;

/// A server that answers each line of a request by `answer`.
fn server(answer: Answer) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            std::thread::spawn(move || serve(stream, answer));
        }
    });
    address
}

fn serve(mut stream: TcpStream, answer: Answer) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|length| length > 0) {
        let mut body = |bytes: &mut [u8]| {
            let _ = reader.read_exact(bytes);
        };
        if let Some(bytes) = answer(line.trim_end(), &mut body)
            && stream.write_all(bytes).is_err()
        {
            return;
        }
        line.clear();
    }
}

fn pages() -> SocketAddr {
    server(|line, _| {
        line.is_empty().then_some(&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..])
    })
}

/// A server that stores nothing: every requested key is missing.
fn forgetful() -> SocketAddr {
    server(|line, body| {
        let words: Vec<_> = line.split(' ').collect();
        if words[0] == "set" {
            body(&mut vec![0; words[4].parse::<usize>().unwrap() + 2]);
            return Some(b"STORED\r\n");
        }
        Some(b"END\r\n")
    })
}

const SHORT: [&str; 8] =
    ["--rate", "200", "--duration", "500ms", "--warmup", "100ms", "--connections", "5"];

fn json(args: &[&str]) -> Value {
    json_of(&[args, &SHORT].concat())
}

fn json_of(args: &[&str]) -> Value {
    document(&wattline(&[args, &["--json"]].concat()))
}

#[test]
fn json_has_every_promised_key() {
    let report = json(&["load", "http", &format!("http://{}/", pages()), "--arrivals", "constant"]);
    assert_eq!(report["due_requests"], 100, "{report}");
    assert_eq!(report["served_requests"], 100);
    assert_eq!(report["run_sent_requests"]["request"], 120);
    for key in [
        "asked_rate_rps",
        "due_rate_rps",
        "sent_rate_rps",
        "served_rate_rps",
        "answered_rate_rps",
        "failed_requests",
        "timeout_requests",
        "reset_requests",
        "server_error_requests",
        "client_error_requests",
        "protocol_error_requests",
        "unsent_requests",
        "duration_seconds",
    ] {
        assert!(report[key].is_number(), "{key}: {}", report[key]);
    }
    for part in ["latency", "latency_from_sending"] {
        for key in ["p50_seconds", "p95_seconds", "p99_seconds", "max_seconds"] {
            assert!(report[part][key].is_number(), "{part}.{key}: {}", report[part]);
        }
    }
    assert!(report["generator"]["lateness"]["p99_seconds"].is_number());
    assert!(report["intervals"].as_array().is_some_and(|all| !all.is_empty()));
    assert!(report["latency_curve"].as_array().is_some_and(|all| all.len() > 3));
}

#[test]
fn memcached_keys_are_loaded_first_unless_told_otherwise() {
    let address = forgetful().to_string();
    let report = json(&["load", "memcached", &address, "--keys", "500", "--gets-per-set", "1"]);
    assert_eq!(report["workload"]["loaded_keys"], 500, "{report}");
    assert_eq!(report["failed_requests"], 0);
    assert!(report["missed_requests"].as_u64().is_some_and(|misses| misses > 10));
    let report = json(&["load", "memcached", &address, "--keys", "500", "--no-load"]);
    assert_eq!(report["workload"]["loaded_keys"], 0);
}

#[test]
fn a_person_gets_a_table() {
    let url = format!("http://{}/", pages());
    let output = wattline(&[&["load", "http", &url][..], &SHORT].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for part in ["intended", "due", "sent", "served", "failed", "p99", "sent late by", "generator:"]
    {
        assert!(text.contains(part), "{part} is missing in:\n{text}");
    }
    assert!(output.stderr.is_empty(), "a live line without a terminal");
}

/// The page's contents are tested in a browser (`pages.rs`).
#[test]
fn a_page_is_written_beside_the_table_or_refused_before_the_load() {
    let folder = tempfile::tempdir().unwrap();
    let (url, page) = (format!("http://{}/<b>", pages()), folder.path().join("load.html"));
    let report = json(&["load", "http", &url, "--page", page.to_str().unwrap()]);
    let html = std::fs::read_to_string(&page).unwrap();
    // On a busy machine the generator may fall behind, and the page says that.
    let held = match (report["rate_held"].as_bool(), report["saturated"].as_bool()) {
        (Some(true), _) => "held within 1 %",
        (_, Some(true)) => "saturated",
        _ => "exceeded: a backlog",
    };
    for words in ["share of requests (%)", held, "&lt;b&gt;", "measured, from the intended"] {
        assert!(html.contains(words), "{words}: {html}");
    }
    assert!(!html.contains("/<b>"), "{html}");
    assert!(html.contains(&format!("<td>due</td><td class=\"n\">{}</td>", report["due_requests"])));
    let page = folder.path().join("missing/load.html");
    let load = ["load", "http", &url, "--rate", "1", "--page", page.to_str().unwrap()];
    refused(&load, 74, &["there is no folder", "missing"]);
}

#[test]
fn wrong_options_are_reported_all_at_once() {
    let load = ["load", "http", "http://127.0.0.1:1/", "--rate", "10"];
    let wrong = ["--threads", "9", "--connections", "3", "--depth", "0", "--timeout", "10h"];
    refused(&[&load[..], &wrong].concat(), 2, &["--threads: 9", "--depth: 0", "--timeout: 36000s"]);
    refused(&["load", "http", "https://host/", "--rate", "1"], 2, &["http://"]);
    refused(&["load", "http", "http://host/", "--rate", "fast"], 2, &["20k"]);
    refused(&["load", "memcached", "--rate", "1"], 2, &["ADDRESS"]);
    refused(
        &["load", "memcached", "127.0.0.1", "--rate", "1", "--key-size", "251"],
        2,
        &["251", "250"],
    );
}

#[test]
fn a_server_that_is_not_there_or_another_one_is_named() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    refused(&["load", "memcached", &nobody, "--rate", "1"], 66, &[&nobody, "refused"]);
    refused(&["load", "http", &format!("http://{nobody}/"), "--rate", "1"], 66, &[&nobody]);
    let other = server(|_, _| Some(b"220 mail ready\r\n")).to_string();
    refused(&["load", "memcached", &other, "--rate", "1"], 65, &[&other, "is this memcached?"]);
}

#[test]
fn an_interrupt_ends_the_load_and_the_report_is_printed() {
    let url = format!("http://{}/", pages());
    let mut command = Command::new(wattline_needs::program());
    command.args(["load", "http", &url, "--rate", "100", "--duration", "10min", "--json"]);
    command.args(["--warmup", "0s"]).stdout(Stdio::piped());
    let child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{:?}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let duration = report["duration_seconds"].as_f64().unwrap();
    assert!(duration > 0.1 && duration < 300.0, "{duration}");
    assert!(report["served_requests"].as_u64().unwrap() > 0);
}

#[test]
fn packets_that_cannot_be_sent_are_refused_before_anything_is_opened() {
    let packets = ["load", "packets", "--from", "wl-none"];
    let refuse =
        |more: &[&str], code, parts: &[&str]| refused(&[&packets, more].concat(), code, parts);
    refuse(&["--rate", "0"], 2, &["20k", "max"]);
    refuse(&["--rate", "1", "--size", "63"], 2, &["imix-csit"]);
    refuse(&["--rate", "1", "--destination", "2001:2::1"], 2, &["families"]);
    let v6 = ["--rate", "1", "--source", "2001:2::2", "--destination", "2001:2::1"];
    refuse(&v6, 2, &["84"]);
    refuse(&["--rate", "max", "--burst", "32"], 2, &["rate"]);
    refuse(&["--rate", "1", "--mac", "02:57"], 2, &["six bytes"]);
    let output = wattline(&[&packets[..], &["--rate", "1", "--captures", "no-a,no-b"]].concat());
    let message = errors(&output);
    assert_eq!(message.matches("no-a").count(), 1, "{message}");
    refused(&["bench", "rfc2544"], 2, &["--device"]);
    refused(&["bench", "rfc2544", "--from", "a"], 2, &["--mac"]);
    refused(
        &["bench", "eer", "--device", "kernel", "--policy", "poll"],
        2,
        &["--device", "--policy"],
    );
    refused(&["bench", "eer", "--device", "xdp", "--size", "9"], 2, &["--size 9", "64"]);
    refused(&["bench", "eer", "--class", "home"], 2, &["data-centre"]);
    refused(&["bench", "breakdown", "--io", "0"], 2, &["1048576"]);
}

/// The generator as a source of latencies: a real governor counts every request that it measured.
#[test]
fn a_load_reports_its_latencies_to_a_governor() {
    let mut machine = Machine::new();
    let socket = machine.path("latency.sock");
    machine.start(&format!(
        "latency_target = \"1s\"\n[[latency]]\nname = \"shop\"\nclients = \"{}\"\nwindow = \"1min\"\n",
        socket.display()
    ));
    until("the socket is there", || socket.exists());
    let url = format!("http://{}/", pages());
    // The governor's figures include the warm-up, which the report leaves out.
    let to = socket.display().to_string();
    let all = SHORT.map(|word| if word == "100ms" { "0s" } else { word });
    let report = json_of(&[&["load", "http", &url, "--report", &to], &all[..]].concat());
    let source = until("served requests are counted", || {
        let source = machine.stats()["govern"]["latency"][0].clone();
        (source["samples"].as_u64() >= report["served_requests"].as_u64()).then_some(source)
    });
    let refused = source["refused"].as_object().unwrap();
    assert!(!refused.is_empty() && refused.values().all(|count| count == 0), "{source}");
    let [reported, measured] = [&source["latency_p95_seconds"], &report["latency"]["p95_seconds"]]
        .map(|value| value.as_f64().unwrap());
    assert!((0.5..2.0).contains(&(reported / measured)), "{reported} s and {measured} s");
    machine.signal("-TERM");
    assert_eq!(machine.ended(), Some(0));
}

/// Root without capabilities, like any other user: the missing capability is reported before
/// anything is made.
#[test]
fn experiments_without_the_rights_for_them_end_with_77() {
    if !rustix::process::geteuid().is_root() {
        wattline_needs::rights("root, to give up its rights");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let experiments: [&[&str]; 3] = [
        &["load", "packets", "--from", "lo", "--rate", "1"],
        &["bench", "rfc2544", "--device", "kernel"],
        &["bench", "forward", "--rounds", "1"],
    ];
    for experiment in experiments {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all", wattline_needs::program()]);
        let output = command.args(experiment).current_dir(folder.path()).output().unwrap();
        let name = experiment[..2].join(" ");
        ended_with(&output, 77, &[&format!("`{name}` needs root (CAP_NET_ADMIN")]);
    }
}

/// A page is not lost either if it has the name that a benchmark gives its page.
#[test]
fn a_page_of_a_benchmark_is_replaced_only_with_overwrite() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("wattline-eer.html");
    std::fs::write(&page, "mine").unwrap();
    ended_with(&wattline_in(folder.path(), &["bench", "eer"]), 74, &["allowed with --overwrite"]);
    assert_eq!(std::fs::read(&page).unwrap(), b"mine");
}
