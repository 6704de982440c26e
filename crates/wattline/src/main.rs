//! The `wattline` command.
//!
//! Each command is a file under `commands/`; adding one touches only the list there.
#![forbid(unsafe_code)]

mod applications;
mod cli;
mod commands;
mod exit;
mod new_file;
mod output;
mod platforms;
mod progress;

use exit::ExitError;
use std::io::Write;
use std::process::ExitCode;
use wattline_units::Build;

fn main() -> ExitCode {
    Build::new(env!("CARGO_PKG_VERSION"), env!("WATTLINE_BUILD_COMMIT")).set();
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => {
            let asked_for_json = std::env::args_os().any(|argument| argument == "--json");
            if asked_for_json && error.use_stderr() {
                tell(&ExitError::new(ExitError::USAGE, of_usage(&error.render().to_string())));
            }
            error.exit()
        }
    };
    let unattended = cli.command.is_unattended();
    match cli.command.run(cli.json, cli::line) {
        Ok(()) => ExitCode::SUCCESS,
        // Code 0: the reader of our output has gone, which is no failure.
        Err(error) if error.code == 0 => ExitCode::SUCCESS,
        Err(error) => {
            if cli.json && !error.after_result {
                tell(&error);
            }
            match unattended {
                true => output::note_within(&error),
                false => output::write_note(&error),
            }
            ExitCode::from(error.code)
        }
    }
}

/// Reduces a message of clap to what is of use without a terminal.
fn of_usage(rendered: &str) -> String {
    let told = |line: &&str| !line.trim().is_empty() && !line.starts_with("For more information");
    let lines: Vec<&str> = rendered.lines().filter(told).collect();
    let text = lines.join("\n");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// The error as the document that `--json` promises on standard output; standard error has it as
/// text as well.
fn tell(error: &ExitError) {
    let lines: Vec<&str> = error.message.lines().collect();
    let document = serde_json::json!({ "error": { "exit_code": error.code, "messages": lines } });
    // Whoever has closed the output does not want to know.
    let _ = output::print_within(|out| writeln!(out, "{document:#}"));
}
