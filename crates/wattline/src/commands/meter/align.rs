//! `wattline meter align`: finds the lag of each meter with a load in steps.

use super::clock::Clock;
use super::meters::Meters;
use crate::commands::duration;
use crate::exit::ExitError;
use crate::output::{self, note};
use rustix::process::setpriority_process;
use serde::Serialize;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use wattline_meters::Meter;
use wattline_meters::align::{Sample, is_loaded, lag};
use wattline_report::columns::{Columns, number, text};
use wattline_units::Span;

const TIMES: RangeInclusive<Span> = Span::from_millis(20_000)..=Span::from_millis(3_600_000);
/// Time between two readings.
const PERIOD: Duration = Duration::from_millis(100);
/// Time after which waiting threads look for work.
const PAUSE: Duration = Duration::from_millis(2);
const WAIT: u8 = 0;
const WORK: u8 = 1;
const END: u8 = 2;

/// Length of the load.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Length of the load, from 20s to 1h. A lag of up to a third of it is found.
    #[arg(long, value_name = "TIME", default_value = "3min", value_parser = duration::parse)]
    duration: Span,
}

/// The lag of a meter.
#[derive(Serialize)]
struct Lag {
    meter: String,
    lag_seconds: Option<f64>,
    uncertainty_seconds: Option<f64>,
    correlation: Option<f64>,
    /// Reason, if the lag was not found.
    reason: Option<String>,
}

pub fn run(args: &Args, meters: &Meters, json: bool) -> Result<(), ExitError> {
    if !TIMES.contains(&args.duration) {
        return Err(ExitError::new(ExitError::USAGE, "--duration: from 20s to 1h"));
    }
    let mut meters = meters.some()?;
    let seconds = args.duration.as_seconds();
    note!(
        "wattline: loads all CPUs in steps for {seconds} s; other load makes the lag less certain"
    );
    let (load, power) = record(&mut meters, seconds);
    let lags: Vec<Lag> = (meters.iter().zip(power))
        .map(|(meter, power)| {
            let found = lag(&load, &power, seconds / 3.0);
            let (found, reason) = match found {
                Ok(found) => (Some(found), None),
                Err(error) => (None, Some(error.to_string())),
            };
            Lag {
                meter: meter.description().id.clone(),
                lag_seconds: found.map(|found| -found.offset_seconds),
                uncertainty_seconds: found.map(|found| found.uncertainty_seconds),
                correlation: found.map(|found| found.correlation),
                reason,
            }
        })
        .collect();
    output::print(&lags, json, |out, lags| print(out, lags))?;
    if lags.iter().all(|lag| lag.lag_seconds.is_none()) {
        let message = "no lag was found, for the reasons above";
        return Err(ExitError::new(ExitError::UNAVAILABLE, message).after_result());
    }
    Ok(())
}

/// Loads the machine for `seconds`. Returns the load, and the power by each meter.
fn record(meters: &mut [Box<dyn Meter>], seconds: f64) -> (Vec<Sample>, Vec<Vec<Sample>>) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let state = AtomicU8::new(WAIT);
    let (mut load, mut power) = (Vec::new(), vec![Vec::new(); meters.len()]);
    std::thread::scope(|scope| {
        for _ in 0..cpus {
            scope.spawn(|| {
                // Other programs come first; if lowering the priority fails, they share.
                let _ = setpriority_process(None, 19);
                loop {
                    match state.load(Ordering::Relaxed) {
                        WAIT => std::thread::sleep(PAUSE),
                        WORK => std::hint::spin_loop(),
                        _ => break,
                    }
                }
            });
        }
        let clock = Clock::start();
        let now = || clock.now().as_seconds();
        while now() < seconds {
            let time = now();
            let is_on = is_loaded(time / seconds);
            state.store(if is_on { WORK } else { WAIT }, Ordering::Relaxed);
            load.push(Sample { time, value: f64::from(u8::from(is_on)) });
            for (meter, power) in meters.iter_mut().zip(&mut power) {
                let time = clock.now();
                let Ok(reading) = super::reading::reading(&mut **meter, time) else { continue };
                // A counter shows the mean since its last reading.
                let age = reading.energy.map_or(0.0, |_| reading.elapsed.as_seconds() / 2.0);
                power.push(Sample { time: time.as_seconds() - age, value: reading.power.get() });
            }
            clock.sleep_until(clock.now() + Span::from(PERIOD));
        }
        state.store(END, Ordering::Relaxed);
    });
    (load, power)
}

fn print(out: &mut impl Write, lags: &[Lag]) -> io::Result<()> {
    let mut table = Columns::new([text("meter"), number("lag (s)"), number("+- (s)"), text("")]);
    for Lag { meter, lag_seconds, uncertainty_seconds, reason, .. } in lags {
        let show = |seconds: &Option<f64>| seconds.map_or("-".into(), |it| format!("{it:.2}"));
        let reason = reason.clone().unwrap_or_default();
        table.row([meter.clone(), show(lag_seconds), show(uncertainty_seconds), reason]);
    }
    write!(out, "{table}")?;
    for Lag { meter, lag_seconds, uncertainty_seconds, .. } in lags {
        let is_remote = meter.starts_with("prometheus:") || meter.starts_with("redfish:");
        if let (true, Some(lag), Some(uncertainty)) = (is_remote, lag_seconds, uncertainty_seconds)
        {
            let milliseconds = ((lag + uncertainty) * 1e3).ceil();
            writeln!(
                out,
                "{meter}: write lag = \"{milliseconds}ms\" in /etc/wattline/meters.toml"
            )?;
        }
    }
    Ok(())
}
