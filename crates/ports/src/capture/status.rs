//! Errors of a capture while a worker uses it.

use std::sync::{Arc, Mutex, PoisonError};
use wattline_traffic::capture::CaptureError;

/// A handle on the errors of a capture port: the worker notes them, others take them.
///
/// Reading and writing each end at their first error, so there are at most two. The lock is taken
/// only for an error, never for a packet.
#[derive(Debug, Clone, Default)]
pub struct CaptureStatus(Arc<Mutex<Vec<CaptureError>>>);

impl CaptureStatus {
    /// Takes the errors so far; all are known once the queue has been dropped.
    pub fn take_errors(&self) -> Vec<CaptureError> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn note(&self, error: CaptureError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(error);
    }
}
