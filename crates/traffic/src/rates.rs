//! Rates over time from a CSV file with the columns `time_seconds` and `rate_pps`, such as counters
//! of a router that were read every five minutes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use wattline_files::{MOST_TEXT, read_text};

/// Columns of the file, with their largest value. Others are ignored.
const COLUMNS: [(&str, f64); 2] = [("time_seconds", 1e7), ("rate_pps", 1e11)];

/// A rate and how long it lasts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateStep {
    /// Line of the file.
    pub line: usize,
    /// Packets per second.
    pub rate_pps: f64,
    /// Duration in seconds.
    pub seconds: f64,
}

/// Reasons why a file of rates cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RatesError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {cause}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Reported by the system.
        cause: std::io::Error,
    },
    /// Errors in the file, one per line.
    #[error("{0}")]
    Invalid(String),
}

/// Reads a file of rates.
///
/// # Errors
/// Fails when the file cannot be read, or with all its errors.
pub fn load(file: &Path) -> Result<Vec<RateStep>, RatesError> {
    let unreadable = |cause| RatesError::Unreadable { file: file.to_owned(), cause };
    parse(file, &read_text(file, MOST_TEXT).map_err(unreadable)?)
}

/// Reads rates from text. Each row's rate lasts until the next row's time, and the last rate as
/// long as the one before.
///
/// # Errors
/// Returns all errors in the text; `file` is for their position.
pub fn parse(file: &Path, text: &str) -> Result<Vec<RateStep>, RatesError> {
    let mut wrong = String::new();
    let mut note = |line: usize, problem: &str| {
        // Writing to a String does not fail.
        let _ = writeln!(wrong, "{}:{line}: {problem}", file.display());
    };
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .flexible(true)
        .from_reader(text.as_bytes());
    let head = reader.headers().cloned().unwrap_or_default();
    let places = COLUMNS.map(|(name, _)| head.iter().position(|column| column == name));
    for ((name, _), place) in COLUMNS.iter().zip(places) {
        if place.is_none() {
            note(1, &format!("column {name} is missing; needed are time_seconds and rate_pps"));
        }
    }
    let mut rows: Vec<(usize, [f64; 2])> = Vec::new();
    if let [Some(time), Some(rate)] = places {
        for record in reader.records() {
            let record = match record {
                Ok(record) => record,
                Err(error) => {
                    let line = error.position().map_or(0, |position| position.line() as usize);
                    note(line, &error.to_string());
                    continue;
                }
            };
            let line = record.position().map_or(0, |position| position.line() as usize);
            let mut row = [0.0; 2];
            let mut complete = true;
            for (((name, most), place), cell) in COLUMNS.iter().zip([time, rate]).zip(&mut row) {
                let text = record.get(place).unwrap_or_default();
                match text.parse() {
                    Ok(value) if (0.0..=*most).contains(&value) => *cell = value,
                    _ => {
                        complete = false;
                        note(
                            line,
                            &format!("{name}: {text:?}; allowed: a number from 0 to {most:e}"),
                        );
                    }
                }
            }
            if let Some((_, [before, _])) = rows.last().filter(|_| complete)
                && row[0] <= *before
            {
                note(line, &format!("time_seconds: {} does not follow {before}", row[0]));
            } else if complete {
                rows.push((line, row));
            }
        }
        if rows.len() < 2 {
            note(1, &format!("{} usable rows are too few; give at least 2", rows.len()));
        }
    }
    if !wrong.is_empty() {
        return Err(RatesError::Invalid(wrong.trim_end().to_owned()));
    }
    let last = rows.len() - 1;
    let step = |index: usize| {
        let (line, [_, rate_pps]) = rows[index];
        let next = (index + 1).min(last);
        RateStep { line, rate_pps, seconds: rows[next].1[0] - rows[next - 1].1[0] }
    };
    Ok((0..=last).map(step).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<RateStep>, String> {
        parse(Path::new("day.csv"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn rates_last_until_the_next_row() {
        let steps =
            read("# a day\nnote, rate_pps ,time_seconds\nnight,0,0\nday,5e6,300\n,1e6,900\n");
        let step = |line, rate_pps, seconds| RateStep { line, rate_pps, seconds };
        assert_eq!(steps.unwrap(), [step(3, 0.0, 300.0), step(4, 5e6, 600.0), step(5, 1e6, 600.0)]);
    }

    #[test]
    fn all_mistakes_are_reported_with_their_lines() {
        let errors = read("time_seconds,rate_pps\n0,x\n1,-1\n5,1\n4,1\n").unwrap_err();
        for part in
            ["day.csv:2: rate_pps: \"x\"", "day.csv:3:", "day.csv:5: time_seconds: 4", "1 usable"]
        {
            assert!(errors.contains(part), "{part}: {errors}");
        }
        let errors = read("time,rate\n0,1\n").unwrap_err();
        assert!(
            errors.contains("column time_seconds") && errors.contains("column rate_pps"),
            "{errors}"
        );
        assert!(read("").is_err());
    }

    #[test]
    fn any_text_is_read_or_refused() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            for text in [text.clone().into_owned(), format!("time_seconds,rate_pps\n{text}")] {
                if let Ok(steps) = read(&text) {
                    assert!(steps.len() > 1 && steps.iter().all(|step| step.seconds > 0.0));
                }
            }
        });
    }
}
