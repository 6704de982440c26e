//! An external meter: lines of comma-separated values that another program appends to a file
//! or writes to a pipe. For wall-plug meters and data acquisition with a shunt.
//!
//! The first line names the columns: `time` (seconds, any origin) and either `watts`, or
//! `volts` and `amperes`, or `volts` and `shunt_volts` with the resistance given. Energy is
//! the integral over the meter's own time (trapezoids between samples).

use crate::reading::{Description, Meter, Plausible, Reading, Rejection, Scope};
use crate::registration::Row;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wattline_linux::sysfs::ReadError;
use wattline_units::{Accuracy, Joules, Provenance, Source, Span, Time, Watts};

/// Properties of an external meter.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Resistance of the shunt in ohms, for the column `shunt_volts`.
    pub shunt_ohms: Option<f64>,
    /// Accuracy of the instrument.
    pub accuracy: Accuracy,
    /// Its scope.
    pub scope: Scope,
    /// Time without a new sample after which the meter counts as silent.
    pub patience: Span,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            shunt_ohms: None,
            accuracy: Accuracy::Bronze,
            scope: Scope::Platform,
            patience: Span::from_millis(5_000),
        }
    }
}

/// The file or pipe cannot serve as a meter.
#[derive(Debug, thiserror::Error)]
pub enum ExternalError {
    /// The file or pipe cannot be opened.
    #[error(transparent)]
    Open(#[from] ReadError),
    /// The first line does not name usable columns.
    #[error(
        "{}, line 1: columns {columns:?}; needed are time and watts, or time, volts and amperes, \
         or time, volts and shunt_volts with the shunt's resistance in ohms above 0", path.display()
    )]
    Columns {
        /// The file.
        path: PathBuf,
        /// The columns in its first line.
        columns: String,
    },
}

/// An external meter.
#[derive(Debug)]
pub struct External {
    path: PathBuf,
    file: File,
    options: Options,
    description: Description,
    columns: Option<Columns>,
    /// An unfinished last line: its writer is still working on it.
    rest: Vec<u8>,
    line: u64,
    /// Bytes read so far, to detect a file that was truncated and restarted.
    offset: u64,
    last: Option<Sample>,
    /// Time of the last data, by this machine's clock.
    heard: Option<Time>,
    /// Lines that the last reading left out, with the reasons.
    mistakes: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Columns {
    time: usize,
    power: Power,
}

#[derive(Debug, Clone, Copy)]
enum Power {
    Watts(usize),
    VoltsAmperes(usize, usize),
    VoltsShunt { volts: usize, shunt: usize, ohms: f64 },
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    seconds: f64,
    watts: f64,
}

impl External {
    /// Opens it without waiting for a writer. The existing contents of a file are history: reading
    /// starts with its last sample.
    ///
    /// # Errors
    /// [`ExternalError`]; a pipe that is still empty is checked when its first line comes.
    pub fn open(path: &Path, options: Options) -> Result<Self, ExternalError> {
        let file = File::options()
            .read(true)
            .custom_flags(O_NONBLOCK)
            .open(path)
            .map_err(|error| ReadError::of(path, &error))?;
        let note = match options.shunt_ohms {
            Some(ohms) => format!("{}, shunt of {ohms} ohm", path.display()),
            None => path.display().to_string(),
        };
        let mut meter = Self {
            path: path.to_path_buf(),
            file,
            columns: None,
            rest: Vec::new(),
            line: 0,
            offset: 0,
            last: None,
            heard: None,
            mistakes: Vec::new(),
            description: Description {
                id: format!("external:{}", path.display()),
                source: "external",
                scope: options.scope,
                part_of: None,
                provenance: Provenance { source: Source::Measured, accuracy: options.accuracy },
                note,
            },
            options,
        };
        let first = meter.new_lines()?;
        if let Some((_, head)) = first.first() {
            meter.columns = Some(meter.columns_of(head)?);
        }
        for (_, line) in first.iter().skip(1) {
            let _ = meter.sample(line).and_then(|sample| meter.take(sample));
        }
        Ok(meter)
    }

    /// Returns complete lines that arrived since the last call, with their numbers.
    fn new_lines(&mut self) -> Result<Vec<(u64, String)>, ReadError> {
        // Most bytes at once for a reader that fell behind.
        const MOST: u64 = 16 << 20;
        let failed = |error: io::Error| ReadError::of(&self.path, &error);
        let metadata = self.file.metadata().map_err(failed)?;
        if metadata.is_file() && metadata.size() < self.offset {
            let reason = "the file was cut while it was read; open it again".to_string();
            return Err(ReadError::Failed { path: self.path.clone(), reason });
        }
        let before = self.rest.len();
        match (&self.file).take(MOST).read_to_end(&mut self.rest) {
            Ok(_) => {}
            // Bytes that came before the pipe ran dry stay in the buffer.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(failed(error)),
        }
        self.offset += (self.rest.len() - before) as u64;
        let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
            if self.rest.len() > LONGEST_LINE {
                self.rest.clear();
                let reason = format!("a line is longer than {LONGEST_LINE} bytes");
                return Err(ReadError::Failed { path: self.path.clone(), reason });
            }
            return Ok(Vec::new());
        };
        let after = self.rest.split_off(end + 1);
        let complete = std::mem::replace(&mut self.rest, after);
        let mut lines = Vec::new();
        for line in String::from_utf8_lossy(&complete).lines() {
            self.line += 1;
            if !line.trim().is_empty() && !line.starts_with('#') {
                lines.push((self.line, line.to_string()));
            }
        }
        Ok(lines)
    }

    fn columns_of(&self, head: &str) -> Result<Columns, ExternalError> {
        let names: Vec<String> = head.split(',').map(|name| name.trim().to_lowercase()).collect();
        let column = |name: &str| names.iter().position(|other| other == name);
        let (watts, volts) = (column("watts"), column("volts"));
        let ohms = self.options.shunt_ohms.filter(|ohms| ohms.is_finite() && *ohms > 0.0);
        let power = match (watts, volts, column("amperes"), column("shunt_volts"), ohms) {
            (Some(watts), ..) => Some(Power::Watts(watts)),
            (_, Some(volts), Some(amperes), ..) => Some(Power::VoltsAmperes(volts, amperes)),
            (_, Some(volts), _, Some(shunt), Some(ohms)) => {
                Some(Power::VoltsShunt { volts, shunt, ohms })
            }
            _ => None,
        };
        column("time").zip(power).map(|(time, power)| Columns { time, power }).ok_or_else(|| {
            ExternalError::Columns { path: self.path.clone(), columns: head.trim().to_string() }
        })
    }

    fn sample(&self, line: &str) -> Result<Sample, String> {
        let columns = self.columns.ok_or("the first line with the columns is missing")?;
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let number = |column: usize, name: &str| {
            let text = fields.get(column).ok_or_else(|| format!("column {name} is missing"))?;
            match text.parse::<f64>() {
                Ok(number) if number.is_finite() => Ok(number),
                _ => Err(format!("{name} is {text:?}, expected a number")),
            }
        };
        let seconds = number(columns.time, "time")?;
        let watts = match columns.power {
            Power::Watts(watts) => number(watts, "watts")?,
            Power::VoltsAmperes(volts, amperes) => {
                number(volts, "volts")? * number(amperes, "amperes")?
            }
            Power::VoltsShunt { volts, shunt, ohms } => {
                number(volts, "volts")? * number(shunt, "shunt_volts")? / ohms
            }
        };
        PLAUSIBLE.check(Watts(watts)).map_err(|rejection| rejection.to_string())?;
        if seconds.abs() > LATEST {
            return Err(format!("time is {seconds}, expected seconds, at most {LATEST}"));
        }
        Ok(Sample { seconds, watts })
    }

    /// Adds a sample, and returns the energy and the time since the previous one; none for the
    /// first.
    ///
    /// # Errors
    /// When the two times do not determine the time in between. A jump of the meter's clock begins
    /// a new series, so that later samples count again.
    fn take(&mut self, sample: Sample) -> Result<Option<(f64, f64)>, String> {
        let Some(last) = self.last else {
            self.last = Some(sample);
            return Ok(None);
        };
        let step = sample.seconds - last.seconds;
        if step.abs() > LONGEST_GAP {
            self.last = Some(sample);
            return Err(format!(
                "time {} is more than {LONGEST_GAP} s from {} of the line before; the energy in \
                 between is not known",
                sample.seconds, last.seconds
            ));
        }
        if step < SHORTEST_STEP {
            return Err(format!(
                "time {} is not after {} of the line before",
                sample.seconds, last.seconds
            ));
        }
        self.last = Some(sample);
        Ok(Some(((last.watts + sample.watts) / 2.0 * step, step)))
    }
}

/// Range of wall-plug or rack meters.
const PLAUSIBLE: Plausible = Plausible { lowest: Watts(0.0), highest: Watts(100_000.0) };
/// Largest time in seconds: thousands of years since 1970. More is another unit.
const LATEST: f64 = 1e11;
/// Longest time between two samples, in seconds. Beyond it, the power in between is unknown, or the
/// meter's clock was set.
const LONGEST_GAP: f64 = 3_600.0;
/// Shortest time between two samples, in seconds; times since 1970 are no finer in 64 bits.
const SHORTEST_STEP: f64 = 1e-6;
/// Far above any line of a meter: a longer line is from another kind of file.
const LONGEST_LINE: usize = 64 << 10;
/// `O_NONBLOCK` of Linux on every architecture that Wattline runs on.
const O_NONBLOCK: i32 = 0o4000;

impl Meter for External {
    fn description(&self) -> &Description {
        &self.description
    }

    fn mistakes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.mistakes)
    }

    fn read(&mut self, now: Time) -> Result<Reading, Rejection> {
        self.mistakes.clear();
        let lines = self.new_lines()?;
        let heard = *self.heard.get_or_insert(now);
        if lines.is_empty() {
            let silent = now.since(heard);
            let rejection = if silent >= self.options.patience {
                Rejection::Silent(silent)
            } else {
                Rejection::NothingNew
            };
            return Err(rejection);
        }
        self.heard = Some(now);
        let mut mistakes = Vec::new();
        let (mut energy, mut seconds) = (0.0, 0.0);
        for (number, line) in &lines {
            if self.columns.is_none() {
                match self.columns_of(line) {
                    Ok(columns) => self.columns = Some(columns),
                    Err(error) => mistakes.push(error.to_string()),
                }
                continue;
            }
            match self.sample(line).and_then(|sample| self.take(sample)) {
                Ok(Some((joules, step))) => {
                    energy += joules;
                    seconds += step;
                }
                Ok(None) => {}
                Err(why) => mistakes.push(format!("{}, line {number}: {why}", self.path.display())),
            }
        }
        let elapsed = Span::from_seconds(seconds);
        if elapsed == Span::ZERO {
            // Without a figure the mistakes are the only result.
            let none =
                if mistakes.is_empty() { Rejection::First } else { Rejection::BadLines(mistakes) };
            return Err(none);
        }
        // The samples next to an invalid line are as good as any.
        self.mistakes = mistakes;
        let power = PLAUSIBLE.check(Watts(energy / seconds))?;
        let provenance = self.description.provenance;
        Ok(Reading { energy: Some(Joules(energy)), elapsed, power, provenance })
    }
}

/// Row of the reference; the meter needs a configuration, so a survey does not search for it.
pub(crate) const ROW: Row = Row {
    meter: "`external:FILE`",
    files: "CSV that another program appends",
    sees: "the platform",
    class: "`--external-accuracy`",
};
