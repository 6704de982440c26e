//! Runs of the program that a test only starts and reads.

use serde_json::Value;
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
