//! `wattline profile` on real servers, over a veth pair whose end moderates by NAPI deferral, and
//! `wattline govern` with the resulting tables. Needs root, ip, ethtool, ss, chrt and the server;
//! tests are skipped without them.

mod bench;
mod governed;
mod interrupted;

use crate::program::{document, ended_with, words};
use bench::{Bench, Server};
use serde_json::Value;
use std::process::Output;
use std::time::{Duration, Instant};

const RATE: f64 = 1_000.0;

/// Two loads, quickly.
fn run(bench: &Bench, more: &[&str]) -> Output {
    let line = "--rate 1000 --warmup 100ms --duration 500ms --within 0.5 --repetitions 3 \
                --loads 0.5,1";
    let mut all = words(line, more);
    if !more.contains(&"--periods") {
        all.extend(["--periods", "3"]);
    }
    bench.run(&all)
}

/// A percentile in microseconds by load and period.
fn latency(points: &[Value], which: &str, load: u64, period: u64) -> f64 {
    let found = points.iter().find(|one| {
        one["load"] == load && one["point"].as_array().is_some_and(|at| at[1] == period)
    });
    found.and_then(|one| one[which].as_f64()).unwrap_or(f64::INFINITY)
}

#[test]
#[ignore = "measures for minutes, and waits for a machine at rest; `make test-long` runs it"]
fn a_real_memcached_is_profiled_and_its_latency_follows_the_period() {
    let test = "a_real_memcached_is_profiled_and_its_latency_follows_the_period";
    let Some(bench) = Bench::build(test, Server::Memcached) else { return };
    // No watts are reported: there is no meter, or the test asks for none.
    let refused = run(&bench, &[]);
    let has_meter = refused.status.success();
    if !has_meter {
        ended_with(&refused, 69, &["--without-power"]);
    }
    let begun = Instant::now();
    let output = run(&bench, &["--without-power"]);
    let first = begun.elapsed();
    let report = document(&output);
    let points = bench.points();
    assert_eq!(report["points"], points.len(), "{report:#}");
    assert_eq!(points.len(), 2 + 2 * 3);
    for which in ["p50_us", "p95_us", "p99_us"] {
        for (load, rate) in [(0, 500), (1, 1000)] {
            let by_period = [0, 1, 2].map(|period| latency(&points, which, load, period));
            println!("{which} at {rate} rps, periods of 0, 45 and 1000 us: {by_period:.0?}");
        }
    }
    // At 1000 requests a second most arrive within 1000 us of the one before: they wait for the
    // timer. The median shows it also on a machine where other programs cause the tail.
    let (without, with) = (latency(&points, "p50_us", 1, 0), latency(&points, "p50_us", 1, 2));
    assert!(with > without + 300.0, "{without} us and {with} us: {points:#?}");
    let tables = std::fs::read_to_string(bench.path("tables.csv")).unwrap();
    assert!(tables.contains("# source = \"measured\""), "{tables}");
    let page = std::fs::read_to_string(bench.path("tables.csv.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("moderation period"), "{page}");

    // Nothing is left behind, and the same command has nothing left to do.
    let begun = Instant::now();
    let again = run(&bench, &["--without-power"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    assert!(
        begun.elapsed() < first / 2 + Duration::from_secs(2),
        "{:?} of {first:?}",
        begun.elapsed()
    );
    let other = run(&bench, &["--without-power", "--periods", "4"]);
    ended_with(&other, 65, &["points of another profile"]);

    let tables = std::fs::read_to_string(bench.path("tables.csv")).unwrap();
    assert!(
        tables.contains("# energy = \"not measured; points are ordered by V/F state"),
        "{tables}"
    );
    governed::check(&bench, RATE);
    sparse(&bench);
}

/// With one V/F state and 24 periods of 1 ms at most the bisection leaves most of them out; the
/// same command without `--sparse` measures all.
fn sparse(bench: &Bench) {
    let profiled = |target: &str| {
        let _ = std::fs::remove_file(bench.path("tables.csv.points.json"));
        let line = "--without-power --sparse --states 1 --periods 24 --target";
        let output = run(bench, &words(line, &[target]));
        ended_with(&output, 0, &["/at most "]);
        let report = document(&output);
        assert_eq!(report["points"], bench.points().len(), "{report:#}");
        (report, bench.points())
    };
    // Within 10 s every period is: the middle one is tried, and then ever longer ones.
    let (report, points) = profiled("10s");
    let of = report["points_of_full_grid"].as_u64().unwrap();
    assert!(points.len() < 16 && of > 40, "{} of {of}", points.len());
    let last = (of - 2) / 2 - 1;
    for load in 0..2 {
        assert!(latency(&points, "p95_us", load, last).is_finite(), "{points:#?}");
    }
    // Within 1 us none is: coarse periods alone.
    let (_, points) = profiled("1us");
    assert_eq!(points.len(), 2 + 2 * 4, "{points:#?}");
}

/// Refused before anything is measured: an error after minutes, or a path on which every moderation
/// is free.
#[test]
fn a_profile_over_the_loopback_or_into_no_folder_is_refused_at_once() {
    let test = "a_profile_over_the_loopback_or_into_no_folder_is_refused_at_once";
    let Some(bench) = Bench::build(test, Server::Memcached) else { return };
    let wanted = |out: &str, from: &[&str]| {
        let output = Bench::patiently(|| {
            let mut command = bench.profile_from(from, out);
            command.args(["--rate", "1000", "--without-power"]).output().unwrap()
        });
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // From the server itself, and from a namespace in which the address is its own as well.
    for from in [&[][..], &["--netns", bench.server.name()]] {
        let (code, message) = wanted("tables.csv", from);
        assert_eq!(code, Some(69), "{message}");
        assert!(message.contains("go by the loopback") && message.contains("--netns"), "{message}");
    }
    let from = ["--netns", bench.client.name()];
    let (code, message) = wanted("missing/tables.csv", &from);
    assert_eq!(code, Some(74), "{message}");
    assert!(message.contains("there is no folder") && message.contains("missing"), "{message}");
}

/// The curve of the 95th percentile against the period, and a governor that uses it.
#[test]
#[ignore = "takes three minutes; `make test-long` runs it"]
fn nginx_is_profiled_over_six_periods_and_governed_within_its_latency() {
    let test = "nginx_is_profiled_over_six_periods_and_governed_within_its_latency";
    let Some(bench) = Bench::build(test, Server::Nginx) else { return };
    let line = "--rate 1000 --loads 0.5,1 --periods 6 --warmup 200ms --duration 2s --within 0.2 \
                --repetitions 6 --without-power";
    ended_with(&bench.run(&words(line, &[])), 0, &[]);
    let points = bench.points();
    assert_eq!(points.len(), 2 + 2 * 6);
    for load in 0..2 {
        let curve = [0, 1, 2, 3, 4, 5].map(|period| latency(&points, "p95_us", load, period));
        println!("p95 in us at {} rps by period: {curve:.0?}", RATE / 2.0 * (load + 1) as f64);
        // A short period is hidden behind the rest; a long one is waited for.
        assert!(curve[1] < 1.5 * curve[0] && curve[2] < 1.5 * curve[0], "{curve:?}");
        assert!(curve[4] > curve[0] && curve[5] > curve[4] + 300.0, "{curve:?}");
    }
    governed::check(&bench, RATE);
}

/// Watts by a server's model without a meter: marked as modelled wherever they are shown.
#[test]
#[ignore = "measures for minutes, and waits for a machine at rest; `make test-long` runs it"]
fn without_a_meter_a_model_of_the_server_reckons_watts_and_is_named() {
    let test = "without_a_meter_a_model_of_the_server_reckons_watts_and_is_named";
    let Some(bench) = Bench::build(test, Server::Memcached) else { return };
    let model = ["--server", "xeon-silver-4108", "--periods", "2"];
    let output = run(&bench, &[&model[..], &["--without-power"]].concat());
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let output = run(&bench, &["--server", "nobody"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("nobody"), "{output:?}");
    let output = run(&bench, &model);
    let report = document(&output);
    let source = report["power_source"].as_str().unwrap_or_default();
    if !source.starts_with("modelled") {
        return wattline_needs::skip(
            Some(test),
            wattline_needs::Need::Machine,
            format_args!("a meter sees this machine ({source})"),
        );
    }
    assert!(source.contains("xeon-silver-4108, its package"), "{source}");
    let tables = std::fs::read_to_string(bench.path("tables.csv")).unwrap();
    assert!(tables.contains("# energy = \"modelled: xeon-silver-4108"), "{tables}");
    assert!(!tables.contains("unknown"), "{tables}");
    // Between a package whose cores sleep and one whose two cores never do.
    for point in bench.points() {
        let watts = point["power_watts"].as_f64().unwrap();
        assert!((10.0..60.0).contains(&watts), "{point:#}");
    }
}
