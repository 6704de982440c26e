//! Results that take minutes: their files, and the command that repeats them.

use serde::Serialize;
use std::io;
use wattline::exit::ExitError;
use wattline::output::{Stdout, print};

/// Returns the command as given, for a shell.
pub fn command_line() -> String {
    let arguments = std::env::args_os().skip(1).map(|it| quoted(&it.to_string_lossy()));
    let words: Vec<String> = std::iter::once("wattline".to_owned()).chain(arguments).collect();
    words.join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=,@%+-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Prints a result, and then fails if a file could not be `written`, so that minutes of work are
/// not lost with a file.
pub fn print_then_fail<T: Serialize>(
    written: Result<(), ExitError>,
    result: &T,
    json: bool,
    table: impl FnOnce(&mut Stdout, &T) -> io::Result<()>,
) -> Result<(), ExitError> {
    let printed = print(result, json, table);
    // The result is printed already; a program that reads JSON must not get a second document.
    let after = |error: ExitError| if printed.is_ok() { error.after_result() } else { error };
    written.map_err(after)?;
    printed
}
