//! Writes results to files.

use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::page;
use crate::reproduction::Reproduction;
use std::fs;
use std::path::{Path, PathBuf};
use wattline_report::Table;
use wattline_report::page::basis;

/// Writes data, plots, `summary.json` and a page with all of it into the directory `out`. `again`
/// is the command that reproduces the page.
///
/// # Errors
/// Fails when a file cannot be written; new files and directories are then removed.
pub fn write(
    reproductions: &[Reproduction],
    out: &Path,
    again: &str,
) -> Result<(), ReproduceError> {
    let mut made = Made::default();
    let written = all(reproductions, out, again, &mut made);
    if written.is_err() {
        made.remove();
    }
    written
}

/// New files and directories, in order of creation.
#[derive(Default)]
struct Made(Vec<PathBuf>);

impl Made {
    /// Creates a directory and its parents.
    fn directory(&mut self, path: &Path) -> Result<(), ReproduceError> {
        // The topmost parent of a relative path is the empty path.
        let missing = |path: &&Path| !path.as_os_str().is_empty() && !path.exists();
        let above: Vec<&Path> = path.ancestors().take_while(missing).collect();
        self.0.extend(above.into_iter().rev().map(Path::to_path_buf));
        fs::create_dir_all(path).map_err(failed(path))
    }

    fn file(&mut self, path: &Path, text: impl AsRef<[u8]>) -> Result<(), ReproduceError> {
        if path.symlink_metadata().is_err() {
            self.0.push(path.to_path_buf());
        }
        wattline_files::replace(path, text.as_ref()).map_err(failed(path))
    }

    /// Removes the files and directories; errors are ignored, since the cause is already reported.
    fn remove(self) {
        for path in self.0.iter().rev() {
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
    }
}

fn all(
    reproductions: &[Reproduction],
    out: &Path,
    again: &str,
    made: &mut Made,
) -> Result<(), ReproduceError> {
    for reproduction in reproductions {
        let directory = out.join(reproduction.paper.name());
        made.directory(&directory)?;
        data(&reproduction.figures, &directory, made)?;
        csv(made, &directory.join("claims.csv"), &claims(reproduction))?;
        csv(made, &directory.join("checks.csv"), &checks(reproduction))?;
    }
    let json = serde_json::to_string_pretty(reproductions)
        .map_err(|error| ReproduceError::Model(format!("summary.json: {error}")))?;
    made.file(&out.join("summary.json"), &json)?;
    made.file(&out.join("index.html"), page::html(reproductions, again))
}

/// Writes data and plots of figures about published watts, `published-watts.json` and a page into
/// the directory `out`.
///
/// # Errors
/// As [`write`].
pub fn write_watts(figures: &[Figure], out: &Path) -> Result<(), ReproduceError> {
    let mut made = Made::default();
    let mut write = || {
        let directory = out.join(WATTS);
        made.directory(&directory)?;
        data(figures, &directory, &mut made)?;
        let json = serde_json::to_string_pretty(figures)
            .map_err(|error| ReproduceError::Model(format!("{WATTS}.json: {error}")))?;
        made.file(&out.join(format!("{WATTS}.json")), json)?;
        made.file(&out.join(format!("{WATTS}.html")), page::watts(figures, WATTS))
    };
    let written = write();
    if written.is_err() {
        made.remove();
    }
    written
}

/// Name of the page about published watts, and of its directory.
const WATTS: &str = "published-watts";

/// Writes table and plots of each figure.
fn data(figures: &[Figure], directory: &Path, made: &mut Made) -> Result<(), ReproduceError> {
    for figure in figures {
        csv(made, &directory.join(format!("{}.csv", figure.id)), &figure.table)?;
        for (index, plot) in figure.plots.iter().enumerate() {
            let letter = match figure.plots.len() {
                1 => String::new(),
                _ => char::from(b'a' + index as u8).to_string(),
            };
            made.file(&directory.join(format!("{}{letter}.svg", figure.id)), plot)?;
        }
    }
    Ok(())
}

fn claims(reproduction: &Reproduction) -> Table {
    let mut table = Table::new([
        "id",
        "where",
        "quantity",
        "published",
        "unit",
        "basis",
        "verdict",
        "ours",
        "note",
    ]);
    for report in &reproduction.claims {
        let claim = &report.claim;
        table.row([
            claim.id.clone(),
            claim.section_or_figure.clone(),
            claim.quantity.clone(),
            claim.value.clone(),
            claim.unit.clone(),
            basis(report.basis).to_owned(),
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
        "basis",
        "verdict",
        "flip",
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
                basis(check.basis).to_owned(),
                check.verdict.text().to_owned(),
                check.flip.unwrap_or_default().to_owned(),
                check.note.clone(),
            ]);
        }
    }
    table
}

fn csv(made: &mut Made, path: &Path, table: &Table) -> Result<(), ReproduceError> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(&table.columns)?;
    for row in &table.rows {
        writer.write_record(row)?;
    }
    let bytes = writer
        .into_inner()
        .map_err(|error| failed(path)(std::io::Error::other(error.to_string())))?;
    made.file(path, bytes)
}

fn failed(path: &Path) -> impl FnOnce(std::io::Error) -> ReproduceError {
    let path = path.to_path_buf();
    move |source| ReproduceError::Write { path, source }
}
