//! What the benchmarks have in common that take minutes, and of which most write a page.

use crate::exit::ExitError;
use crate::new_file::Overwrite;
use crate::output;
use indicatif::ProgressBar;
use serde::Serialize;
use std::io::{StdoutLock, Write};
use std::path::Path;
use std::time::Duration;

/// Runs a measurement. What it says of its progress is shown on the terminal meanwhile.
pub(super) fn with_progress<T>(measure: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let result = measure(&mut |line| bar.set_message(line.to_owned()));
    bar.finish_and_clear();
    result
}

/// A page under the name that a benchmark gives it replaces the one before. A file that was named is
/// replaced only where that is asked for; this is found out before minutes have passed.
pub(super) fn check(page: &Path, default: &str, overwrite: Overwrite) -> Result<(), ExitError> {
    overwrite.check((page != Path::new(default)).then_some(page))
}

/// Writes the page of a report, and prints the report.
pub(super) fn write_and_print<R: Serialize>(
    (page, html): (&Path, String),
    report: &R,
    json: bool,
    table: impl FnOnce(&mut StdoutLock<'static>, &R) -> std::io::Result<()>,
) -> Result<(), ExitError> {
    std::fs::write(page, html).map_err(|error| {
        ExitError::new(ExitError::IO, format_args!("cannot write {}: {error}", page.display()))
    })?;
    output::print(report, json, |out, report| {
        table(out, report)?;
        writeln!(out, "page: {}", page.display())
    })
}
