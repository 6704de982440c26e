//! File of a page.

use crate::commands::overwrite::Overwrite;
use crate::commands::results;
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use wattline::exit::ExitError;
use wattline_report::FigurePage;

/// File of the page, if requested.
#[derive(Debug, clap::Args)]
pub struct PageFile {
    /// Write a page with plots and all figures too.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl PageFile {
    /// Checks that the page can be written, so that a misspelt folder is reported before the load.
    ///
    /// # Errors
    /// Fails when the folder is missing, or when the file exists and must not be replaced.
    pub fn check(&self) -> Result<(), ExitError> {
        let page = self.page.as_deref();
        let folder = page.and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
        match folder.filter(|folder| !folder.is_dir()) {
            None => self.overwrite.check(page),
            Some(folder) => {
                let why = format!("--page: there is no folder {}; make it first", folder.display());
                Err(ExitError::new(ExitError::IO, why))
            }
        }
    }

    /// Writes the page of a report if requested, and prints the report as JSON or as the page's
    /// text for a terminal.
    pub fn show<R: Serialize>(
        &self,
        page: FigurePage,
        report: &R,
        json: bool,
    ) -> Result<(), ExitError> {
        show((self.page.as_deref(), self.overwrite), page, report, json)
    }
}

/// Writes the page of a report into a file if there is one, and prints the report in the same way.
pub(crate) fn show<R: Serialize>(
    (path, overwrite): (Option<&Path>, Overwrite),
    page: FigurePage,
    report: &R,
    json: bool,
) -> Result<(), ExitError> {
    let text = page.plain().to_owned();
    let written = path.map_or(Ok(()), |path| overwrite.write(path, &page.end()));
    let path = path.filter(|_| written.is_ok());
    results::print_then_fail(written, report, json, |out, _| {
        out.write_all(text.as_bytes())?;
        path.map_or(Ok(()), |path| writeln!(out, "page: {}", path.display()))
    })
}
