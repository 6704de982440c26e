//! The program `wattline-lab`: models, simulation, measurements and papers. `wattline` delegates
//! their commands to it.
#![forbid(unsafe_code)]

mod commands;
#[cfg(test)]
mod golden;
mod line;
mod scale;

use std::process::ExitCode;
use wattline::{laboratory, program};

fn main() -> ExitCode {
    program::identify();
    if let Err(error) = laboratory::check_caller() {
        let arguments: Vec<_> = std::env::args_os().skip(1).collect();
        return program::refuse(&error, &arguments);
    }
    program::run::<commands::Command>(line::own::<commands::Command>)
}
