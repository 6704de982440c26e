//! The program `wattline`: router, governor and what an operator asks of them.
//!
//! Each command is a file under `commands/`; adding one touches only the list there. The program
//! `wattline-lab` uses the parts that are public.
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
