//! How much the generator costs: `generator_speed [ADDRESS OF A MEMCACHED]`.
//!
//! Figures are in processor time, since other programs may take the processor away.
//! First without sockets: the schedule, a request, the reading of its answer, the histogram. Then,
//! with an address, one thread as fast as it goes. The processor time of a request holds the
//! system calls then, and on the loopback also the server's side of TCP for what is sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wattline_requests::Report;
use wattline_requests::clock::thread_cpu_time;
use wattline_requests::engine::{self, LoadOptions};
use wattline_requests::latency::Times;
use wattline_requests::memcached::{self, Dialect, Memcached, Workload, WorkloadOptions};
use wattline_requests::protocol::{Protocol as _, Step};
use wattline_requests::schedule::{Arrivals, Schedule};

const KEYS: u32 = 100_000;
const REQUESTS: u32 = 3_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workload = Arc::new(Workload::new(WorkloadOptions::etc(Dialect::Text, KEYS, 1))?);
    in_memory(&workload);
    let Some(address) = std::env::args().nth(1) else { return Ok(()) };
    let address: SocketAddr = address.parse()?;
    memcached::load(&workload, address, Duration::from_secs(10))?;
    println!(
        "{:>11} {:>6} {:>12} {:>14} {:>10} {:>10}  note",
        "connections", "depth", "sent/s", "cpu us/request", "busy", "p99 ms"
    );
    for (connections, depth) in [(1, 1), (50, 1), (200, 1), (1_000, 1), (50, 16), (50, 64)] {
        let options = LoadOptions {
            rate: 3e6,
            arrivals: Arrivals::Constant,
            connections,
            threads: 1,
            depth,
            duration: Duration::from_secs(3),
            warmup: Duration::ZERO,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(5),
            seed: 1,
            spin: false,
        };
        let protocol = |thread| Memcached::new(Arc::clone(&workload), thread);
        let stop = AtomicBool::new(false);
        let (recording, intervals) = engine::run(&options, &[address], protocol, &stop, |_| {})?;
        let report =
            Report::new::<Memcached>("memcached", Vec::new(), &options, &recording, intervals);
        println!(
            "{connections:>11} {depth:>6} {:>12.0} {:>14.3} {:>9.1}% {:>10.3}  {}",
            report.verdict.sent_rate_rps,
            report.generator.cpu_per_request_seconds.unwrap_or(0.0) * 1e6,
            100.0 * report.generator.threads[0].busy_ratio,
            report.latency_from_sending.p99_seconds.unwrap_or(0.0) * 1e3,
            report.verdict.notes.join("; ")
        );
    }
    Ok(())
}

fn in_memory(workload: &Arc<Workload>) {
    let answers: Vec<[Vec<u8>; 2]> = (0..KEYS)
        .map(|key| {
            let (name, value) = (workload.key(key), workload.value(key));
            let head = format!("VALUE {} 0 {}\r\n", String::from_utf8_lossy(name), value.len());
            [[head.as_bytes(), value, b"\r\nEND\r\n"].concat(), b"STORED\r\n".to_vec()]
        })
        .collect();
    let mut protocol = Memcached::new(Arc::clone(workload), 0);
    let mut schedule = Schedule::new(Arrivals::Poisson, 1e6, 0, 1, 1);
    let (mut parser, mut out, mut times) = (Default::default(), Vec::new(), Times::new());
    let begin = thread_cpu_time();
    for _ in 0..REQUESTS {
        let intended = schedule.peek();
        schedule.advance();
        out.clear();
        let expect = protocol.request(0, &mut out);
        let mut input = &answers[expect.key as usize][Memcached::operation(expect)][..];
        let step = protocol.read(&mut parser, expect, &mut input);
        assert!(matches!(step, Ok(Step::Answer { .. })), "{step:?}");
        times.record(intended % 1_000_000);
    }
    let nanos = (thread_cpu_time() - begin) as f64 / f64::from(REQUESTS);
    println!(
        "without sockets: {nanos:.0} ns of processor time a request, {:.2} M/s of one core",
        1e3 / nanos
    );
}
