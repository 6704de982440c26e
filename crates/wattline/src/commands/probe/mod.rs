//! `wattline probe`: lists knobs and meters of this machine, missing ones, and ways to enable them.

mod first_hour;
mod interfaces;
mod place;
mod record;

use super::duration;
use super::meter::over;
use super::root::Root;
use crate::exit::ExitError;
use crate::output;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;
use wattline_knobs::rivals;
use wattline_meters::crosscheck::{Comparison, compare, pairs};
use wattline_meters::{Description, Meter, Missing, is_guest, survey};
use wattline_units::Span;

/// Machine to probe, and records to make.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Record the files that were read below this new directory, or in this new archive if the name
    /// ends in .tar.gz or .tgz, so that the machine can become a fixture. The record has no host
    /// name, address, serial number or identifier.
    #[arg(long, value_name = "DIR|ARCHIVE")]
    record: Option<PathBuf>,
    /// The same, plus idle power, the plan of `govern` and a trial of `none` against `balanced`,
    /// for a first report from a machine. Takes about an hour, and restores the machine.
    #[arg(long, value_name = "DIR|ARCHIVE", conflicts_with = "record")]
    first_hour: Option<PathBuf>,
    /// Length of a block of that trial.
    #[arg(long, value_name = "TIME", default_value = "3min", requires = "first_hour", value_parser = duration::parse)]
    block: Span,
    #[command(flatten)]
    root: Root,
}

/// Long enough that one register update more or less is a small part.
const INTERVAL: Span = Span::from_millis(200);

/// Checks that meters of the same domain agree; takes no time if there are none.
fn crosscheck(meters: &mut [Box<dyn Meter>]) -> Vec<Comparison> {
    let owned: Vec<Description> = meters.iter().map(|meter| meter.description().clone()).collect();
    let descriptions: Vec<&Description> = owned.iter().collect();
    if pairs(&descriptions).is_empty() {
        return Vec::new();
    }
    compare(&descriptions, &over(meters, INTERVAL))
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let mut out = output::stdout();
    if let Some(place) = &args.first_hour {
        let report = first_hour::run(place, args.block, &args.root)?;
        if json {
            output::document(&mut out, &report)?;
        } else {
            for step in &report.steps {
                let done = if step.exit_code == Some(0) { "done" } else { "not done" };
                writeln!(out, "{}: {done}, {:.0} s", step.command, step.seconds)?;
            }
            writeln!(out, "{} files in {}", report.files, place.display())?;
        }
        return report.verdict();
    }
    let tree = args.root.tree()?;
    if let Some(place) = &args.record {
        let recorded = record::record(&tree, place)?;
        if json {
            let recorded = json!({ "recorded": place.to_string_lossy(), "files": recorded.files, "unreadable": recorded.unreadable });
            output::document(&mut out, &recorded)?;
        } else {
            writeln!(out, "{} files recorded in {}", recorded.files, place.display())?;
            for line in &recorded.unreadable {
                writeln!(out, "not readable: {line}")?;
            }
        }
        return Ok(());
    }
    let interfaces = interfaces::interfaces(&tree);
    let found = wattline_knobs::probe(&tree, &interfaces);
    let mut survey = survey(&tree);
    let checks = crosscheck(&mut survey.meters);
    let rivals = rivals::find(&tree, &interfaces);
    let missing: Vec<&Missing> = found.missing.iter().chain(&survey.missing).collect();
    let meters: Vec<_> = survey.meters.iter().map(|meter| meter.description()).collect();
    let guest = is_guest(&tree);
    if json {
        let value = json!({
            "virtual_machine": guest, "knobs": found.knobs, "meters": meters,
            "missing": missing, "rivals": rivals, "checks": checks,
        });
        output::document(&mut out, &value)?;
        return Ok(());
    }
    let kind = if guest { "a virtual machine" } else { "a physical machine, or one that says so" };
    writeln!(out, "machine: {kind}\n\n{:<34}present state", "knob")?;
    for knob in &found.knobs {
        write!(out, "{:<34}{}", knob.name, knob.state)?;
        if knob.write_cost > 1 {
            write!(out, "; a write costs {}", knob.write_cost)?;
        }
        if knob.dwell_seconds > 0.0 {
            write!(out, "; stays for {:.0} us", knob.dwell_seconds * 1e6)?;
        }
        writeln!(out)?;
    }
    writeln!(out, "\n{:<34}{:<10}{:<9}note", "meter", "sees", "class")?;
    for meter in &meters {
        let (scope, class) = (meter.scope.to_string(), meter.provenance.accuracy.to_string());
        writeln!(out, "{:<34}{scope:<10}{class:<9}{}", meter.id, meter.note)?;
    }
    checks.iter().try_for_each(|check| writeln!(out, "{check}"))?;
    if meters.is_empty() {
        writeln!(out, "none: power is unavailable here, and never shown as measured")?;
    }
    for missing in missing {
        writeln!(
            out,
            "\nmissing: {}\n  why: {}\n  do:  {}",
            missing.what, missing.why, missing.remedy
        )?;
    }
    for rival in &rivals {
        writeln!(
            out,
            "\nrival: {} ({}) sets {}\n  do:  {}",
            rival.name, rival.seen, rival.sets, rival.remedy
        )?;
    }
    Ok(())
}
