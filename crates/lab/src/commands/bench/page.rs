//! Common part of the benchmarks that take minutes; most of them write a page.

use crate::commands::overwrite::Overwrite;
use crate::commands::results;
use indicatif::ProgressBar;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wattline::exit::ExitError;
use wattline::output;
use wattline::output::Stdout;

/// Runs a measurement. What it says of its progress is shown on the terminal meanwhile.
pub(super) fn with_progress<T>(measure: impl FnOnce(&mut dyn FnMut(&str)) -> T) -> T {
    let bar = ProgressBar::new_spinner();
    bar.enable_steady_tick(Duration::from_millis(200));
    let result = measure(&mut |line| bar.set_message(line.to_owned()));
    bar.finish_and_clear();
    result
}

/// File of the page, if one is asked for.
#[derive(Debug, clap::Args)]
pub(super) struct PageArgs {
    /// Write a page with plots and the main figures too.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl PageArgs {
    /// Before the work: is the file free to be written?
    pub fn check(&self) -> Result<(), ExitError> {
        self.overwrite.check(self.page.as_deref())
    }

    /// Writes the page, and prints the report.
    pub fn write_and_print<R: Serialize>(
        &self,
        html: impl FnOnce(&R) -> String,
        report: &R,
        json: bool,
        table: impl FnOnce(&mut Stdout, &R) -> std::io::Result<()>,
    ) -> Result<(), ExitError> {
        match &self.page {
            Some(page) => {
                write_and_print((page, html(report), self.overwrite), report, json, table)
            }
            None => output::print(report, json, table),
        }
    }
}

/// Writes the page of a report, and prints the report.
pub(super) fn write_and_print<R: Serialize>(
    (page, html, overwrite): (&Path, String, Overwrite),
    report: &R,
    json: bool,
    table: impl FnOnce(&mut Stdout, &R) -> std::io::Result<()>,
) -> Result<(), ExitError> {
    let written = overwrite.write(page, &html);
    results::print_with_page((Some(page), written), report, json, table)
}
