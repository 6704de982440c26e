//! `wattline meter list`.

use super::meters::Meters;
use crate::exit::ExitError;
use crate::output;
use serde_json::json;
use std::io::Write;
use wattline_meters::{Description, Survey, disjoint};
use wattline_report::columns::{Columns, text};

pub fn run(meters: &Meters, json: bool) -> Result<(), ExitError> {
    let Survey { meters, missing } = meters.open()?;
    let all: Vec<&Description> = meters.iter().map(|meter| meter.description()).collect();
    let summed: Vec<&str> = disjoint(all.iter().copied()).iter().map(|d| d.id.as_str()).collect();
    let mut out = output::stdout();
    if json {
        let listed = json!({ "meters": all, "summed": summed, "missing": missing });
        output::document(&mut out, &listed)?;
        return Ok(());
    }
    if all.is_empty() {
        writeln!(out, "no meter: power is unavailable")?;
    } else {
        let heads = [text("meter"), text("sees"), text("class"), text("summed"), text("note")];
        let mut table = Columns::new(heads);
        for meter in &all {
            let yes = if summed.contains(&meter.id.as_str()) { "yes" } else { "no" };
            let (scope, class) = (meter.scope.to_string(), meter.provenance.accuracy.to_string());
            table.row([meter.id.clone(), scope, class, yes.to_owned(), meter.note.clone()]);
        }
        write!(out, "{table}")?;
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
