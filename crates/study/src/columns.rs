//! Reads CSV files of numbers by the names of their columns, and collects all errors.

use std::ops::RangeInclusive;
use wattline_server::{InvalidFile, Problem, ProblemKind, nearest};

/// A required or optional column.
pub(crate) struct Column {
    /// Name in the first line.
    pub(crate) name: &'static str,
    /// Allowed range of its cells.
    pub(crate) allowed: RangeInclusive<f64>,
    /// Unit in words, with a hint at the likely mistake.
    pub(crate) unit: &'static str,
    /// True if the file may omit it.
    pub(crate) optional: bool,
}

/// Errors in a file of measurements.
#[derive(Default)]
pub(crate) struct Findings {
    problems: Vec<Problem>,
}

impl Findings {
    /// Returns true if there are no errors.
    pub(crate) fn none(&self) -> bool {
        self.problems.is_empty()
    }

    /// Adds a contradiction between values, on one line or (`None`) in the whole file.
    pub(crate) fn contradiction(&mut self, line: Option<usize>, field: &str, why: String) {
        self.note(line, field, None, ProblemKind::Contradiction(why));
    }

    /// Adds any other error.
    pub(crate) fn note(
        &mut self,
        line: Option<usize>,
        field: &str,
        value: Option<&str>,
        kind: ProblemKind,
    ) {
        let value = value.map(str::to_string);
        self.problems.push(Problem { line, field: field.to_string(), value, kind });
    }

    /// Returns the rows if there are no errors, else all errors in the order of their lines.
    pub(crate) fn finish<T>(mut self, file: &str, rows: T) -> Result<T, InvalidFile> {
        if self.none() {
            return Ok(rows);
        }
        self.problems.sort_by_key(|problem| problem.line);
        Err(InvalidFile { file: file.to_string(), problems: self.problems })
    }
}

/// A line of the file with its cells in the order of the requested columns; `None` for a cell of an
/// optional column that the file omits.
pub(crate) struct Line<const N: usize> {
    /// Line number, from 1.
    pub(crate) number: usize,
    /// The cells.
    pub(crate) cells: [Option<f64>; N],
}

/// Reads the columns. Other columns are ignored; lines that begin with `#` are comments. Lines with
/// an invalid cell are reported and skipped.
pub(crate) fn read<const N: usize>(
    text: &str,
    columns: &[Column; N],
    found: &mut Findings,
) -> Vec<Line<N>> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let headers = match reader.headers() {
        Ok(headers) => headers.clone(),
        Err(error) => {
            found.note(Some(1), "", None, ProblemKind::Syntax(error.to_string()));
            return Vec::new();
        }
    };
    let Some(places) = places(&headers, columns, found) else { return Vec::new() };
    let mut lines = Vec::new();
    for record in reader.records() {
        match record {
            Ok(record) => lines.extend(line(&record, columns, places, found)),
            Err(error) => {
                let line = error.position().map(|position| position.line() as usize);
                found.note(line, "", None, ProblemKind::Syntax(error.to_string()));
            }
        }
    }
    lines
}

/// Position of each column; `None` after a missing required column was reported.
fn places<const N: usize>(
    headers: &csv::StringRecord,
    columns: &[Column; N],
    found: &mut Findings,
) -> Option<[Option<usize>; N]> {
    let names: Vec<&str> = headers.iter().collect();
    let places =
        columns.each_ref().map(|column| names.iter().position(|name| *name == column.name));
    for (column, place) in columns.iter().zip(places) {
        if place.is_none() && !column.optional {
            let expected = match nearest(column.name, &names) {
                Some(near) => format!("this column (is it `{near}`?)"),
                None => "this column".to_string(),
            };
            found.note(Some(1), column.name, None, ProblemKind::Missing { expected });
        }
    }
    found.none().then_some(places)
}

fn line<const N: usize>(
    record: &csv::StringRecord,
    columns: &[Column; N],
    places: [Option<usize>; N],
    found: &mut Findings,
) -> Option<Line<N>> {
    let number = record.position().map_or(0, |position| position.line() as usize);
    let mut cells = [None; N];
    let mut right = true;
    for ((cell, column), place) in cells.iter_mut().zip(columns).zip(places) {
        let Some(place) = place else { continue };
        let text = record.get(place).unwrap_or_default();
        let (low, high) = (column.allowed.start(), column.allowed.end());
        let words = format!("{low:e} to {high:e} {}", column.unit);
        let kind = match text.parse::<f64>() {
            Ok(value) if column.allowed.contains(&value) => {
                *cell = Some(value);
                continue;
            }
            Ok(_) => ProblemKind::OutOfRange { allowed: words },
            Err(_) => ProblemKind::WrongType { expected: format!("a number, {words}") },
        };
        found.note(Some(number), column.name, Some(text), kind);
        right = false;
    }
    right.then_some(Line { number, cells })
}
