//! Servers that stall: the percentiles must include the waits that coordinated omission would hide.

use crate::support::{load, options, read_http_request, server, write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wattline_requests::http::{Http, HttpOptions, HttpRequests};

/// Tolerance for slow machines, in seconds.
const SLACK: f64 = 0.040;

pub fn http(address: SocketAddr) -> impl Fn(usize) -> Http {
    let urls = vec![format!("http://{address}/").parse().unwrap()];
    let requests = HttpRequests::new(&HttpOptions { urls, head: false, fields: Vec::new() });
    let requests = Arc::new(requests.unwrap());
    move |thread| Http::new(Arc::clone(&requests), thread)
}

/// Answers at once, except that the 500th request of all takes 200 ms.
fn stalling() -> SocketAddr {
    static SERVED: AtomicU64 = AtomicU64::new(0);
    SERVED.store(0, Ordering::SeqCst);
    server(|mut stream| {
        let _ = stream.set_nodelay(true);
        while read_http_request(&mut stream) {
            if SERVED.fetch_add(1, Ordering::SeqCst) == 499 {
                std::thread::sleep(Duration::from_millis(200));
            }
            if !write(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") {
                return;
            }
        }
    })
}

/// 2,000 requests, one per millisecond, over one connection. The 500th is answered 200 ms late. A
/// request due k ms after it waits for 200 - k ms, so 200 of the 2,000 latencies, 10 %, are evenly
/// distributed between 0 and 200 ms.
#[test]
fn stall_is_charged_to_all_requests_due_in_it() {
    let address = stalling();
    let mut asked = options(1_000.0);
    asked.duration = Duration::from_secs(2);
    let report = load(&asked, &[address], http(address));

    assert_eq!(report.due_requests, 2_000);
    assert_eq!(report.served_requests, 2_000, "{:?}", report.failures);
    assert!(report.verdict.rate_held, "{:?}", report.verdict);
    // The quantile q above 90 % lies (q - 0.9) / 0.1 of the way from 0 to 200 ms.
    let latency = &report.latency;
    for (quantile, found) in
        [(0.95, latency.p95_seconds), (0.99, latency.p99_seconds), (1.0, latency.max_seconds)]
    {
        let predicted = 0.2 * (quantile - 0.9) / 0.1;
        let found = found.unwrap();
        assert!(found >= predicted - 0.002, "{quantile}: {found} s, predicted {predicted} s");
        assert!(found <= predicted + SLACK, "{quantile}: {found} s, predicted {predicted} s");
    }
    assert!(latency.p50_seconds.unwrap() < SLACK, "{latency:?}");
    // From the moment of sending, a single request seems to have been late.
    let naive = &report.latency_from_sending;
    assert!(naive.p99_seconds.unwrap() < SLACK, "{naive:?}");
    assert!(naive.max_seconds.unwrap() >= 0.2, "{naive:?}");
    // The generator was not late.
    assert!(report.generator.lateness.p99_seconds.unwrap() < SLACK, "{:?}", report.generator);
}

/// A server with 10 ms for each request serves 100 a second over one connection.
#[test]
fn slow_server_is_named_as_the_cause() {
    let address = server(|mut stream| {
        while read_http_request(&mut stream) {
            std::thread::sleep(Duration::from_millis(10));
            if !write(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") {
                return;
            }
        }
    });
    let report = load(&options(1_000.0), &[address], http(address));
    assert!(report.verdict.saturated, "{:?}", report.verdict);
    assert_eq!(report.due_requests, 1_000);
    assert!(report.sent_requests <= 101, "{}", report.sent_requests);
    assert_eq!(report.failures.unsent, 1_000 - report.sent_requests);
    // More than half were never sent: there is no median.
    assert_eq!(report.latency.p50_seconds, None);
    if report.verdict.saturation_cause != Some(wattline_requests::Cause::Server) {
        // On a machine without a free processor the generator waits for one too, and reports it.
        println!("cause: {:?}", report.verdict);
        let delayed = report.generator.threads[0].run_delay_ratio.unwrap_or(0.0);
        assert!(delayed > 0.05, "{:?}", report.verdict);
    }
}

/// With several requests outstanding on a connection, the same server answers them in order.
#[test]
fn depth_sends_requests_without_waiting_for_answers() {
    let address = server(|mut stream| {
        while read_http_request(&mut stream) {
            // A window of 20 ms holds several requests only when they do not wait.
            std::thread::sleep(Duration::from_millis(5));
            if !write(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") {
                return;
            }
        }
    });
    let mut asked = options(1_000.0);
    asked.duration = Duration::from_millis(200);
    asked.depth = 256;
    let report = load(&asked, &[address], http(address));
    assert_eq!((report.due_requests, report.served_requests), (200, 200), "{:?}", report.failures);
    // Sent in time, answered late: the requests now wait in the server's queue.
    assert!(report.verdict.rate_held, "{:?}", report.verdict);
    assert!(report.latency_from_sending.max_seconds.unwrap() > 0.7, "{:?}", report.latency);
}
