//! Results on standard output: JSON for programs, tables for people.

use crate::exit::ExitError;
use serde::Serialize;
use std::fmt::Display;
use std::io::{self, StdoutLock, Write};
use std::time::Duration;
use wattline_daemon::logging::write_within;
use wattline_report::{Plain, plain};
use wattline_units::Build;

/// Standard output for text: without characters that control a terminal.
pub type Stdout = Plain<StdoutLock<'static>>;

/// Time that a daemon waits for a stalled reader of its output.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns standard output for text.
pub fn stdout() -> Stdout {
    Plain::new(io::stdout().lock())
}

/// Writes a line to standard error. A line that cannot be written is lost.
pub fn write_note(text: impl Display) {
    let text = text.to_string();
    let _ = writeln!(io::stderr(), "{}", plain(&text));
}

/// Writes the remarks on a configuration to standard error.
pub fn write_notes(notes: &[String]) {
    notes.iter().for_each(|note| write_note(format_args!("note: {note}")));
}

/// Writes a line to standard error, with the arguments of `format!`.
#[macro_export]
macro_rules! note {
    ($($arguments:tt)*) => { $crate::output::write_note(format_args!($($arguments)*)) };
}
pub use note;

/// Writes a line to standard error without waiting for a stalled reader: for unattended commands.
pub fn note_within(text: impl Display) {
    let text = format!("{}\n", plain(&text.to_string()));
    let _ = write_within(io::stderr(), text.into_bytes(), PATIENCE);
}

/// Writes the account of an ended daemon to standard output, without waiting for a stalled reader.
pub fn print_within(fill: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Result<(), ExitError> {
    let mut text = Vec::new();
    fill(&mut text)?;
    let text = plain(&String::from_utf8_lossy(&text)).into_owned();
    Ok(write_within(io::stdout(), text.into_bytes(), PATIENCE)?)
}

/// Refuses `--json` for output that has its own format; `what` names the output, and `instead` the
/// alternative.
pub fn text_alone(json: bool, what: &str, instead: &str) -> Result<(), ExitError> {
    match json {
        true => {
            let message = format!("{what} has no JSON: leave out --json{instead}");
            Err(ExitError::new(ExitError::USAGE, message))
        }
        false => Ok(()),
    }
}

/// Writes a result as JSON, with the build of this program, by which `report` keeps results of
/// different builds apart.
pub fn document(out: &mut impl Write, result: &impl Serialize) -> io::Result<()> {
    let document = Document { build: Build::default(), result };
    // A list has no place for the build; its elements name it themselves.
    let text = serde_json::to_string_pretty(&document)
        .or_else(|_| serde_json::to_string_pretty(result))?;
    writeln!(out, "{text}")
}

#[derive(Serialize)]
struct Document<'a, T> {
    build: Build,
    #[serde(flatten)]
    result: &'a T,
}

/// Prints a result with `table`, or as JSON if requested.
pub fn print<T: Serialize>(
    result: &T,
    json: bool,
    table: impl FnOnce(&mut Stdout, &T) -> io::Result<()>,
) -> Result<(), ExitError> {
    let mut out = stdout();
    if json {
        document(&mut out, result)?;
    } else {
        table(&mut out, result)?;
    }
    Ok(())
}
