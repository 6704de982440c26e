//! `wattline meter record`: readings as CSV, a line per meter and tick.

use super::{Clock, Meters};
use crate::commands::duration;
use crate::exit::ExitError;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use wattline_meters::sampling::Ticks;
use wattline_units::{Provenance, Span};

/// How long, how often and where to.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Time between readings.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    period: Span,
    /// How long; without it until a signal ends the program, each line being complete.
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    duration: Option<Span>,
    /// The file to write; must not exist. Without it, standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: &Args, meters: &Meters, json: bool) -> Result<(), ExitError> {
    let mut meters = meters.some()?;
    let mut out: Box<dyn Write> = match &args.out {
        Some(path) => Box::new(File::create_new(path).map_err(|error| {
            let code = match error.kind() {
                io::ErrorKind::PermissionDenied => ExitError::NO_PERMISSION,
                _ => ExitError::IO,
            };
            ExitError::new(code, format_args!("{}: {error}", path.display()))
        })?),
        None => Box::new(io::stdout().lock()),
    };
    writeln!(
        out,
        "time_seconds,meter,power_watts,energy_joules,elapsed_seconds,source,accuracy,rejected"
    )?;
    let clock = Clock::start();
    let mut ticks = Ticks::new(clock.now(), args.period);
    let end = args.duration.map(|duration| clock.now() + duration);
    while end.is_none_or(|end| ticks.next() <= end) {
        clock.sleep_until(ticks.next());
        ticks.taken(clock.now());
        for meter in &mut meters {
            let now = clock.now();
            let result = meter.read(now);
            let id = &meter.description().id;
            let seconds = now.as_seconds();
            match result {
                Ok(reading) => {
                    let Provenance { source, accuracy } = reading.provenance;
                    let energy = reading.energy.map_or(String::new(), |e| e.get().to_string());
                    let (power, elapsed) = (reading.power.get(), reading.elapsed.as_seconds());
                    writeln!(
                        out,
                        "{seconds:.6},{id},{power},{energy},{elapsed},{source},{accuracy},"
                    )?;
                }
                Err(why) => {
                    let Provenance { source, accuracy } = Provenance::UNAVAILABLE;
                    writeln!(out, "{seconds:.6},{id},,,,{source},{accuracy},{}", why.name())?;
                }
            }
        }
        out.flush()?;
    }
    let statistics = ticks.statistics();
    if json {
        eprintln!("{}", serde_json::json!(statistics));
    } else {
        eprintln!(
            "{} readings, {} ticks missed, every {:.6} s (deviation {:.6} s)",
            statistics.taken,
            statistics.missed,
            statistics.mean_period_seconds,
            statistics.deviation_seconds
        );
    }
    Ok(())
}
