//! Runs of the program that a test only starts and reads.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};

/// Runs the program to its end.
pub fn wattline(args: &[&str]) -> Output {
    Command::new(wattline_needs::program()).args(args).output().expect("the program starts")
}

/// Returns the JSON document that a successful run prints.
pub fn json(args: &[&str]) -> Value {
    document(&wattline(args))
}

/// Returns the JSON document of a run, which was successful.
pub fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", errors(output));
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

/// Returns the number of a key.
pub fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} is not a number: {value:#}"))
}

/// Returns exit code and standard error.
pub fn ended(args: &[&str]) -> (i32, String) {
    let output = wattline(args);
    (output.status.code().unwrap_or(-1), errors(&output))
}

/// Checks that a command fails with this exit code and a message that has all these parts.
pub fn refused(args: &[&str], code: i32, parts: &[&str]) {
    let output = wattline(args);
    let message = errors(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    for part in parts {
        assert!(message.contains(part), "{args:?}: \"{part}\" is missing in: {message}");
    }
    assert!(output.stdout.is_empty(), "{args:?}: results beside an error");
}

/// Returns the text on standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Answers every request with the same page, for as long as the test runs.
pub fn answering() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |mut stream: TcpStream| {
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..length]);
            while let Some(end) = seen.windows(4).position(|four| four == b"\r\n\r\n") {
                seen.drain(..end + 4);
                let page = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                if stream.write_all(page).is_err() {
                    return;
                }
            }
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    address
}
