//! Runs of the program that a test only starts and reads.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Output};

/// Runs the program to its end.
pub fn wattline(args: &[&str]) -> Output {
    Command::new(wattline_needs::program()).args(args).output().expect("the program starts")
}

/// Returns the words of a command line, followed by words that may contain blanks.
pub fn words<'a>(line: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    line.split_whitespace().chain(more.iter().copied()).collect()
}

/// Runs the program to its end in a folder.
pub fn wattline_in(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(wattline_needs::program());
    command.args(args).current_dir(folder).output().expect("the program starts")
}

/// Returns the JSON document that a successful run prints.
pub fn json(args: &[&str]) -> Value {
    document(&wattline(args))
}

/// Returns the JSON document of a run, which was successful.
pub fn document(output: &Output) -> Value {
    assert!(output.status.success(), "{}", errors(output));
    any_document(output)
}

/// Returns the JSON document of a run, however it ended.
pub fn any_document(output: &Output) -> Value {
    let document = serde_json::from_slice(&output.stdout);
    document.unwrap_or_else(|error| panic!("{error}: {output:?}"))
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
    ended_with(&output, code, parts);
    assert!(output.stdout.is_empty(), "{args:?}: results beside an error");
}

/// Checks that a run ended with this exit code and a message that has all these parts; returns the
/// message.
pub fn ended_with(output: &Output, code: i32, parts: &[&str]) -> String {
    let message = errors(output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for part in parts {
        assert!(message.contains(part), "\"{part}\" is missing in: {message}");
    }
    message
}

/// Returns the text on standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns true if a process still runs; a zombie does not.
pub fn runs(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
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
