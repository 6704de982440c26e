//! Life of a program: its arguments are read, its command runs, and its error is told.

use crate::cli::{self, Cli};
use crate::exit::ExitError;
use crate::output;
use rustix::process::{Signal, getpid, kill_process};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::thread;
use wattline_units::Build;

/// Variable under which a command ends, as by SIGTERM, once its standard input does. Whoever starts a step
/// of a longer work holds the other end, and takes the step along however it dies.
pub const ENDS_WITH_INPUT: &str = "WATTLINE_ENDS_WITH_INPUT";

/// Commands of a program.
pub trait Commands: clap::Subcommand {
    /// Returns true for what runs with nobody there to read its output.
    fn is_unattended(&self) -> bool;

    /// Runs the command; `json` asks for results as JSON.
    ///
    /// # Errors
    /// Fails with the message and the exit code of the command.
    fn run(self, json: bool) -> Result<(), ExitError>;
}

/// Lets everything that this process writes name its build.
pub fn identify() {
    Build::new(env!("CARGO_PKG_VERSION"), env!("WATTLINE_BUILD_COMMIT")).set();
}

/// Reads the arguments of this process as `line` has them, and does what they ask for.
pub fn run<C: Commands>(line: fn() -> clap::Command) -> ExitCode {
    let Cli { json, command } = match cli::parse::<C>(line) {
        Ok(cli) => cli,
        Err(error) => {
            if is_json(std::env::args_os()) && error.use_stderr() {
                tell(&ExitError::new(ExitError::USAGE, usage_error(&error.render().to_string())));
            }
            error.exit()
        }
    };
    let unattended = command.is_unattended();
    // A watchdog that a step starts inherits the variable, and has an input of its own.
    let tied = std::env::var_os(ENDS_WITH_INPUT).is_some() && !unattended;
    let tied = if tied { end_with_input() } else { Ok(()) };
    match tied.and_then(|()| command.run(json)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => end(&error, json, unattended),
    }
}

/// Watches standard input from now on.
fn end_with_input() -> Result<(), ExitError> {
    let watch = || {
        // Its bytes mean nothing, and an error is an end.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        let _ = kill_process(getpid(), Signal::TERM);
    };
    thread::Builder::new().name("input".to_owned()).spawn(watch)?;
    Ok(())
}

/// Ends a program before its arguments are read whole.
pub fn refuse(error: &ExitError, arguments: &[OsString]) -> ExitCode {
    end(error, is_json(arguments.iter().cloned()), false)
}

fn is_json(mut arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.any(|argument| argument == "--json")
}

fn end(error: &ExitError, json: bool, unattended: bool) -> ExitCode {
    // Code 0: the reader of our output has gone, which is no failure.
    if error.code == 0 {
        return ExitCode::SUCCESS;
    }
    if json && !error.after_result {
        tell(error);
    }
    match unattended {
        true => output::note_within(error),
        false => output::write_note(error),
    }
    ExitCode::from(error.code)
}

/// Reduces a message of clap to what is of use without a terminal.
fn usage_error(rendered: &str) -> String {
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
