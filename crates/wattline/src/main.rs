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
use exit::ExitError;
use std::io::Write;
use std::process::ExitCode;

/// A software router and energy governor whose power follows its traffic.
///
/// Exit codes: 0 done; 2 usage; 65 bad data; 66 an input cannot be opened; 69 hardware or
/// kernel feature missing; 74 input/output error; 77 no permission; 78 configuration error.
#[derive(Debug, Parser)]
#[command(version, about, long_about, verbatim_doc_comment)]
struct Cli {
    /// Print one JSON document: the result, or the error where there is none.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let asked_for_json = std::env::args_os().any(|argument| argument == "--json");
            if asked_for_json && error.use_stderr() {
                let message = error.render().to_string();
                tell(&ExitError::new(ExitError::USAGE, message.trim_end()));
            }
            error.exit()
        }
    };
    match cli.command.run(cli.json) {
        Ok(()) => ExitCode::SUCCESS,
        // Code 0: the reader of our output has gone, which is no failure.
        Err(error) if error.code == 0 => ExitCode::SUCCESS,
        Err(error) => {
            if cli.json && !error.after_result {
                tell(&error);
            }
            eprintln!("{error}");
            ExitCode::from(error.code)
        }
    }
}

/// The error as the document that `--json` promises on standard output; standard error has it as
/// text as well.
fn tell(error: &ExitError) {
    let lines: Vec<&str> = error.message.lines().collect();
    let document = serde_json::json!({ "error": { "exit_code": error.code, "messages": lines } });
    // Whoever has closed the output does not want to know.
    let _ = writeln!(std::io::stdout(), "{document:#}");
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
