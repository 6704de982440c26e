//! Results on standard output: for a program as JSON, for a person as a table.

use crate::exit::ExitError;
use serde::Serialize;
use std::io::{StdoutLock, Write};

/// Prints a result, by `table` unless JSON is asked for.
pub fn print<T: Serialize>(
    result: &T,
    json: bool,
    table: impl FnOnce(&mut StdoutLock<'static>, &T) -> std::io::Result<()>,
) -> Result<(), ExitError> {
    let mut out = std::io::stdout().lock();
    if json {
        serde_json::to_writer_pretty(&mut out, result).map_err(std::io::Error::from)?;
        writeln!(out)?;
    } else {
        table(&mut out, result)?;
    }
    Ok(())
}
