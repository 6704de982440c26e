//! The server against malicious clients.

use super::*;
use std::io::{Read, Write};
use std::sync::mpsc::channel;

const LIMITS: Limits =
    Limits { connections: 4, head: 8 << 10, patience: Duration::from_millis(400) };

fn start(answer: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> SocketAddr {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = TcpListener::bind(any).unwrap();
    let bound = listener.local_addr().unwrap();
    serve("test", listener, Hosts::NotRebound, LIMITS, answer).unwrap();
    bound
}

fn hello() -> SocketAddr {
    start(|_| Answer::text("text/plain", "hello\n"))
}

fn all(mut stream: &TcpStream) -> String {
    let mut answer = Vec::new();
    // The answer was sent before the connection was cut off.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn ask(address: SocketAddr, head: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    all(&stream)
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or("none")
}

#[test]
fn unavailable_address_is_reported_with_advice() {
    // From a network for documentation (RFC 5737).
    let error = listen(SocketAddr::from(([192, 0, 2, 250], 0))).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrNotAvailable);
    let said = error.to_string();
    assert!(said.starts_with("192.0.2.250 is no address of this machine or namespace"), "{said}");
    assert!(said.contains("`ip link set lo up`"), "{said}");
}

#[test]
fn answers_carry_security_headers() {
    let address = hello();
    let answer = ask(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(status(&answer), "200");
    assert!(answer.ends_with("\r\n\r\nhello\n"), "{answer}");
    for field in ["default-src 'none'", "frame-ancestors 'none'", "nosniff", "same-origin"] {
        assert!(answer.contains(field), "{field}");
    }
    assert!(!answer.to_lowercase().contains("access-control"), "no CORS: {answer}");
    let head = ask(address, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.contains("Content-Length: 6\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn foreign_names_foreign_scripts_and_other_methods_are_refused() {
    let address = hello();
    for (head, wanted) in [
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned(), "421"),
        (
            format!("GET /x HTTP/1.1\r\nHost: {address}\r\nOrigin: http://evil.example\r\n\r\n"),
            "403",
        ),
        (
            format!("GET /x HTTP/1.1\r\nHost: {address}\r\nSec-Fetch-Site: cross-site\r\n\r\n"),
            "403",
        ),
        (format!("GET /x HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\n\r\n"), "200"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello".to_owned(), "405"),
        ("OPTIONS / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_owned(), "405"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
    ] {
        let answer = ask(address, &head);
        assert_eq!(status(&answer), wanted, "{head:?}: {answer}");
    }
}

#[test]
fn an_endless_head_is_cut_off() {
    let address = hello();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ").unwrap();
    let mut sent = 0_usize;
    // Either the answer has come, or writing fails: 64 MB are never taken.
    while sent < 64 << 20 {
        match stream.write(&[b'a'; 4096]) {
            Ok(count) => sent += count,
            Err(_) => break,
        }
    }
    assert!(sent < 64 << 20, "it swallowed {sent} bytes");
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "a".repeat(9 << 10));
    assert_eq!(status(&ask(address, &long)), "431");
}

#[test]
fn trickling_client_gets_a_timeout_answer() {
    let address = hello();
    let mut stream = TcpStream::connect(address).unwrap();
    let began = Instant::now();
    for byte in b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".iter().cycle() {
        if stream.write_all(&[*byte]).is_err() || began.elapsed() > Duration::from_secs(10) {
            break;
        }
        std::thread::sleep(Duration::from_millis(60));
        if began.elapsed() > 2 * LIMITS.patience {
            break;
        }
    }
    assert_eq!(status(&all(&stream)), "408");
}

/// Each of them takes a place at once.
#[test]
fn slow_clients_do_not_block_others() {
    let address = hello();
    let slow: Vec<TcpStream> = (0..10 * LIMITS.connections)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\n").unwrap();
            stream
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(status(&ask(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")), "200");
    }
    drop(slow);
}

/// They send a request and then read nothing.
#[test]
fn clients_that_do_not_read_do_not_block_others() {
    // Prepared in advance, so that the answer takes no time.
    let large: &'static str = "x".repeat(64 << 20).leak();
    let address = start(move |asked| match asked.path.as_str() {
        "/large" => Answer::text("text/plain", large),
        _ => Answer::text("text/plain", "hello\n"),
    });
    let stalled: Vec<TcpStream> = (0..10 * LIMITS.connections)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
            stream
        })
        .collect();
    for _ in 0..5 {
        assert_eq!(status(&ask(address, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")), "200");
    }
    drop(stalled);
}

#[test]
fn client_that_does_not_read_is_dropped() {
    let (results, ended) = channel();
    let results = std::sync::Mutex::new(results);
    let address = start(move |_| {
        let results = results.lock().unwrap().clone();
        Answer::events(move |client| {
            let block = vec![b'x'; 1 << 20];
            let outcome = (0..1000).try_for_each(|_| client.send(&block));
            let _ = results.send(outcome.is_err());
            outcome
        })
    });
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok(true), "1 GB was not taken");
    // A client that vanishes is dropped, too.
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    drop(stream);
    assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok(true));
}
