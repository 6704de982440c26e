//! Answers in flight: a daemon that ends waits for them; otherwise the client that asked it to end
//! would get no answer. Captures and traces end with the daemon, and so do answers over HTTP.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longest time that an ending daemon waits for answers to be taken.
const PATIENCE: Duration = Duration::from_secs(1);

/// Counts requests that are read and not yet answered.
#[derive(Clone, Default)]
pub struct Pending(Arc<Counted>);

#[derive(Default)]
struct Counted {
    requests: Mutex<usize>,
    answered: Condvar,
}

impl Counted {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is counted until this is dropped.
pub(crate) struct InFlight<'a>(&'a Counted);

impl Pending {
    /// Counts a request that was read.
    pub(crate) fn begin(&self) -> InFlight<'_> {
        *self.0.lock() += 1;
        InFlight(&self.0)
    }

    /// Waits until all requests that were read are answered, at most a second. The caller must not
    /// take further requests.
    pub fn wait(&self) {
        let requests = self.0.lock();
        drop(self.0.answered.wait_timeout_while(requests, PATIENCE, |requests| *requests > 0));
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
        self.0.answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn shutdown_waits_for_answers_with_a_limit() {
        let pending = Pending::default();
        let begun = Instant::now();
        pending.wait();
        assert!(begun.elapsed() < PATIENCE, "there is nothing to wait for");
        let other = pending.clone();
        let thread = std::thread::spawn(move || {
            let request = other.begin();
            std::thread::sleep(Duration::from_millis(100));
            drop(request);
            other.0.lock().to_owned()
        });
        while *pending.0.lock() == 0 && !thread.is_finished() {
            std::thread::yield_now();
        }
        pending.wait();
        assert_eq!(thread.join().unwrap(), 0);
        assert!(begun.elapsed() >= Duration::from_millis(100));
        let forgotten = pending.begin();
        let begun = Instant::now();
        pending.wait();
        assert!(begun.elapsed() >= PATIENCE);
        drop(forgotten);
    }
}
