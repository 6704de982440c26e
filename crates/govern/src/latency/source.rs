//! A source of latency: its figures, what fills them, and when it was heard last.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use wattline_governor::latency::LatencySource;
use wattline_units::{Span, Time};

/// A source that also says when it was heard last: a service without requests has no samples,
/// and is yet not silent.
pub(super) trait Heard: Send {
    /// Takes in what has arrived, without waiting for more.
    fn poll(&mut self, now: Time);

    /// The figures so far.
    fn figures(&self) -> &dyn LatencySource;

    /// When it said something that made sense; `None` if it never did.
    fn heard(&self) -> Option<Time>;

    /// Returns the problem of the last poll, if any.
    fn problem(&self) -> Option<&str>;
}

/// Outcome of a look: whether the source said something that made sense, and its problem. `None` if
/// nothing is new.
pub(super) type Outcome = Option<(bool, Option<String>)>;

type Look<F> = Box<dyn FnMut(&mut F, Time) -> Outcome + Send>;

/// Figures, and the look that fills them.
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

/// Latest result of a thread that looks now and then.
pub(super) struct Latest<T> {
    slot: Arc<Mutex<Option<T>>>,
    /// The thread ends when this goes.
    _running: Sender<()>,
}

impl<T: Send + 'static> Latest<T> {
    /// Begins to look once in `period`.
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

    /// The result, unless it has been taken.
    pub fn take(&self) -> Option<T> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
