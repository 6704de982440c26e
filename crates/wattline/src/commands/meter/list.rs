//! `wattline meter list`.

use super::meters::Meters;
use crate::exit::ExitError;
use serde_json::json;
use std::io::Write;
use wattline_meters::{Description, Survey, disjoint};

pub fn run(meters: &Meters, json: bool) -> Result<(), ExitError> {
    let Survey { meters, missing } = meters.open()?;
    let all: Vec<&Description> = meters.iter().map(|meter| meter.description()).collect();
    let summed: Vec<&str> = disjoint(all.iter().copied()).iter().map(|d| d.id.as_str()).collect();
    let mut out = std::io::stdout().lock();
    if json {
        writeln!(out, "{:#}", json!({ "meters": all, "summed": summed, "missing": missing }))?;
        return Ok(());
    }
    if all.is_empty() {
        writeln!(out, "no meter: power is unavailable")?;
    } else {
        writeln!(out, "{:<34}{:<10}{:<9}{:<8}note", "meter", "sees", "class", "summed")?;
    }
    for meter in &all {
        let yes = if summed.contains(&meter.id.as_str()) { "yes" } else { "no" };
        let (scope, class) = (meter.scope.to_string(), meter.provenance.accuracy.to_string());
        writeln!(out, "{:<34}{scope:<10}{class:<9}{yes:<8}{}", meter.id, meter.note)?;
    }
    for missing in &missing {
        writeln!(
            out,
            "\nmissing: {}\n  why: {}\n  do:  {}",
            missing.what, missing.why, missing.remedy
        )?;
    }
    Ok(())
}
