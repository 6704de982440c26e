//! Takes half of a processor away.

use super::threads::{Level, Thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wattline_testbed::Error;

/// How long the processor is taken, and how long it is left after that. In this time fewer
/// frames come than a ring of 2048 holds.
const TURN: Duration = Duration::from_micros(500);

/// A thread that keeps one processor busy every other half millisecond; ended when dropped.
pub struct Ration {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Ration {
    /// Begins.
    pub fn of(processor: usize) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::spawn(move || {
            Thread::current().pin(processor)?;
            Thread::current().precede(Level::Observer)?;
            while !seen.load(Ordering::Relaxed) {
                let began = Instant::now();
                while began.elapsed() < TURN {
                    std::hint::spin_loop();
                }
                std::thread::sleep(TURN);
            }
            Ok(())
        });
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Ration {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it could not do shows in the figures: all of the processor was left.
            let _ = thread.join();
        }
    }
}
