//! `wattline meter read`.

use super::clock::Clock;
use super::meters::Meters;
use crate::commands::duration;
use crate::exit::ExitError;
use crate::output;
use serde_json::json;
use std::io::{self, Write};
use wattline_meters::crosscheck::{Comparison, compare};
use wattline_meters::{Description, Meter, Reading, Rejection, disjoint};
use wattline_report::columns::{Columns, number, text};
use wattline_units::{Provenance, Span, Watts};

/// Interval, and the meters to read.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Interval over which counters are read.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration::parse)]
    interval: Span,
}

pub fn run(args: &Args, meters: &Meters, json: bool) -> Result<(), ExitError> {
    let mut meters = meters.some()?;
    let results = over(&mut meters, args.interval);
    let descriptions: Vec<&Description> = meters.iter().map(|meter| meter.description()).collect();
    let total = total(&descriptions, &results);
    let checks = compare(&descriptions, &results);
    if json {
        print_json(&descriptions, &results, total.as_ref(), &checks)?;
    } else {
        print_table(&descriptions, &results, total.as_ref())?;
        let mut out = output::stdout();
        checks.iter().try_for_each(|check| writeln!(out, "{check}"))?;
    }
    if results.iter().all(Result::is_err) {
        let message = "power is unavailable: every meter was rejected, for the reasons above";
        return Err(ExitError::new(ExitError::UNAVAILABLE, message).after_result());
    }
    Ok(())
}

/// Reads all meters over an interval that begins now.
pub fn over(meters: &mut [Box<dyn Meter>], interval: Span) -> Vec<Result<Reading, Rejection>> {
    let clock = Clock::start();
    let read = |meter: &mut Box<dyn Meter>| super::reading::reading(&mut **meter, clock.now());
    let first: Vec<_> = meters.iter_mut().map(read).collect();
    clock.sleep_until(clock.now() + interval);
    let both = meters.iter_mut().zip(first);
    both.map(|(meter, first)| match read(meter) {
        // An instrument that sends rarely: its previous reading is the latest.
        Err(Rejection::NothingNew) if first.is_ok() => first,
        result => result,
    })
    .collect()
}

/// The sum, the meters it consists of, and its provenance.
type Total = (Watts, Vec<String>, Provenance);

fn print_json(
    meters: &[&Description],
    results: &[Result<Reading, Rejection>],
    total: Option<&Total>,
    checks: &[Comparison],
) -> io::Result<()> {
    let lines: Vec<_> =
        meters.iter().zip(results).map(|(meter, result)| line_json(meter, result)).collect();
    let (power, from, provenance) = match total {
        Some((watts, from, provenance)) => (Some(watts.get()), from.as_slice(), *provenance),
        None => (None, &[][..], Provenance::UNAVAILABLE),
    };
    let total = json!({
        "power_watts": power, "of": from,
        "source": provenance.source, "accuracy": provenance.accuracy,
    });
    let value = json!({ "meters": lines, "total": total, "checks": checks });
    output::document(&mut output::stdout(), &value)
}

fn print_table(
    meters: &[&Description],
    results: &[Result<Reading, Rejection>],
    total: Option<&Total>,
) -> io::Result<()> {
    let mut out = output::stdout();
    let mut table =
        Columns::new([text("meter"), number("power (W)"), number("energy (J)"), text("source")]);
    let mut row = |name: &str, watts: &str, joules: &str, source: String| {
        table.row([name.to_owned(), watts.to_owned(), joules.to_owned(), source]);
    };
    for (meter, result) in meters.iter().zip(results) {
        match result {
            Ok(reading) => {
                let energy = reading.energy.map_or("-".into(), |e| format!("{:.3}", e.get()));
                let Provenance { source, accuracy } = reading.provenance;
                let watts = format!("{:.3}", reading.power.get());
                row(&meter.id, &watts, &energy, format!("{source}, {accuracy}"));
            }
            Err(why) => row(&meter.id, "unavailable", "-", why.to_string()),
        }
    }
    match total {
        None => row("total", "unavailable", "-", String::new()),
        Some((watts, from, Provenance { source, accuracy })) => {
            let source = format!("{source}, {accuracy}: {}", from.join(" + "));
            row("total", &format!("{:.3}", watts.get()), "-", source);
        }
    }
    write!(out, "{table}")
}

/// Sums meters that do not overlap; `None` if one of them has no figure, since a part is not the
/// whole. The sum is as accurate as the least accurate of them.
fn total(meters: &[&Description], results: &[Result<Reading, Rejection>]) -> Option<Total> {
    // A meter without a figure must not hide the meters that it would contain.
    let valid = || meters.iter().zip(results).filter(|(_, it)| it.is_ok()).map(|(meter, _)| *meter);
    let chosen = disjoint(valid());
    let rejected =
        meters.iter().zip(results).filter(|(_, it)| it.is_err()).map(|(meter, _)| *meter);
    // The sum is incomplete if a rejected meter would have been added to the valid ones.
    if rejected.into_iter().any(|one| disjoint(valid().chain([one])).len() > chosen.len()) {
        return None;
    }
    let mut sum = Watts::ZERO;
    let mut worst: Option<Provenance> = None;
    for (meter, result) in meters.iter().zip(results) {
        if !chosen.iter().any(|one| one.id == meter.id) {
            continue;
        }
        let reading = result.as_ref().ok()?;
        sum += reading.power;
        worst = match worst {
            Some(so_far) if so_far.accuracy >= reading.provenance.accuracy => Some(so_far),
            _ => Some(reading.provenance),
        };
    }
    Some((sum, chosen.iter().map(|one| one.id.clone()).collect(), worst?))
}

fn line_json(meter: &Description, result: &Result<Reading, Rejection>) -> serde_json::Value {
    match result {
        Ok(reading) => json!({
            "meter": meter.id,
            "power_watts": reading.power,
            "energy_joules": reading.energy,
            "elapsed_seconds": reading.elapsed.as_seconds(),
            "source": reading.provenance.source,
            "accuracy": reading.provenance.accuracy,
        }),
        Err(why) => json!({
            "meter": meter.id,
            "power_watts": null,
            "source": Provenance::UNAVAILABLE.source,
            "accuracy": Provenance::UNAVAILABLE.accuracy,
            "rejected": why.name(),
            "reason": why.to_string(),
        }),
    }
}
