//! Takes half of the time of one processor.

use super::threads::{Level, Thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wattline_testbed::Error;

/// Time for which the processor is taken, and then left free. During this time, fewer frames arrive
/// than a ring of 2048 holds.
const TURN: Duration = Duration::from_micros(500);

/// A thread that keeps one processor busy every other half millisecond; stopped when dropped.
pub struct DutyCycle {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl DutyCycle {
    /// Starts the thread on this processor.
    pub fn start(processor: usize) -> Result<Self, Error> {
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

impl Drop for DutyCycle {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A failure of the thread shows in the figures: the whole processor stayed free.
            let _ = thread.join();
        }
    }
}
