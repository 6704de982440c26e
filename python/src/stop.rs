//! Ending a run early, by an error in Python or by a signal such as Ctrl-C, and its progress.

use pyo3::prelude::*;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wattline_traffic::capture::{CaptureError, Problem};
use wattline_traffic::{Block, Source};

/// Why runs are to end; the first reason counts.
#[derive(Clone, Default)]
pub struct Stop(Arc<Reason>);

#[derive(Default)]
struct Reason {
    is_set: AtomicBool,
    error: Mutex<Option<PyErr>>,
}

impl Stop {
    /// Ends them with this error.
    pub fn set(&self, error: PyErr) {
        let mut reason = self.0.error.lock().unwrap_or_else(PoisonError::into_inner);
        reason.get_or_insert(error);
        self.0.is_set.store(true, Ordering::Release);
    }

    /// Whether they are to end.
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// The reason, once.
    pub fn take(&self) -> Option<PyErr> {
        self.0.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Time between two looks for signals: short for a person, long for a simulation.
const LOOK: Duration = Duration::from_millis(50);

/// Packets that end when a run is to stop. While it lasts, signals are looked for and progress is
/// shown.
pub struct Watched {
    source: Box<dyn Source>,
    stop: Stop,
    /// Called with the share of the run that is done, and the length of the run in picoseconds.
    progress: Option<(Py<PyAny>, u64)>,
    looked: Instant,
}

impl Watched {
    /// Those packets.
    pub fn new(source: Box<dyn Source>, stop: Stop, progress: Option<(Py<PyAny>, u64)>) -> Self {
        Self { source, stop, progress, looked: Instant::now() }
    }

    fn look(&mut self, now: u64) {
        self.looked = Instant::now();
        Python::attach(|py| {
            let shown = py.check_signals().and_then(|()| match &self.progress {
                Some((show, end)) => {
                    let share = (now as f64 / (*end).max(1) as f64).min(1.0);
                    show.call1(py, (share,)).map(|_| ())
                }
                None => Ok(()),
            });
            if let Err(error) = shown {
                self.stop.set(error);
            }
        });
    }
}

impl Source for Watched {
    fn next_block(&mut self, out: &mut Block) -> Result<(), CaptureError> {
        if self.looked.elapsed() >= LOOK {
            self.look(out.last().map_or(0, |packet| packet.picos));
        }
        if self.stop.is_set() {
            return Err(CaptureError {
                file: PathBuf::new(),
                offset: 0,
                packet: 0,
                problem: Problem::Io(io::ErrorKind::Interrupted.into()),
            });
        }
        self.source.next_block(out)
    }
}
