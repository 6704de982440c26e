//! The `wattline` command.
//!
//! Each command is a file under `commands/`; adding one touches only the list there.
#![forbid(unsafe_code)]

mod applications;
mod commands;
mod exit;
mod output;
mod platforms;

use clap::Parser;
use std::process::ExitCode;

/// A software router and energy governor whose power follows its traffic.
///
/// Exit codes: 0 done; 2 usage; 65 bad data; 66 an input cannot be opened; 69 hardware or
/// kernel feature missing; 74 input/output error; 77 no permission; 78 configuration error.
#[derive(Debug, Parser)]
#[command(version, about, long_about, verbatim_doc_comment)]
struct Cli {
    /// Print results as JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command.run(cli.json) {
        Ok(()) => ExitCode::SUCCESS,
        // Code 0: the reader of our output has gone, which is no failure.
        Err(error) if error.code == 0 => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
