//! The command `wattline`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use wattline::{commands, laboratory, line, program};

fn main() -> ExitCode {
    program::identify();
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    if laboratory::is_asked_for(&arguments) {
        return program::refuse(&laboratory::hand_over("this command"), &arguments);
    }
    program::run::<commands::Command>(line::own)
}
