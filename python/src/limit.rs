//! Ends a decision that takes too long: a hanging policy written in Python would stop a sweep, or a
//! worker of a cluster, for ever.

use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two interruptions of a policy that catches the first.
const AGAIN: Duration = Duration::from_secs(1);

/// A watch over the decisions of one policy, by a thread of its own.
pub struct Limit {
    length: Duration,
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    watched: Mutex<Watched>,
    changed: Condvar,
    /// Held while a thread is interrupted: the exception comes before the lock is free again.
    interrupting: Mutex<()>,
}

#[derive(Default)]
struct Watched {
    /// Begin of the decision, and the thread as Python numbers it.
    decision: Option<(Instant, u64)>,
    is_interrupted: bool,
    is_over: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Limit {
    /// Watches decisions, none of which may last longer.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn new(length: Duration) -> std::io::Result<Self> {
        let state = Arc::<State>::default();
        let watched = Arc::clone(&state);
        let thread = std::thread::Builder::new()
            .name("decision-limit".into())
            .spawn(move || watched.watch(length))?;
        Ok(Self { length, state, thread: Some(thread) })
    }

    /// Asks the policy on this thread, whose number in Python is given.
    ///
    /// # Errors
    /// Errors of the policy. A decision that was interrupted fails with the result of `late`
    /// instead, which gets the line that was running, if known, and the time limit.
    pub fn ask<T>(
        &self,
        py: Python<'_>,
        number: u64,
        decide: impl FnOnce() -> PyResult<T>,
        late: impl FnOnce(Option<String>, Duration) -> PyErr,
    ) -> PyResult<T> {
        *lock(&self.state.watched) =
            Watched { decision: Some((Instant::now(), number)), ..Watched::default() };
        let decided = decide();
        let mut watched = lock(&self.state.watched);
        watched.decision = None;
        if !watched.is_interrupted {
            return decided;
        }
        drop(watched);
        // A pending exception must not come up in the code that follows. The watch may need the
        // interpreter before it is done.
        py.detach(|| drop(lock(&self.state.interrupting)));
        // Where it comes up in this very call, it is over as well.
        let _ =
            py.import("wattline._interrupt").and_then(|it| it.call_method1("forget", (number,)));
        decided.map_err(|error| {
            // Another error is the policy's own, raised at the last moment.
            if !error.is_instance_of::<PyKeyboardInterrupt>(py) {
                return error;
            }
            let late = late(place(py, &error), self.length);
            late.set_cause(py, Some(error));
            late
        })
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        lock(&self.state.watched).is_over = true;
        self.state.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // Not while the interpreter is held: the watch may want it.
            Python::attach(|py| py.detach(|| drop(thread.join())));
        }
    }
}

impl State {
    fn watch(&self, length: Duration) {
        let mut watched = lock(&self.watched);
        let mut wait = length;
        while !watched.is_over {
            let waited = self.changed.wait_timeout(watched, wait);
            watched = waited.unwrap_or_else(PoisonError::into_inner).0;
            let lasts = watched.decision.map(|(since, number)| (since.elapsed(), number));
            wait = match lasts {
                // The next look is when this decision is due; at the latest after a whole length.
                Some((lasted, _)) if lasted < length => length - lasted,
                None => length,
                Some((_, number)) => {
                    watched.is_interrupted = true;
                    let interrupting = lock(&self.interrupting);
                    drop(watched);
                    // Failures are retried.
                    let _ = Python::attach(|py| -> PyResult<()> {
                        let module = py.import("wattline._interrupt")?;
                        module.call_method1("interrupt", (number,)).map(drop)
                    });
                    drop(interrupting);
                    watched = lock(&self.watched);
                    AGAIN
                }
            };
        }
    }
}

/// Returns the place where an error was raised, as `FILE:LINE`.
fn place(py: Python<'_>, error: &PyErr) -> Option<String> {
    let mut trace = error.traceback(py)?.into_any();
    while let Ok(next) = trace.getattr("tb_next")
        && !next.is_none()
    {
        trace = next;
    }
    let file =
        trace.getattr("tb_frame").ok()?.getattr("f_code").ok()?.getattr("co_filename").ok()?;
    Some(format!("{file}:{}", trace.getattr("tb_lineno").ok()?))
}
