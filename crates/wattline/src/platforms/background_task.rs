//! Work that a driver may hold up, on a thread of its own: whoever waits for it goes on after a
//! while.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Work underway.
pub(super) struct BackgroundTask<T> {
    outcome: Receiver<T>,
    wanted: Wanted,
}

/// True while a thread still waits for the work.
#[derive(Clone)]
pub(super) struct Wanted(Arc<AtomicBool>);

/// State of the work, as far as it is known.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known<T> {
    /// It is done.
    Done(T),
    /// It goes on.
    Underway,
    /// Its thread has panicked.
    Died,
}

impl Wanted {
    /// For work that is waited for, however long it takes.
    pub fn always() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    pub fn still(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl<T: Send + 'static> BackgroundTask<T> {
    /// Begins it.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(work: impl FnOnce(&Wanted) -> T + Send + 'static) -> io::Result<Self> {
        let (tell, outcome) = channel();
        let wanted = Wanted::always();
        let its = wanted.clone();
        // Nobody may be there to be told.
        let work = move || tell.send(work(&its)).unwrap_or_default();
        std::thread::Builder::new().name("governing".into()).spawn(work)?;
        Ok(Self { outcome, wanted })
    }

    /// Waits so long for it.
    pub fn within(&self, patience: Duration) -> Known<T> {
        match self.outcome.recv_timeout(patience) {
            Ok(outcome) => Known::Done(outcome),
            Err(RecvTimeoutError::Timeout) => Known::Underway,
            Err(RecvTimeoutError::Disconnected) => Known::Died,
        }
    }

    /// Tells it that what comes of it will not be used.
    pub fn give_up(&self) {
        self.wanted.0.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_task_goes_on_and_delivers_its_outcome() {
        let (answer, answers) = channel::<u32>();
        let work = move |wanted: &Wanted| (answers.recv().unwrap(), wanted.still());
        let task = BackgroundTask::start(work).unwrap();
        assert_eq!(task.within(Duration::from_millis(20)), Known::Underway);
        task.give_up();
        answer.send(7).unwrap();
        assert_eq!(task.within(Duration::from_secs(60)), Known::Done((7, false)));
    }

    #[test]
    fn work_that_panics_is_not_waited_for() {
        let task = BackgroundTask::start(|_| panic!("a test wants this")).unwrap();
        assert_eq!(task.within(Duration::from_secs(60)), Known::<()>::Died);
    }
}
