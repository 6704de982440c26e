//! Servers that hang up, hang, lie or send garbage: every request is accounted for, by kind.

use crate::stall::http;
use crate::support::{free_address, load, options, read_http_request, server, write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use wattline_requests::Report;
use wattline_requests::engine::{self, LoadError};

fn report(serve: impl Fn(TcpStream) + Send + Sync + Copy + 'static) -> Report {
    let address = server(serve);
    let mut asked = options(200.0);
    asked.connections = 4;
    asked.threads = 2;
    asked.timeout = Duration::from_millis(100);
    let report = load(&asked, &[address], http(address));
    assert_eq!(report.due_requests, 200);
    assert_eq!(report.due_requests, report.served_requests + report.failed_requests);
    assert_eq!(report.due_requests, report.sent_requests + report.failures.unsent);
    report
}

#[test]
fn requests_without_an_answer_time_out() {
    let report = report(|mut stream| while read_http_request(&mut stream) {});
    // 4 connections, each free again after 100 to 106 ms: 10 rounds at most in a second.
    let failures = &report.failures;
    assert!((4..=44).contains(&failures.timeout), "{failures:?}");
    assert_eq!(failures.timeout, report.sent_requests);
    assert_eq!((report.served_requests, report.latency.p50_seconds), (0, None));
    assert!(report.reconnects > 0);
}

#[test]
fn connection_closed_before_the_answer_is_a_reset() {
    let report = report(|mut stream| {
        read_http_request(&mut stream);
        write(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
    });
    assert!(report.failures.reset > 0, "{:?}", report.failures);
    assert_eq!(report.failures.reset, report.sent_requests);
}

#[test]
fn server_that_closes_after_each_answer_serves_all_requests() {
    let report = report(|mut stream| {
        read_http_request(&mut stream);
        write(&mut stream, b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
    });
    assert_eq!(report.served_requests, 200, "{:?}", report.failures);
    assert!(report.reconnects >= 196, "{}", report.reconnects);
}

#[test]
fn body_that_ends_with_the_connection_is_complete() {
    let report = report(|mut stream| {
        read_http_request(&mut stream);
        write(&mut stream, b"HTTP/1.1 200 OK\r\n\r\nup to here");
    });
    assert_eq!(report.served_requests, 200, "{:?}", report.failures);
}

#[test]
fn server_errors_do_not_count_as_fast_answers() {
    let report = report(|mut stream| {
        while read_http_request(&mut stream) {
            write(&mut stream, b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
        }
    });
    assert_eq!(report.failures.server_error, 200, "{:?}", report.failures);
    assert_eq!(report.latency.p50_seconds, None);
}

#[test]
fn garbage_is_a_protocol_error() {
    let report = report(|mut stream| {
        while read_http_request(&mut stream) {
            write(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\n");
        }
    });
    assert!(report.failures.protocol > 0, "{:?}", report.failures);
    assert_eq!(report.failures.protocol, report.sent_requests);
    assert!(report.first_protocol_error.is_some_and(|error| error.contains("Content-Length")));
}

/// Endless floods of header fields, of a body, and of answers before any request.
#[test]
fn floods_are_cut_off() {
    let fields = report(|mut stream| {
        read_http_request(&mut stream);
        write(&mut stream, b"HTTP/1.1 200 OK\r\n");
        while write(&mut stream, &b"a: b\r\n".repeat(1_000)) {}
    });
    assert!(fields.failures.protocol > 0, "{:?}", fields.failures);
    let body = report(|mut stream| {
        read_http_request(&mut stream);
        write(&mut stream, b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n");
        // Slowly; the test is that nothing waits for the end.
        while write(&mut stream, &[0; 1_000]) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    assert!(body.failures.timeout > 0, "{:?}", body.failures);
    let uninvited = report(|mut stream| while write(&mut stream, b"HTTP/1.1 200 OK\r\n\r\n") {});
    assert_eq!(uninvited.served_requests, 0, "{:?}", uninvited.failures);
}

#[test]
fn absent_server_is_an_error() {
    let address: SocketAddr = free_address();
    let stop = AtomicBool::new(false);
    let outcome = engine::run(&options(10.0), &[address], http(address), &stop, |_, _| {});
    let error = outcome.expect_err("nothing listens");
    assert!(matches!(error, LoadError::Connect { .. }), "{error}");
    assert!(error.to_string().contains("refused"), "{error}");
}
