//! Writes results to files.

use crate::error::ReproduceError;
use crate::page;
use crate::reproduction::Reproduction;
use std::fs;
use std::path::Path;
use wattline_report::Table;

/// Writes data, plots, `summary.json` and a page with all of it into the directory `out`.
///
/// # Errors
/// Fails when a file cannot be written.
pub fn write(reproductions: &[Reproduction], out: &Path) -> Result<(), ReproduceError> {
    for reproduction in reproductions {
        let directory = out.join(reproduction.paper.name());
        fs::create_dir_all(&directory).map_err(failed(&directory))?;
        for figure in &reproduction.figures {
            csv(&directory.join(format!("{}.csv", figure.id)), &figure.table)?;
            for (index, plot) in figure.plots.iter().enumerate() {
                let letter = match figure.plots.len() {
                    1 => String::new(),
                    _ => char::from(b'a' + index as u8).to_string(),
                };
                text(&directory.join(format!("{}{letter}.svg", figure.id)), plot)?;
            }
        }
        csv(&directory.join("claims.csv"), &claims(reproduction))?;
        csv(&directory.join("checks.csv"), &checks(reproduction))?;
    }
    let json = serde_json::to_string_pretty(reproductions)
        .map_err(|error| ReproduceError::Model(format!("summary.json: {error}")))?;
    text(&out.join("summary.json"), &json)?;
    text(&out.join("index.html"), &page::html(reproductions))
}

fn claims(reproduction: &Reproduction) -> Table {
    let mut table =
        Table::new(["id", "where", "quantity", "published", "unit", "verdict", "ours", "note"]);
    for report in &reproduction.claims {
        let claim = &report.claim;
        table.row([
            claim.id.clone(),
            claim.section_or_figure.clone(),
            claim.quantity.clone(),
            claim.value.clone(),
            claim.unit.clone(),
            report.verdict.text().to_owned(),
            report.ours.clone(),
            report.note.clone(),
        ]);
    }
    table
}

fn checks(reproduction: &Reproduction) -> Table {
    let mut table = Table::new([
        "figure",
        "claims",
        "quantity",
        "ours",
        "published",
        "tolerance",
        "verdict",
        "note",
    ]);
    for figure in &reproduction.figures {
        for check in &figure.checks {
            table.row([
                figure.id.to_owned(),
                check.claims.join(" "),
                check.quantity.clone(),
                check.ours.clone(),
                check.published.clone(),
                check.tolerance.clone(),
                check.verdict.text().to_owned(),
                check.note.clone(),
            ]);
        }
    }
    table
}

fn csv(path: &Path, table: &Table) -> Result<(), ReproduceError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&table.columns)?;
    for row in &table.rows {
        writer.write_record(row)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| failed(path)(std::io::Error::other(error.to_string())))?;
    fs::write(path, bytes).map_err(failed(path))
}

fn text(path: &Path, text: &str) -> Result<(), ReproduceError> {
    fs::write(path, text).map_err(failed(path))
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> ReproduceError {
    let path = path.to_path_buf();
    move |source| ReproduceError::Write { path, source }
}
