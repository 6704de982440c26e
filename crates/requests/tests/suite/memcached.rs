//! Against memcached: generator and memcached count the same requests.

use crate::support::{self, Running, load, options};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use wattline_requests::Report;
use wattline_requests::memcached::{
    self, Dialect, Memcached, Popularity, Workload, WorkloadOptions,
};
use wattline_requests::schedule::Arrivals;

fn memcached(test: &str) -> Option<(Running, SocketAddr)> {
    let started = support::memcached();
    if started.is_none() {
        wattline_needs::skip(Some(test), wattline_needs::Need::Tool, "memcached");
    }
    started
}

/// Reads a counter of memcached.
fn counter(address: SocketAddr, name: &str) -> u64 {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"stats\r\n").unwrap();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        if let Some(value) = line.strip_prefix(&format!("STAT {name} ")) {
            return value.trim().parse().unwrap();
        }
        assert_ne!(line, "END", "memcached has no {name}");
    }
    panic!("memcached hung up");
}

fn run(address: SocketAddr, dialect: Dialect, load_keys: bool) -> (Report, u64) {
    let mut workload = WorkloadOptions::etc(dialect, 5_000, 1);
    workload.popularity = Popularity::Zipf(0.99);
    // Enough sets to be seen.
    workload.gets_per_set = 4.0;
    let workload = Arc::new(Workload::new(workload).unwrap());
    let timeout = Duration::from_secs(20);
    let stored =
        if load_keys { memcached::load(&workload, address, timeout).unwrap().0 } else { 0 };
    let mut asked = options(4_000.0);
    asked.arrivals = Arrivals::Poisson;
    (asked.connections, asked.threads, asked.depth) = (50, 2, 2);
    asked.warmup = Duration::from_millis(300);
    let report = load(&asked, &[address], |thread| Memcached::new(Arc::clone(&workload), thread));
    (report, stored)
}

#[test]
fn memcached_counts_the_requests_that_the_generator_counts() {
    for dialect in [Dialect::Text, Dialect::Meta] {
        let Some((_running, address)) = memcached("memcached_counts") else { return };
        let (report, stored) = run(address, dialect, true);
        assert_eq!(stored, 5_000);
        // Requests that the generator could not send in time, for want of a processor, count as
        // unsent and never reach the server.
        let unsent = report.failures.unsent;
        assert_eq!(report.failed_requests, unsent, "{:?}", report.failures);
        assert!(unsent < report.due_requests / 2, "{unsent} of {}", report.due_requests);
        assert_eq!(report.missed_requests, 0);
        assert_eq!(report.served_requests + unsent, report.due_requests);
        let (gets, sets) = (report.run_sent_requests["get"], report.run_sent_requests["set"]);
        assert_eq!(counter(address, "cmd_get"), gets, "{dialect:?}");
        assert_eq!(counter(address, "cmd_set"), sets + stored, "{dialect:?}");
        assert_eq!(counter(address, "get_hits"), gets, "{dialect:?}");
        // 5,200 in 1.3 s, with a standard deviation of 72; the measured time has 4,000 of them.
        assert!((gets + sets + unsent).abs_diff(5_200) < 500, "{gets} + {sets} + {unsent}");
        assert!(report.due_requests.abs_diff(4_000) < 400, "{}", report.due_requests);
        let intervals: f64 =
            report.intervals.iter().map(|one| one.sent_rate_rps * one.length_seconds).sum();
        assert!((intervals - (gets + sets) as f64).abs() < 0.5, "{intervals}");
        println!("{dialect:?}: {:?}", report.latency);
        println!("from sending: {:?}", report.latency_from_sending);
        println!("lateness: {:?}", report.generator.lateness);
    }
}

#[test]
fn keys_that_were_not_loaded_are_misses() {
    let Some((_running, address)) = memcached("keys_that_were_not_loaded") else { return };
    let (report, _) = run(address, Dialect::Text, false);
    assert!(report.missed_requests > 0);
    assert_eq!(report.failed_requests, 0, "{:?}", report.failures);
    let misses = counter(address, "get_misses");
    // Only memcached counts the requests of the warm-up.
    assert!((report.missed_requests..=report.run_sent_requests["get"]).contains(&misses));
}
