//! A capture named in a description.

use crate::capture::{CaptureError, Reader};
use crate::source::Trace;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// A capture file. Its packets are kept once a source has been built: a study builds the same
/// source hundreds of times and must not read the file each time.
#[derive(Debug, Clone)]
pub(super) struct CaptureFile {
    path: PathBuf,
    read: Arc<OnceLock<Trace>>,
}

impl CaptureFile {
    /// Returns the path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the packets, from memory if they have been read before.
    pub(super) fn read(&self) -> Result<Trace, CaptureError> {
        if let Some(trace) = self.read.get() {
            return Ok(trace.clone());
        }
        let trace = Trace::read(&mut Reader::open(&self.path)?)?;
        Ok(self.read.get_or_init(|| trace).clone())
    }
}

impl<T: Into<PathBuf>> From<T> for CaptureFile {
    fn from(path: T) -> Self {
        Self { path: path.into(), read: Arc::default() }
    }
}

impl PartialEq for CaptureFile {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}
