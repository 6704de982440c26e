//! A rate that changes with time: `time_seconds,rate_pps` as CSV.

use crate::input::columns::{self, Column, Findings};
use crate::input::{InvalidFile, LoadError};
use wattline_files::{MOST_TEXT, read_text};
use wattline_units::{PacketsPerSecond, Span};

/// A piece of a trace with a constant rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Line of the file, counted from 1.
    pub line: usize,
    /// Duration of the piece.
    pub length: Span,
    /// Offered packets per second.
    pub rate: PacketsPerSecond,
}

const COLUMNS: [Column; 2] = [
    Column { name: "time_seconds", allowed: 0.0..=1e7, unit: "seconds", optional: false },
    Column { name: "rate_pps", allowed: 0.0..=1e11, unit: "packets per second", optional: false },
];

/// Reads a trace from a file.
pub fn load(path: &str) -> Result<Vec<Interval>, LoadError> {
    let text = read_text(path.as_ref(), MOST_TEXT).map_err(|cause| LoadError::Unreadable {
        file: path.to_string(),
        cause,
        hint: String::new(),
    })?;
    Ok(parse(path, &text)?)
}

/// Parses a trace. Each row's rate lasts until the next row's time; the last one lasts as long as
/// the one before. `file` names it in errors.
pub fn parse(file: &str, text: &str) -> Result<Vec<Interval>, InvalidFile> {
    let mut found = Findings::default();
    let lines = columns::read(text, &COLUMNS, &mut found);
    let rows: Vec<(usize, f64, f64)> = lines
        .iter()
        .filter_map(|line| Some((line.number, line.cells[0]?, line.cells[1]?)))
        .collect();
    if found.none() && rows.len() < 2 {
        let why = format!("{} rows are too few; give at least 2", rows.len());
        found.contradiction(None, "rows", why);
    }
    for pair in rows.windows(2) {
        if pair[1].1 <= pair[0].1 {
            let why = format!("{} does not follow {}: times must ascend", pair[1].1, pair[0].1);
            found.contradiction(Some(pair[1].0), "time_seconds", why);
        }
    }
    let mut intervals: Vec<Interval> = rows
        .windows(2)
        .map(|pair| Interval {
            line: pair[0].0,
            length: Span::from_seconds(pair[1].1 - pair[0].1),
            rate: PacketsPerSecond(pair[0].2),
        })
        .collect();
    if let (Some(before), Some(last)) = (intervals.last().copied(), rows.last()) {
        intervals.push(Interval { line: last.0, rate: PacketsPerSecond(last.2), ..before });
    }
    found.finish(file, intervals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_last_until_the_next_row() {
        let trace = parse("day.csv", "time_seconds,rate_pps\n0,1e6\n2,2e6\n5,0\n").unwrap();
        let lengths: Vec<f64> = trace.iter().map(|piece| piece.length.as_seconds()).collect();
        assert_eq!(lengths, [2.0, 3.0, 3.0]);
        assert_eq!(trace[1].rate, PacketsPerSecond(2e6));
        assert_eq!(trace[2].line, 4);
    }

    #[test]
    fn bad_traces_are_refused() {
        let message = |text: &str| parse("day.csv", text).unwrap_err().to_string();
        assert!(message("time_seconds,rate_pps\n0,5\n").contains("1 rows are too few"));
        let text = "time_seconds,rate_pps\n3,5\n3,-6\n2,5\n1,4\n";
        assert!(message(text).contains("day.csv:3: rate_pps = -6: must be 0e0 to 1e11"));
        assert!(message(text).contains("day.csv:5: time_seconds: 1 does not follow 2"));
        assert!(message("time,rate_pps\n0,5\n").contains("is it `time`?"));
    }
}
