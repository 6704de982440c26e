//! A source of latency: its figures, the function that updates them, and when it was last heard.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wattline_governor::latency::LatencySource;
use wattline_units::{Span, Time};

/// A source that also reports when it was last heard: a service without requests has no samples,
/// yet is not silent.
pub(super) trait Heard: Send {
    /// Reads the reports that have arrived, without waiting for more.
    fn poll(&mut self, now: Time);

    /// Returns the figures so far.
    fn figures(&self) -> &dyn LatencySource;

    /// Returns the time of the last valid report; `None` if there was none.
    fn heard(&self) -> Option<Time>;

    /// Returns the problem of the last poll, if any.
    fn problem(&self) -> Option<&str>;
}

/// Outcome of a look: true if the source gave a valid report, and its problem. `None` if nothing is
/// new.
pub(super) type Outcome = Option<(bool, Option<String>)>;

type Look<F> = Box<dyn FnMut(&mut F, Time) -> Outcome + Send>;

/// Figures, and the look that updates them.
pub(super) struct Source<F> {
    figures: F,
    look: Look<F>,
    heard: Option<Time>,
    problem: Option<String>,
}

impl<F> Source<F> {
    pub fn new(figures: F, look: impl FnMut(&mut F, Time) -> Outcome + Send + 'static) -> Self {
        Self { figures, look: Box::new(look), heard: None, problem: None }
    }
}

impl<F: LatencySource + Send> Heard for Source<F> {
    fn poll(&mut self, now: Time) {
        let Some((is_heard, problem)) = (self.look)(&mut self.figures, now) else { return };
        self.problem = problem;
        if is_heard {
            self.heard = Some(now);
        }
    }

    fn figures(&self) -> &dyn LatencySource {
        &self.figures
    }

    fn heard(&self) -> Option<Time> {
        self.heard
    }

    fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }
}

/// Latest result of a thread that looks periodically.
pub(super) struct Latest<T> {
    slot: Arc<Mutex<Option<T>>>,
    /// The thread ends when this is dropped.
    _running: Sender<()>,
}

impl<T: Send + 'static> Latest<T> {
    /// Starts looking once per `period`.
    pub fn start(
        name: &str,
        period: Span,
        mut look: impl FnMut() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let slot = Arc::new(Mutex::new(None));
        let (running, stop) = channel::<()>();
        let (own, period) = (Arc::clone(&slot), Duration::from(period));
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            loop {
                let began = Instant::now();
                let found = look();
                *own.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
                match stop.recv_timeout(period.saturating_sub(began.elapsed())) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
        })?;
        Ok(Self { slot, _running: running })
    }

    /// Returns the result, unless it has been taken.
    pub fn take(&self) -> Option<T> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
