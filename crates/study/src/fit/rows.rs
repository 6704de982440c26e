//! Reads measured rows from CSV, and refuses rows to which no model can be fitted.

use crate::columns::{self, Column, Findings, Line};
use std::ops::RangeInclusive;
use wattline_files::{MOST_TEXT, read_text};
use wattline_server::{InvalidFile, LoadError, ProblemKind};

/// One measurement: a server under a steady load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Line of the file, counted from 1.
    pub line: usize,
    /// Frequency of the forwarding cores, in Hz.
    pub frequency_hertz: f64,
    /// Number of forwarding cores.
    pub cores: usize,
    /// Packets per second that were forwarded.
    pub throughput_pps: f64,
    /// Power in watts of the server, or in all rows of its processors.
    pub power_watts: f64,
    /// Offered packets per second, if the generator's rate is known.
    pub offered_pps: Option<f64>,
}

/// Smallest number of rows for a fit.
pub const FEWEST_ROWS: usize = 8;
/// Smallest number of distinct throughputs at one frequency.
const FEWEST_LOADS: usize = 3;

const OFFERED: &str = "offered_pps";

const COLUMNS: [Column; 5] = [
    column("frequency_hertz", 1e6..=2e10, "hertz, not MHz or GHz"),
    column("cores", 1.0..=4096.0, "cores"),
    column("throughput_pps", 0.0..=1e11, "packets per second"),
    column("power_watts", 0.1..=1e5, "watts"),
    Column { optional: true, ..column(OFFERED, 0.0..=1e12, "packets per second") },
];

const fn column(name: &'static str, allowed: RangeInclusive<f64>, unit: &'static str) -> Column {
    Column { name, allowed, unit, optional: false }
}

/// Reads the rows of a CSV file.
pub fn load(path: &str) -> Result<Vec<Row>, LoadError> {
    let text = read_text(path.as_ref(), MOST_TEXT).map_err(|cause| LoadError::Unreadable {
        file: path.to_string(),
        cause,
        hint: String::new(),
    })?;
    Ok(parse(path, &text)?)
}

/// Parses CSV text with the columns `frequency_hertz`, `cores`, `throughput_pps`, `power_watts` and
/// optionally `offered_pps`. Other columns are ignored; lines that begin with `#` are comments.
/// `file` names it in errors.
pub fn parse(file: &str, text: &str) -> Result<Vec<Row>, InvalidFile> {
    let mut found = Findings::default();
    let lines = columns::read(text, &COLUMNS, &mut found);
    let rows: Vec<Row> = lines.into_iter().filter_map(|line| row(line, &mut found)).collect();
    if found.none() {
        check_together(&rows, &mut found);
    }
    found.finish(file, rows)
}

fn row(line: Line<5>, found: &mut Findings) -> Option<Row> {
    let [frequency, cores, throughput, power, offered] = line.cells;
    let cores = cores?;
    if cores.fract() != 0.0 {
        let expected = "a whole number of cores".to_string();
        let kind = ProblemKind::WrongType { expected };
        found.note(Some(line.number), "cores", Some(&cores.to_string()), kind);
        return None;
    }
    Some(Row {
        line: line.number,
        frequency_hertz: frequency?,
        cores: cores as usize,
        throughput_pps: throughput?,
        power_watts: power?,
        offered_pps: offered,
    })
}

/// Checks that concern the whole file.
fn check_together(rows: &[Row], found: &mut Findings) {
    if rows.len() < FEWEST_ROWS {
        let why = format!("{} rows are too few; measure at least {FEWEST_ROWS}", rows.len());
        found.contradiction(None, "rows", why);
        return;
    }
    let fastest = rows.iter().map(|row| row.throughput_pps).fold(0.0, f64::max);
    for row in rows {
        if let Some(offered) = row.offered_pps
            && offered < row.throughput_pps * 0.9
        {
            let why = format!("{offered} is less than the forwarded rate, {}", row.throughput_pps);
            found.contradiction(Some(row.line), OFFERED, why);
        }
    }
    let constant = |value: fn(&Row) -> f64| rows.iter().all(|row| value(row) == value(&rows[0]));
    if constant(|row| row.power_watts) {
        let why = "is the same in every row: was the meter read?".to_string();
        found.contradiction(None, "power_watts", why);
    }
    if constant(|row| row.throughput_pps) {
        let why = "is the same in every row: vary the offered load".to_string();
        found.contradiction(None, "throughput_pps", why);
        return;
    }
    if fastest < 1000.0 {
        let why = format!(
            "is at most {fastest}: give packets per second, not thousands or millions of them"
        );
        found.contradiction(None, "throughput_pps", why);
    }
    let mut frequencies: Vec<f64> = rows.iter().map(|row| row.frequency_hertz).collect();
    frequencies.sort_by(f64::total_cmp);
    frequencies.dedup();
    for frequency in frequencies {
        let mut loads: Vec<f64> = rows
            .iter()
            .filter(|row| row.frequency_hertz == frequency)
            .map(|row| row.throughput_pps)
            .collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        if loads.len() < FEWEST_LOADS {
            let why = format!(
                "{frequency} Hz has {} different throughputs; measure at least {FEWEST_LOADS} \
                 (none, some, and as much as it forwards)",
                loads.len()
            );
            found.contradiction(None, "frequency_hertz", why);
        }
    }
    if rows.iter().all(|row| row.cores != 1) {
        let why = "no row has one core, but r_max(f) is what one core alone forwards".to_string();
        found.contradiction(None, "cores", why);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "frequency_hertz,cores,throughput_pps,power_watts,offered_pps\n";

    fn good() -> String {
        let row =
            |step: u32| format!("2e9,1,{},{},{}\n", step * 100_000, 100 + step, step * 100_000);
        HEADER.to_string() + &(0..10).map(row).collect::<String>()
    }

    fn message(text: &str) -> String {
        parse("rows.csv", text).expect_err("the rows are wrong").to_string()
    }

    #[test]
    fn good_rows_are_read_with_their_lines() {
        let rows = parse("rows.csv", &("# by hand\n".to_string() + &good())).unwrap();
        assert_eq!(rows.len(), 10);
        assert_eq!(rows[0].line, 3);
        assert_eq!(rows[9].offered_pps, Some(900_000.0));
    }

    #[test]
    fn all_bad_cells_are_named_at_once() {
        let text = good() + "3.0,1,5,100,5\n2e9,1.5,5,100,5\n2e9,1,many,-7,5\n";
        let message = message(&text);
        let expected = [
            "rows.csv:12: frequency_hertz = 3.0: must be 1e6 to 2e10 hertz, not MHz or GHz",
            "rows.csv:13: cores = 1.5: must be a whole number of cores",
            "rows.csv:14: throughput_pps = many: must be a number",
            "rows.csv:14: power_watts = -7: must be 1e-1 to 1e5 watts",
        ];
        for line in expected {
            assert!(message.contains(line), "{line:?} not in\n{message}");
        }
        assert_eq!(message.lines().count(), 4);
    }

    #[test]
    fn unfittable_files_are_refused() {
        let short: String = good().lines().take(5).map(|line| format!("{line}\n")).collect();
        assert!(message(&short).contains("4 rows are too few; measure at least 8"));
        assert!(message("").contains("missing; give this column"));
        let misnamed = good().replace("power_watts", "power_watt");
        assert!(
            message(&misnamed)
                .contains("power_watts: missing; give this column (is it `power_watt`?)")
        );
        let constant: String = (0..9).map(|step| format!("2e9,1,{step}000000,99,9e9\n")).collect();
        assert!(message(&(HEADER.to_string() + &constant)).contains("power_watts: is the same"));
        let idle: String = (0..9).map(|step| format!("2e9,1,7,9{step},9e9\n")).collect();
        assert!(message(&(HEADER.to_string() + &idle)).contains("throughput_pps: is the same"));
        let mpps: String = (0..9).map(|step| format!("2e9,2,1.{step},9{step},9\n")).collect();
        let message = message(&(HEADER.to_string() + &mpps));
        assert!(message.contains("is at most 1.8: give packets per second"), "{message}");
        assert!(message.contains("no row has one core"), "{message}");
    }
}
