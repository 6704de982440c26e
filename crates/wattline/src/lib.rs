//! The program `wattline`: the router, the governor, and the commands that query them.
//!
//! Each command is a file under `commands/`; adding one touches only the list there. The program
//! `wattline-lab` uses the public parts.
#![forbid(unsafe_code)]

mod applications;
pub mod cli;
pub mod commands;
pub mod exit;
pub mod laboratory;
pub mod line;
pub mod new_file;
pub mod output;
mod platforms;
pub mod program;
pub mod progress;
