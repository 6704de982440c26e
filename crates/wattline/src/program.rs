//! Life cycle of a program: parses its arguments, runs its command, and reports its error.

use crate::cli::{self, Cli};
use crate::exit::ExitError;
use crate::output;
use rustix::process::{Signal, getpid, kill_process};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use wattline_units::Build;

/// Variable that makes a command end, as by SIGTERM, once its standard input does. The process that
/// starts a step of a longer job holds the other end, so that the step ends with it.
pub const ENDS_WITH_INPUT: &str = "WATTLINE_ENDS_WITH_INPUT";

/// Commands of a program.
pub trait Commands: clap::Subcommand {
    /// Returns true for commands that run unattended, with no reader of their output.
    fn is_unattended(&self) -> bool;

    /// Runs the command; `json` asks for results as JSON.
    ///
    /// # Errors
    /// Fails with the message and the exit code of the command.
    fn run(self, json: bool) -> Result<(), ExitError>;
}

/// Makes all output of this process name its build.
pub fn identify() {
    Build::new(env!("CARGO_PKG_VERSION"), env!("WATTLINE_BUILD_COMMIT")).set();
}

/// Parses the arguments of this process with `line`, and runs the command.
pub fn run<C: Commands>(line: fn() -> clap::Command) -> ExitCode {
    let Cli { json, command } = match cli::parse::<C>(line) {
        Ok(cli) => cli,
        Err(error) => {
            if is_json(std::env::args_os()) && error.use_stderr() {
                print_json(&ExitError::new(
                    ExitError::USAGE,
                    usage_error(&error.render().to_string()),
                ));
            }
            error.exit()
        }
    };
    let unattended = command.is_unattended();
    // A watchdog started by a step inherits the variable, but has its own input.
    let tied = std::env::var_os(ENDS_WITH_INPUT).is_some() && !unattended;
    let tied = if tied { end_with_input() } else { Ok(()) };
    match tied.and_then(|()| command.run(json)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => end(&error, json, unattended),
    }
}

/// Starts watching standard input.
fn end_with_input() -> Result<(), ExitError> {
    let watch = || {
        // The bytes are ignored, and an error counts as the end.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = kill_process(getpid(), Signal::TERM);
    };
    thread::Builder::new().name("input".to_owned()).spawn(watch)?;
    Ok(())
}

/// Ends a program before its arguments are parsed completely.
pub fn refuse(error: &ExitError, arguments: &[OsString]) -> ExitCode {
    end(error, is_json(arguments.iter().cloned()), false)
}

fn is_json(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.any(|argument| argument == "--json")
}

fn end(error: &ExitError, json: bool, unattended: bool) -> ExitCode {
    // Code 0: the reader of our output has gone, which is not a failure.
    if error.code == 0 {
        return ExitCode::SUCCESS;
    }
    if json && !error.after_result {
        print_json(error);
    }
    match unattended {
        true => output::note_within(error),
        false => output::write_note(error),
    }
    ExitCode::from(error.code)
}

/// Reduces a message of clap to the part that is useful without a terminal.
fn usage_error(rendered: &str) -> String {
    let useful = |line: &&str| !line.trim().is_empty() && !line.starts_with("For more information");
    let lines: Vec<&str> = rendered.lines().filter(useful).collect();
    let text = lines.join("\n");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// Prints the error on standard output, as the document that `--json` promises; standard error gets
/// it as text, too.
fn print_json(error: &ExitError) {
    let lines: Vec<&str> = error.message.lines().collect();
    let document = serde_json::json!({ "error": { "exit_code": error.code, "messages": lines } });
    // Fails only if the reader has closed the output and needs no document.
    let _ = output::print_within(|out| writeln!(out, "{document:#}"));
}
