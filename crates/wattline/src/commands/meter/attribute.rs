//! `wattline meter attribute`: attributes a loaded machine's watts by subtraction.

use super::clock::Clock;
use super::meters::Meters;
use crate::commands::duration;
use crate::exit::ExitError;
use crate::output::{self, note};
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use wattline_meters::Meter;
use wattline_meters::attribution::CoreTime;
use wattline_meters::phases::{Phases, PhasesError, Report, report};
use wattline_meters::recording::{self, Row};
use wattline_meters::sampling::Ticks;
use wattline_report::columns::{Columns, number, text};
use wattline_units::Span;

/// Minimum number of readings per phase, when it is measured now.
const READINGS: u64 = 20;
/// Sensors have a new value about once a second; counters gain nothing from more.
const LONGEST_PERIOD: Span = Span::from_millis(1000);

/// Recordings of the phases, by `wattline meter record`, or the time to measure each now.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Recorded with the router stopped and the cards' links down.
    #[arg(long, value_name = "FILE", required_unless_present = "live")]
    idle: Option<PathBuf>,
    /// Recorded with the cards up and the router waiting, without traffic.
    #[arg(long, value_name = "FILE", required_unless_present = "live")]
    idle_plus: Option<PathBuf>,
    /// Recorded with all workers polling, without traffic: separates useful work from polling.
    #[arg(long, value_name = "FILE")]
    polling: Option<PathBuf>,
    /// Recorded under traffic.
    #[arg(long, value_name = "FILE", required_unless_present = "live")]
    loaded: Option<PathBuf>,
    /// Measure now: each phase for this long, started by a line on standard input.
    #[arg(long, value_name = "TIME", value_parser = duration::parse,
          conflicts_with_all = ["idle", "idle_plus", "polling", "loaded"])]
    live: Option<Span>,
    /// With --live: measure polling, too.
    #[arg(long, requires = "live")]
    with_polling: bool,
    /// Under traffic, share of the workers' time with packets, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    useful_share: f64,
    /// Under traffic, share of the workers' time in empty polls, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    empty_share: f64,
}

/// The rows of each phase.
struct Recorded {
    idle: Vec<Row>,
    idle_plus: Vec<Row>,
    polling: Option<Vec<Row>>,
    loaded: Vec<Row>,
}

pub fn run(args: &Args, meters: &Meters, json: bool) -> Result<(), ExitError> {
    let rows = match args.live {
        Some(time) => measure(meters, time, args.with_polling)?,
        None => load(args)?,
    };
    let cores = CoreTime { useful_share: args.useful_share, empty_share: args.empty_share };
    let Recorded { idle, idle_plus, polling, loaded } = &rows;
    let polling = polling.as_deref();
    let report = report(&Phases { idle, idle_plus, polling, loaded, cores }).map_err(refused)?;
    output::print(&report, json, print)
}

fn refused(error: PhasesError) -> ExitError {
    let code = match error {
        PhasesError::NoPlatform(_) => ExitError::UNAVAILABLE,
        _ => ExitError::DATA,
    };
    ExitError::new(code, error)
}

fn print(out: &mut impl Write, report: &Report) -> io::Result<()> {
    let mut table =
        Columns::new([text("part of the loaded machine"), number("mean (W)"), number("u (W)")]);
    let parts = report.parts.iter().map(|part| (part.part, part.power));
    for (part, power) in parts.chain([("whole", report.whole)]) {
        let (mean, uncertainty) = (power.mean.get(), power.uncertainty.get());
        table.row([part.to_string(), format!("{mean:.3}"), format!("{uncertainty:.3}")]);
    }
    write!(out, "{table}")?;
    let meters: Vec<String> =
        report.meters.iter().map(|(meter, class)| format!("{meter} ({class})")).collect();
    let Report { source, accuracy, readings, .. } = report;
    writeln!(out, "\n{source}, {accuracy}, by {}; {readings} readings or more", meters.join(", "))?;
    writeln!(out, "u: standard uncertainty; the truth is within 2 u in 19 of 20 cases")?;
    report.notes.iter().try_for_each(|note| writeln!(out, "{note}"))
}

/// Reads all recordings, or returns the problems of all of them.
fn load(args: &Args) -> Result<Recorded, ExitError> {
    let mut wrong: Vec<(u8, String)> = Vec::new();
    let mut load = |path: &Option<PathBuf>| match path.as_deref().map(rows) {
        Some(Ok(rows)) => Some(rows),
        Some(Err(problem)) => {
            wrong.push(problem);
            None
        }
        None => None,
    };
    let (idle, idle_plus) = (load(&args.idle), load(&args.idle_plus));
    let (polling, loaded) = (load(&args.polling), load(&args.loaded));
    if let Some((code, _)) = wrong.first() {
        let lines: Vec<&str> = wrong.iter().map(|(_, line)| line.as_str()).collect();
        return Err(ExitError::new(*code, lines.join("\n")));
    }
    let there = Option::unwrap_or_default;
    Ok(Recorded { idle: there(idle), idle_plus: there(idle_plus), polling, loaded: there(loaded) })
}

fn rows(path: &Path) -> Result<Vec<Row>, (u8, String)> {
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let bytes = wattline_files::read(path, wattline_files::MOST_TEXT).map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::PermissionDenied => ExitError::NO_PERMISSION,
            _ => ExitError::NO_INPUT,
        };
        (code, at(&error))
    })?;
    recording::read(&bytes[..]).map_err(|error| (ExitError::DATA, at(&error)))
}

/// Measures the phases one after the other.
fn measure(meters: &Meters, time: Span, with_polling: bool) -> Result<Recorded, ExitError> {
    let mut meters = meters.some()?;
    let clock = Clock::start();
    let mut phase = |what: &str| {
        note!("{what}; then press Enter, and leave it so for {} s", time.as_seconds());
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            let message = "standard input ended before all phases were measured";
            return Err(ExitError::new(ExitError::USAGE, message));
        }
        Ok(sample(&mut meters, &clock, time))
    };
    Ok(Recorded {
        idle: phase("Idle: stop the router and set the cards' links down")?,
        idle_plus: phase("Idle+: set the links up and start the router, without traffic")?,
        polling: with_polling
            .then(|| phase("Polling: [router] mode = \"poll\", without traffic"))
            .transpose()?,
        loaded: phase("Loaded: let the traffic flow")?,
    })
}

fn sample(meters: &mut [Box<dyn Meter>], clock: &Clock, time: Span) -> Vec<Row> {
    let period = Span::from_picos(time.as_picos() / READINGS).min(LONGEST_PERIOD);
    let mut ticks = Ticks::new(clock.now(), period);
    let end = clock.now() + time;
    let mut rows = Vec::new();
    while ticks.next() <= end {
        clock.sleep_until(ticks.next());
        ticks.taken(clock.now());
        for meter in meters.iter_mut() {
            let now = clock.now();
            let result = super::reading::reading(&mut **meter, now);
            rows.push(Row::new(now, meter.description(), &result));
        }
    }
    // The first reading of a counter covers time before this phase.
    let first = rows.len().min(meters.len());
    rows.drain(..first);
    rows
}
