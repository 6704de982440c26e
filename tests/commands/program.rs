//! Runs of the program that a test only starts and reads.

use serde_json::Value;
use std::process::{Command, Output};

/// Runs the program to its end.
pub fn wattline(args: &[&str]) -> Output {
    Command::new(wattline_needs::program()).args(args).output().expect("the program starts")
}

/// Returns the JSON document that a successful run prints.
pub fn json(args: &[&str]) -> Value {
    let output = wattline(args);
    assert!(output.status.success(), "{}", errors(&output));
    serde_json::from_slice(&output.stdout).expect("JSON on standard output")
}

/// Returns the text on standard error.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
