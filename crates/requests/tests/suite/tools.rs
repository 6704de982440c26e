//! The generator compared with established ones, on the same server at the same rate.
//!
//! If a tool measures correctly, percentiles agree within 10 %. If it leaves out the wait before a
//! request is sent (coordinated omission), they differ as predicted.

use crate::support::{load, memcached, nginx, options, program};
use crate::wire::{Delay, even, wire};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_requests::Report;
use wattline_requests::http::{Http, HttpOptions, HttpRequests};
use wattline_requests::memcached::{
    self, Dialect, Memcached, SizeDistribution, Workload, WorkloadOptions,
};

/// Largest relative difference of percentiles that agree.
const AGREE: f64 = 0.1;
const ROUNDS: usize = 4;

/// Returns a tool's command; if the tool is absent, prints that `test` is skipped.
fn tool(name: &str, test: &str) -> Option<Command> {
    let found = program(name);
    if found.is_none() {
        wattline_needs::skip(Some(test), wattline_needs::Need::Tool, name);
    }
    found
}

fn output(mut command: Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {output:?}");
    text
}

/// Parses `119.89ms`, `2.01s` or `80.00us` as seconds.
fn seconds(text: &str) -> f64 {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        other => panic!("a unit {other} in {text}"),
    };
    digits.parse::<f64>().unwrap() * unit
}

/// Reads latencies from h2load's log, which has start and latency of a request per line in
/// microseconds. Leaves out requests of the last second: the log lacks those answered after the
/// end, so only the fast ones are in it.
fn logged(log: &Path) -> Vec<f64> {
    let text = std::fs::read_to_string(log).unwrap();
    let number = |field: Option<&str>| field.unwrap().parse::<f64>().unwrap() * 1e-6;
    let all: Vec<(f64, f64)> = text
        .lines()
        .map(|line| {
            let mut fields = line.split('\t');
            (number(fields.next()), number(fields.nth(1)))
        })
        .collect();
    let end = all.iter().map(|(start, latency)| start + latency).fold(0.0, f64::max);
    let early = all.into_iter().filter(|(start, _)| *start < end - 1.0);
    let mut all: Vec<f64> = early.map(|(_, latency)| latency).collect();
    all.sort_by(f64::total_cmp);
    all
}

fn quantile(sorted: &[f64], quantile: f64) -> f64 {
    sorted[((quantile * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len()) - 1]
}

/// Runs this generator for 5 s.
fn wattline(page: &str, rate: f64, connections: usize) -> Report {
    let urls = vec![page.parse().unwrap()];
    let asked = HttpOptions { urls, head: false, fields: Vec::new() };
    let requests = Arc::new(HttpRequests::new(&asked).unwrap());
    let mut asked = options(rate);
    (asked.connections, asked.duration) = (connections, Duration::from_secs(5));
    let report =
        load(&asked, &requests.addresses(), |thread| Http::new(Arc::clone(&requests), thread));
    // The last requests may have found no free connection.
    assert_eq!(report.failed_requests, report.failures.unsent, "{:?}", report.failures);
    report
}

fn h2load(page: &str, rate: u32, connections: u32) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = program("h2load").unwrap();
    command.args(["--h1", "-t1", "-D5"]).arg(format!("-c{connections}"));
    command.arg(format!("--rps={}", f64::from(rate) / f64::from(connections)));
    command.arg(format!("--log-file={}", log.display())).arg(page);
    output(command);
    logged(&log)
}

/// A quantile in seconds, measured by this generator and by the other one.
struct Pair {
    figure: String,
    wattline: f64,
    other: f64,
}

impl Pair {
    fn agrees(&self) -> bool {
        (self.wattline / self.other - 1.0).abs() <= AGREE
    }
}

/// Repeats a comparison until all pairs agree. Other programs on the machine only add to latencies,
/// so the lowest value of the rounds counts for both generators. A generator that measures
/// something else never agrees.
fn compare(mut round: impl FnMut(&mut dyn FnMut(&str, Option<f64>, f64))) {
    let mut least: Vec<Pair> = Vec::new();
    for number in 1..=ROUNDS {
        let mut index = 0;
        round(&mut |figure, wattline, other| {
            let wattline = wattline.unwrap_or(f64::INFINITY);
            println!("round {number}: {figure} {other:.4} s, wattline {wattline:.4} s");
            match least.get_mut(index) {
                Some(one) => {
                    (one.wattline, one.other) = (one.wattline.min(wattline), one.other.min(other));
                }
                None => least.push(Pair { figure: figure.to_owned(), wattline, other }),
            }
            index += 1;
        });
        if least.iter().all(Pair::agrees) {
            return;
        }
    }
    for one in least {
        assert!(one.agrees(), "{}: {} s, wattline {} s", one.figure, one.other, one.wattline);
    }
}

/// Answers of nginx are delayed by 160 to 800 ms; all generators must measure that distribution.
#[test]
#[ignore = "needs both processors for itself: `make test-long`"]
fn percentiles_agree_with_h2load_and_wrk() {
    let test = "percentiles_agree_with_h2load_and_wrk";
    let folder = tempfile::tempdir().unwrap();
    let Some((_running, server)) = nginx(folder.path()) else {
        wattline_needs::skip(Some(test), wattline_needs::Need::Tool, "nginx");
        return;
    };
    let page = format!("http://{}/small", wire(server, &even()));
    let [with_h2load, with_wrk] = ["h2load", "wrk"].map(|name| tool(name, test).is_some());
    compare(|pair| {
        // Each connection sends every second: none waits.
        let latency = wattline(&page, 100.0, 100).latency;
        pair("p50 of the wire", latency.p50_seconds, 0.480);
        pair("p99 of the wire", latency.p99_seconds, 0.794);
        if with_h2load {
            let other = h2load(&page, 100, 100);
            assert!((300..=420).contains(&other.len()), "{}", other.len());
            pair("p50 of h2load", latency.p50_seconds, quantile(&other, 0.50));
            pair("p90 of h2load", latency.p90_seconds, quantile(&other, 0.90));
            pair("p95 of h2load", latency.p95_seconds, quantile(&other, 0.95));
            pair("p99 of h2load", latency.p99_seconds, quantile(&other, 0.99));
        }
        // wrk has no rate: it sends after each answer. The delays do not depend on that.
        if with_wrk {
            let mut command = program("wrk").unwrap();
            command.args(["-t1", "-c50", "-d8s", "--latency", &page]);
            let text = output(command);
            let at = |line: &str| {
                let found = text.lines().find_map(|one| one.trim().strip_prefix(line));
                seconds(found.unwrap_or_else(|| panic!("{text}")).trim())
            };
            pair("p50 of wrk", latency.p50_seconds, at("50%"));
            pair("p90 of wrk", latency.p90_seconds, at("90%"));
            pair("p99 of wrk", latency.p99_seconds, at("99%"));
        }
    });
}

/// memcached's own generator prints means, and counts in powers of two.
#[test]
#[ignore = "needs both processors for itself: `make test-long`"]
fn mean_agrees_with_memcaslap() {
    let test = "mean_agrees_with_memcaslap";
    let Some((_running, server)) = memcached() else {
        wattline_needs::skip(Some(test), wattline_needs::Need::Tool, "memcached");
        return;
    };
    if tool("memcaslap", test).is_none() {
        return;
    }
    let through: SocketAddr = wire(server, &even());
    let workload = WorkloadOptions {
        key_sizes: SizeDistribution::Fixed(64),
        value_sizes: SizeDistribution::Fixed(100),
        gets_per_set: 9.0,
        ..WorkloadOptions::etc(Dialect::Text, 1_000, 1)
    };
    let workload = Arc::new(Workload::new(workload).unwrap());
    memcached::load(&workload, server, Duration::from_secs(20)).unwrap();
    compare(|pair| {
        let mut asked = options(100.0);
        (asked.connections, asked.duration) = (100, Duration::from_secs(5));
        let protocol = |thread| Memcached::new(Arc::clone(&workload), thread);
        let report = load(&asked, &[through], protocol);
        assert_eq!(report.failed_requests, 0, "{:?}", report.failures);
        let mut command = program("memcaslap").unwrap();
        command.args(["--threads=1", "--concurrency=50", "--fixed_size=100", "--time=8s"]);
        command.args(["--stat_freq=2s", &format!("--servers={through}")]);
        let text = output(command);
        let total = text.rsplit_once("Total Statistics (").unwrap_or_else(|| panic!("{text}")).1;
        let mean = total.lines().find_map(|line| line.trim().strip_prefix("Avg:")).unwrap();
        let mean = mean.trim().parse::<f64>().unwrap() * 1e-6;
        pair("mean of memcaslap", report.latency.mean_of_answered_seconds, mean);
    });
}

/// Stops answers for 250 ms of each second: a quarter of the requests come due in a stall and wait
/// for its end. A load of whole seconds begins and ends outside of a stall.
fn stalls(begin: Instant) -> Delay {
    Arc::new(move |_| {
        let into = Duration::from_nanos(begin.elapsed().subsec_nanos().into());
        let stall = Duration::from_millis(500)..Duration::from_millis(750);
        if stall.contains(&into) { stall.end - into } else { Duration::ZERO }
    })
}

/// Waits of requests that come due in a stall are evenly distributed between 0 and 250 ms: the
/// quantile q above 75 % is (q - 0.75) seconds. h2load at the same rate holds back requests without
/// a free connection, and counts from sending: of 100 requests due in a stall it sees the eight
/// outstanding ones.
#[test]
#[ignore = "needs both processors for itself: `make test-long`"]
fn h2load_hides_the_wait_of_a_stall() {
    let test = "h2load_hides_the_wait_of_a_stall";
    let folder = tempfile::tempdir().unwrap();
    let Some((_running, server)) = nginx(folder.path()) else {
        wattline_needs::skip(Some(test), wattline_needs::Need::Tool, "nginx");
        return;
    };
    let page = format!("http://{}/small", wire(server, &stalls(Instant::now())));
    let known = tool("h2load", test).is_some();
    let mut tried = Vec::new();
    // A machine busy with other tests may keep a generator from its processor, especially at the
    // end of the load.
    for _ in 0..ROUNDS {
        let latency = wattline(&page, 400.0, 8).latency;
        let [p90, p95] =
            [latency.p90_seconds, latency.p95_seconds].map(|p| p.unwrap_or(f64::INFINITY));
        let (other, longest) = match known {
            true => {
                let other = h2load(&page, 400, 8);
                (quantile(&other, 0.95), quantile(&other, 1.0))
            }
            false => (0.0, f64::INFINITY),
        };
        let found = format!(
            "p90 {p90:.3} s, predicted 0.150; p95 {p95:.3} s, predicted 0.200; h2load p95 \
             {other:.3} s, longest {longest:.3} s"
        );
        println!("{found}");
        let predicted = |found: f64, quantile: f64| {
            let wait = quantile - 0.75;
            // Draining the backlog of a stall takes a while.
            (0.9 * wait..=wait + 0.1).contains(&found)
        };
        // h2load met the stalls, but its 95th percentile does not show them.
        let left_out = longest > 0.15 && other < 0.5 * p95;
        if predicted(p90, 0.90) && predicted(p95, 0.95) && left_out {
            return;
        }
        tried.push(found);
    }
    panic!("{tried:#?}");
}
