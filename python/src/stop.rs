//! Ending a run early, by an error in Python or by a signal such as Ctrl-C, and its progress.

use pyo3::prelude::*;
use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wattline_traffic::capture::{CaptureError, Problem};
use wattline_traffic::{Block, Source};

/// Reason to end the runs; the first one counts.
#[derive(Clone, Default)]
pub struct Stop(Arc<Reason>);

#[derive(Default)]
struct Reason {
    is_set: AtomicBool,
    error: Mutex<Option<PyErr>>,
    /// Threads, as Python numbers them, whose policy is being asked.
    asked: Mutex<Vec<u64>>,
}

/// Longest time in which a run notices that it is to end.
const PATIENCE: Duration = Duration::from_millis(500);

impl Stop {
    /// Ends them with this error.
    pub fn set(&self, error: PyErr) {
        let mut reason = self.0.error.lock().unwrap_or_else(PoisonError::into_inner);
        reason.get_or_insert(error);
        self.0.is_set.store(true, Ordering::Release);
    }

    /// Returns true if the runs are to end.
    pub fn is_set(&self) -> bool {
        self.0.is_set.load(Ordering::Acquire)
    }

    /// Asks a policy. While it does not answer, [`Self::interrupt`] can end it.
    /// `decide` gets the thread's number in Python.
    pub fn ask<T>(&self, py: Python<'_>, decide: impl FnOnce(u64) -> PyResult<T>) -> PyResult<T> {
        thread_local! {
            static NUMBER: Cell<Option<u64>> = const { Cell::new(None) };
        }
        let number = match NUMBER.get() {
            Some(number) => number,
            None => py.import("threading")?.call_method0("get_ident")?.extract()?,
        };
        NUMBER.set(Some(number));
        let asked = || self.0.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked().push(number);
        let decided = decide(number);
        asked().retain(|it| *it != number);
        decided
    }

    /// Interrupts policies that do not return, half a second after `since`, when it was first seen
    /// that runs are to end. The reason names where they were.
    pub fn interrupt(&self, py: Python<'_>, since: &mut Option<Instant>) -> PyResult<()> {
        if !self.is_set() {
            return Ok(());
        }
        let now = Instant::now();
        if now.duration_since(*since.get_or_insert(now)) < PATIENCE {
            return Ok(());
        }
        *since = Some(now);
        // Before the list is read: while it is, no other thread may get the interpreter.
        let (interrupt, note) = {
            let module = py.import("wattline._interrupt")?;
            (module.getattr("interrupt")?, module.getattr("note")?)
        };
        let asked = self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for number in asked {
            let place = interrupt.call1((number,))?;
            let reason = self.0.error.lock().unwrap_or_else(PoisonError::into_inner);
            // Not under the lock: Python may let another thread go on, which wants it.
            let error = reason.as_ref().map(|error| error.clone_ref(py));
            drop(reason);
            if let Some(error) = error {
                note.call1((error.value(py), place))?;
            }
        }
        Ok(())
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
