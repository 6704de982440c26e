//! `wattline meter record`: readings as CSV, a line per meter and tick.

use super::clock::Clock;
use super::meters::Meters;
use crate::commands::duration;
use crate::exit::ExitError;
use crate::output::{self, note};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use wattline_meters::recording::Row;
use wattline_meters::sampling::Ticks;
use wattline_units::Span;

/// Duration, period and file of the recording.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Time between readings.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    period: Span,
    /// Duration; by default until a signal. Every line is complete.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Span>,
    /// File to write, which must not exist; standard output by default.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: &Args, meters: &Meters, json: bool) -> Result<(), ExitError> {
    let mut meters = meters.some()?;
    let out: Box<dyn Write> = match &args.out {
        Some(path) => Box::new(File::create_new(path).map_err(|error| {
            let code = match error.kind() {
                io::ErrorKind::PermissionDenied => ExitError::NO_PERMISSION,
                _ => ExitError::IO,
            };
            ExitError::new(code, format_args!("{}: {error}", path.display()))
        })?),
        None => Box::new(output::stdout()),
    };
    let mut out = csv::Writer::from_writer(out);
    let clock = Clock::start();
    let mut ticks = Ticks::new(clock.now(), args.period);
    let end = args.duration.map(|duration| clock.now() + duration);
    while end.is_none_or(|end| ticks.next() <= end) {
        clock.sleep_until(ticks.next());
        ticks.taken(clock.now());
        for meter in &mut meters {
            let now = clock.now();
            let result = super::reading::reading(&mut **meter, now);
            let row = Row::new(now, meter.description(), &result);
            out.serialize(row).map_err(io::Error::from)?;
        }
        out.flush()?;
    }
    let statistics = ticks.statistics();
    if json {
        note!("{:#}", serde_json::json!(statistics));
    } else {
        note!(
            "{} readings, {} ticks missed, every {:.6} s (deviation {:.6} s)",
            statistics.taken,
            statistics.missed,
            statistics.mean_period_seconds,
            statistics.deviation_seconds
        );
    }
    Ok(())
}
