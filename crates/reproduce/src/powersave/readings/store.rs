//! Figures that were simulated before: a line of JSON each, so that an interrupted search goes on.

use super::{Figures, Look, Reading};
use crate::error::ReproduceError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Line {
    reading: Reading,
    look: Look,
    seed: u64,
    figures: Figures,
}

/// A file of figures by reading, look and seed.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: Mutex<File>,
    known: BTreeMap<(Reading, Look, u64), Figures>,
}

impl Store {
    /// Opens the file, or makes it. What an interruption left half written is cut off.
    ///
    /// # Errors
    /// When it cannot be read or written, or a whole line of it has no figures.
    pub fn open(path: &Path) -> Result<Self, ReproduceError> {
        let failed = |source| ReproduceError::Write { path: path.to_owned(), source };
        let text = match wattline_files::read_text(path, wattline_files::MOST_TEXT) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed(error));
            }
            read => read.unwrap_or_default(),
        };
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut known = BTreeMap::new();
        for (number, line) in text[..whole].lines().enumerate() {
            let line: Line = serde_json::from_str(line).map_err(|error| {
                let at = format!("{}, line {}", path.display(), number + 1);
                ReproduceError::Model(format!("{at}: {error}; delete the file to search anew"))
            })?;
            known.insert((line.reading, line.look, line.seed), line.figures);
        }
        let file = File::options().create(true).append(true).open(path).map_err(failed)?;
        file.set_len(whole as u64).map_err(failed)?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file), known })
    }

    /// Figures that the file had when it was opened.
    pub fn get(&self, reading: &Reading, look: Look, seed: u64) -> Option<&Figures> {
        self.known.get(&(reading.clone(), look, seed))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(
        &self,
        reading: &Reading,
        look: Look,
        seed: u64,
        figures: &Figures,
    ) -> Result<(), ReproduceError> {
        let line = Line { reading: reading.clone(), look, seed, figures: figures.clone() };
        let mut text = serde_json::to_string(&line)
            .map_err(|error| ReproduceError::Model(error.to_string()))?;
        text.push('\n');
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let failed = |source| ReproduceError::Write { path: self.path.clone(), source };
        file.write_all(text.as_bytes()).map_err(failed)
    }
}
