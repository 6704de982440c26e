//! Cost of the generator compared with other generators on the same servers, in one run: `cargo run
//! --release -p wattline-requests --example generator_speed [CONNECTIONS]`.
//!
//! Figures are processor time per request, since other programs may take the processor away. They
//! include system calls and, on the loopback, the server's side of TCP for sent segments. Each
//! generator has one thread and goes as fast as it can at depth 1. They take turns, and each figure
//! is the median of the rounds. The bare loop of `bare.rs` is the lower bound set by sockets: of a
//! generator that takes 1.2 times as much, a sixth is its own work.

mod bare;
mod programs;
#[path = "../../tests/suite/support.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
mod support;

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use support::{Running, free_address, program, start};
use wattline_requests::Report;
use wattline_requests::engine::{self, LoadOptions};
use wattline_requests::http::{Http, HttpOptions, HttpRequests};
use wattline_requests::memcached::{
    self, Dialect, Memcached, SizeDistribution, Workload, WorkloadOptions,
};
use wattline_requests::protocol::Protocol;
use wattline_requests::schedule::Arrivals;

const KEYS: u32 = 100_000;
const ROUNDS: usize = 5;
const SECONDS: u64 = 2;
/// Lengths and mix of memcaslap.
const KEY_BYTES: u32 = 64;
const VALUE_BYTES: u32 = 100;
const GETS_PER_SET: f64 = 9.0;

/// A generator's name, and a function that runs it.
type Contender<'a> = (&'a str, Box<dyn FnMut() -> Result<programs::Spent, Box<dyn Error>> + 'a>);

fn main() -> Result<(), Box<dyn Error>> {
    let connections = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => 200,
    };
    compare_on_memcached(connections)?;
    compare_on_nginx(connections)
}

fn compare_on_memcached(connections: usize) -> Result<(), Box<dyn Error>> {
    let Some(mut command) = program("memcached") else {
        println!("memcached: absent, left out");
        return Ok(());
    };
    let address = free_address();
    command.args(["-l", "127.0.0.1", "-t", "1", "-m", "256", "-u", "nobody", "-c", "4096"]);
    command.arg("-p").arg(address.port().to_string());
    let _server: Running = start(&mut command, address);
    let workload = Arc::new(Workload::new(WorkloadOptions {
        key_sizes: SizeDistribution::Fixed(KEY_BYTES),
        value_sizes: SizeDistribution::Fixed(VALUE_BYTES),
        gets_per_set: GETS_PER_SET,
        ..WorkloadOptions::etc(Dialect::Text, KEYS, 1)
    })?);
    memcached::load(&workload, address, Duration::from_secs(60))?;
    let mut made = Memcached::new(Arc::clone(&workload), 0);
    let prepared: Vec<Vec<u8>> = (0..KEYS).map(|_| request(&mut made)).collect();
    let protocol = |thread| Memcached::new(Arc::clone(&workload), thread);
    compare(
        &format!("memcached, {connections} connections"),
        vec![
            ("bare loop", Box::new(|| bare(address, &prepared, connections))),
            ("Wattline", Box::new(|| wattline(&[address], protocol, connections))),
            (
                "memcaslap",
                Box::new(|| {
                    let bytes = VALUE_BYTES as usize;
                    Ok(programs::memcaslap(address, connections, bytes, SECONDS)?)
                }),
            ),
        ],
    )
}

fn compare_on_nginx(connections: usize) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let Some((_server, address)) = support::nginx(folder.path()) else {
        println!("nginx: absent, left out");
        return Ok(());
    };
    let page = format!("http://{address}/small");
    let asked = HttpOptions { urls: vec![page.parse()?], head: false, fields: Vec::new() };
    let requests = Arc::new(HttpRequests::new(&asked)?);
    let prepared = [request(&mut Http::new(Arc::clone(&requests), 0))];
    let protocol = |thread| Http::new(Arc::clone(&requests), thread);
    compare(
        &format!("nginx, {connections} connections"),
        vec![
            ("bare loop", Box::new(|| bare(address, &prepared, connections))),
            ("Wattline", Box::new(|| wattline(&[address], protocol, connections))),
            ("wrk", Box::new(|| Ok(programs::wrk(&page, connections, SECONDS)?))),
            ("h2load", Box::new(|| Ok(programs::h2load(&page, connections, SECONDS)?))),
        ],
    )
}

fn request<P: Protocol>(protocol: &mut P) -> Vec<u8> {
    let mut out = Vec::new();
    protocol.request(0, &mut out);
    out
}

fn bare(
    address: SocketAddr,
    requests: &[Vec<u8>],
    connections: usize,
) -> Result<programs::Spent, Box<dyn Error>> {
    Ok(Some(bare::run(address, requests, connections, Duration::from_secs(SECONDS))?))
}

fn wattline<P: Protocol>(
    addresses: &[SocketAddr],
    protocol: impl Fn(usize) -> P,
    connections: usize,
) -> Result<programs::Spent, Box<dyn Error>> {
    let options = LoadOptions {
        rate: 3e6,
        arrivals: Arrivals::Constant,
        connections,
        threads: 1,
        depth: 1,
        duration: Duration::from_secs(SECONDS),
        warmup: Duration::ZERO,
        interval: Duration::from_secs(1),
        timeout: Duration::from_secs(20),
        seed: 1,
        spin: false,
    };
    let stop = AtomicBool::new(false);
    let (recording, intervals) = engine::run(&options, addresses, protocol, &stop, |_, _| {})?;
    let report = Report::new::<P>("bench", Vec::new(), &options, &recording, intervals);
    if report.failed_requests > report.failures.unsent {
        return Err(format!("requests failed: {:?}", report.failures).into());
    }
    Ok(Some((report.generator.cpu_seconds, recording.sent_in_window)))
}

/// Lets all take turns, and prints medians and ratios to the first one.
fn compare(title: &str, mut contenders: Vec<Contender<'_>>) -> Result<(), Box<dyn Error>> {
    let mut micros = vec![Vec::new(); contenders.len()];
    for _ in 0..ROUNDS {
        for ((_, run), micros) in contenders.iter_mut().zip(&mut micros) {
            if let Some((cpu, requests)) = run()? {
                micros.push(cpu * 1e6 / requests.max(1) as f64);
            }
        }
    }
    println!("\n{title}, depth 1, one thread: processor time a request");
    println!(
        "{:<12} {:>9} {:>17} {:>12} {:>14}",
        "generator", "median us", "least to most", "of bare loop", "k requests/s"
    );
    let mut of_bare = f64::NAN;
    for ((name, _), mut micros) in contenders.into_iter().zip(micros) {
        micros.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (micros.first(), micros.last()) else {
            println!("{name:<12} absent (`make tools` installs it)");
            continue;
        };
        let median = micros[micros.len() / 2];
        if of_bare.is_nan() {
            of_bare = median;
        }
        println!(
            "{name:<12} {median:>9.2} {:>17} {:>12.2} {:>14.0}",
            format!("{least:.2} to {most:.2}"),
            median / of_bare,
            1e3 / median
        );
    }
    println!("k requests/s: rate of a core that does nothing else");
    Ok(())
}
