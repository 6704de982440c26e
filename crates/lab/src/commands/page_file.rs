//! File of a page.

use crate::commands::overwrite::Overwrite;
use std::path::{Path, PathBuf};
use wattline::exit::ExitError;

/// File of the page, if one is wanted.
#[derive(Debug, clap::Args)]
pub struct PageFile {
    /// Write a page with plots and all figures too.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl PageFile {
    /// Whether the page could be written: whoever misspelt the folder learns it before the load.
    ///
    /// # Errors
    /// When the folder is missing, or the file is there and is not to be replaced.
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

    /// Writes the page that `html` makes, if one is wanted: where it goes, and whether it is there.
    pub fn write(&self, html: impl FnOnce() -> String) -> (Option<&Path>, Result<(), ExitError>) {
        let page = self.page.as_deref();
        (page, page.map_or(Ok(()), |path| self.overwrite.write(path, &html())))
    }
}
