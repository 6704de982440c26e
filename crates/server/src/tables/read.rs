//! Reads tables from text, which may be hostile.

use super::write::{COLUMNS, DEFAULT, SATURATED, UNKNOWN};
use super::{Conditions, ProfilePoint, ProfileTables};
use crate::input::{InvalidFile, LoadError, Problem, ProblemKind};
use wattline_files::read_text;
use wattline_units::Span;

const VERSION: u32 = 1;
/// Largest number of problems listed, so that a completely wrong file is not repeated in full.
const MOST_PROBLEMS: usize = 20;

/// A line of the table.
struct Row {
    line: usize,
    load: f64,
    gigahertz: f64,
    /// Period in microseconds; `None` for the driver's choice.
    micros: Option<f64>,
    point: ProfilePoint,
}

impl ProfileTables {
    /// Size of the text of the largest tables, with long figures.
    pub const MOST_BYTES: u64 = 128 << 20;

    /// Reads a file.
    ///
    /// # Errors
    /// Fails when it cannot be read, and like [`Self::parse`].
    pub fn load(path: &str) -> Result<Self, LoadError> {
        let text = read_text(path.as_ref(), ProfileTables::MOST_BYTES).map_err(|cause| {
            LoadError::Unreadable {
                file: path.to_owned(),
                cause,
                hint:
                    "; `wattline profile` and `wattline sim --requests ... --profile FILE` make one"
                        .to_owned(),
            }
        })?;
        Ok(Self::parse(path, &text)?)
    }

    /// Parses the text form; `file` names it in errors.
    ///
    /// # Errors
    /// Returns the first twenty problems, line by line.
    pub fn parse(file: &str, text: &str) -> Result<Self, InvalidFile> {
        let mut problems = Vec::new();
        let head = conditions(text, &mut problems);
        let rows = rows(text, &mut problems);
        let tables = head.and_then(|head| fill(head, &rows, &mut problems));
        match tables {
            Some(tables) if problems.is_empty() => Ok(tables),
            _ => {
                problems.truncate(MOST_PROBLEMS);
                Err(InvalidFile { file: file.to_owned(), problems })
            }
        }
    }
}

fn problem(line: Option<usize>, field: &str, why: String) -> Problem {
    Problem { line, field: field.to_owned(), value: None, kind: ProblemKind::Contradiction(why) }
}

/// Parses the lines that begin with `#`, which are TOML.
fn conditions(text: &str, problems: &mut Vec<Problem>) -> Option<Conditions> {
    let lines = text.lines().filter_map(|line| line.trim_start().strip_prefix('#'));
    let head: String = lines.map(|line| format!("{line}\n")).collect();
    match toml::from_str::<Conditions>(&head) {
        Ok(head) if head.version == VERSION => Some(head),
        Ok(head) => {
            let why = format!("is {}; this program reads {VERSION}", head.version);
            problems.push(problem(None, "version", why));
            None
        }
        Err(error) => {
            let why = format!("the lines that begin with # are no head: {}", error.message());
            problems.push(problem(None, "", why));
            None
        }
    }
}

fn rows(text: &str, problems: &mut Vec<Problem>) -> Vec<Row> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    match reader.headers() {
        Ok(found) if found.iter().eq(COLUMNS) => {}
        _ => {
            let why = format!("the first line must be {}", COLUMNS.join(","));
            problems.push(problem(None, "", why));
            return Vec::new();
        }
    }
    let mut rows = Vec::new();
    for record in reader.records() {
        if problems.len() >= MOST_PROBLEMS {
            break;
        }
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                problems.push(problem(None, "", error.to_string()));
                break;
            }
        };
        let line = record.position().map_or(0, |position| position.line() as usize);
        if record.len() != COLUMNS.len() {
            let why = format!("has {} cells; there are {} columns", record.len(), COLUMNS.len());
            problems.push(problem(Some(line), "", why));
            continue;
        }
        let before = problems.len();
        let mut number = |column: usize, least: f64, most: f64| -> f64 {
            let cell = record.get(column).unwrap_or_default();
            let value = cell.parse().unwrap_or(f64::NAN);
            if !(least..=most).contains(&value) {
                problems.push(Problem {
                    line: Some(line),
                    field: COLUMNS[column].to_owned(),
                    value: Some(cell.chars().take(40).collect()),
                    kind: ProblemKind::OutOfRange { allowed: format!("{least} to {most}") },
                });
            }
            value
        };
        let load = number(0, 1e-3, 1e9);
        let gigahertz = number(1, 0.01, 20.0);
        let is = |column: usize, word: &str| record.get(column) == Some(word);
        let micros = (!is(2, DEFAULT)).then(|| number(2, 0.0, 1e6));
        let latency = if is(3, SATURATED) { f64::INFINITY } else { number(3, 1e-3, 1e9) * 1e-6 };
        let power = if is(4, UNKNOWN) { f64::NAN } else { number(4, 0.0, 1e5) };
        if problems.len() == before {
            let point = ProfilePoint { latency_seconds: latency, power_watts: power };
            rows.push(Row { line, load, gigahertz, micros, point });
        }
    }
    rows
}

/// Returns the index of a value on an ascending axis, within the precision of texts.
fn near(axis: &[f64], value: f64) -> Option<usize> {
    let within = 1e-6 * value.abs().max(1e-9);
    let index = axis.partition_point(|known| *known < value - within);
    axis.get(index).is_some_and(|known| *known <= value + within).then_some(index)
}

fn fill(head: Conditions, rows: &[Row], problems: &mut Vec<Problem>) -> Option<ProfileTables> {
    let axis = |values: &mut dyn Iterator<Item = f64>| {
        let mut axis: Vec<f64> = values.collect();
        axis.sort_by(f64::total_cmp);
        axis.dedup();
        axis
    };
    let loads = axis(&mut rows.iter().map(|row| row.load));
    let micros = axis(&mut rows.iter().filter_map(|row| row.micros));
    if micros.is_empty() && !rows.is_empty() {
        // Rows with an invalid period are already reported.
        if problems.is_empty() {
            let why = "no row has a period: `default` rows give the target and no point to choose; \
                       add rows whose period is in microseconds, as `wattline profile` measures them";
            problems.push(problem(None, "period_us", why.to_owned()));
        }
        return None;
    }
    let periods = micros.iter().map(|micros| Span::from_seconds(micros * 1e-6)).collect();
    let mut tables = match ProfileTables::new(head, loads, periods) {
        Ok(tables) => tables,
        Err(why) => {
            problems.push(problem(None, "", why));
            return None;
        }
    };
    let loads = tables.loads.clone();
    let frequencies = tables.conditions.machine.frequencies_ghz.clone();
    for row in rows {
        let found = (near(&loads, row.load), near(&frequencies, row.gigahertz));
        let (Some(load), Some(frequency)) = found else {
            let why = format!("is none of the machine's frequencies: {} GHz", row.gigahertz);
            problems.push(problem(Some(row.line), "frequency_ghz", why));
            continue;
        };
        let twice = match row.micros.map(|value| near(&micros, value)) {
            None if frequency + 1 != frequencies.len() => {
                let why = "is `default` at the highest frequency alone".to_owned();
                problems.push(problem(Some(row.line), "period_us", why));
                continue;
            }
            None => {
                let twice = tables.default_point(load).is_some();
                tables.set_default(load, row.point);
                twice
            }
            Some(period) => {
                let period = period.unwrap_or_default();
                let twice = tables.point(load, frequency, period).is_some();
                tables.set(load, frequency, period, row.point);
                twice
            }
        };
        if twice {
            problems.push(problem(Some(row.line), "", "gives a point a second time".to_owned()));
        }
    }
    Some(tables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const HEAD: &str = "# version = 1\n# server = \"a\"\n# workload = \"b\"\n\
                        # source = \"measured\"\n# percentile = 95.0\n# machine.cores = 1\n\
                        # machine.frequencies_ghz = [1.0]\n# machine.moderation_us = [0.0, 0.0]\n";

    /// The time per line must not grow with the number of loads: a linear search for each line's
    /// load takes 64 times as long for 8 times the loads.
    #[test]
    fn twice_the_loads_take_about_twice_the_time() {
        let text = |loads: usize| {
            let rows = (1..=loads).map(|load| format!("{load},1,0,100,10\n"));
            format!("{HEAD}{}\n{}", COLUMNS.join(","), rows.collect::<String>())
        };
        let (few, many) = (text(20_000), text(160_000));
        // Takes the shortest of a few alternating runs, since other processes use the machine, too.
        let mut shortest = [f64::INFINITY; 2];
        for _ in 0..3 {
            for (text, shortest) in [&few, &many].into_iter().zip(&mut shortest) {
                let begun = Instant::now();
                let tables = ProfileTables::parse("test", text).unwrap();
                assert_eq!(tables.known_points(), tables.all_points());
                *shortest = shortest.min(begun.elapsed().as_secs_f64());
            }
        }
        let ratio = shortest[1] / shortest[0];
        assert!(ratio < 24.0, "8 times the loads take {ratio:.1} times as long");
    }

    #[test]
    fn value_is_found_on_its_axis_with_the_precision_of_text() {
        let axis = [0.0, 0.8, 1.300_000_000_1, 1e9];
        for (value, found) in [
            (0.0, Some(0)),
            (0.8, Some(1)),
            (1.3, Some(2)),
            (1.3 * (1.0 - 9e-7), Some(2)),
            (1.31, None),
            (1e9 + 1.0, Some(3)),
            (2e9, None),
        ] {
            assert_eq!(near(&axis, value), found, "{value}");
        }
        assert_eq!(near(&[], 1.0), None);
    }

    /// An interrupted profile has only its first rows, the `default` ones.
    #[test]
    fn tables_with_only_default_rows_are_refused_with_the_missing_rows() {
        let parsed = |rows: &str| {
            let text = format!("{HEAD}{}\n{rows}", COLUMNS.join(","));
            ProfileTables::parse("test", &text).map(drop).map_err(|error| error.to_string())
        };
        let only = parsed("1000,1,default,100,10\n2000,1,default,200,10\n").unwrap_err();
        assert!(only.contains("no row has a period") && only.contains("add rows"), "{only}");
        assert!(!only.contains("ascend"), "{only}");
        assert_eq!(parsed("1000,1,default,100,10\n1000,1,0,100,10\n"), Ok(()));
        // A row with a period that cannot be read.
        let unread = parsed("1000,1,default,100,10\n1000,1,often,100,10\n").unwrap_err();
        assert!(unread.contains("often") && !unread.contains("no row has"), "{unread}");
    }

    #[test]
    fn endless_file_is_refused() {
        let error = ProfileTables::load("/dev/zero").unwrap_err().to_string();
        assert!(error.contains("/dev/zero: is longer than"), "{error}");
    }
}
