//! The router's workers, as the governor of this machine observes and commands them.

use crate::kernel_stack::polls::Polls;
pub use crate::kernel_stack::polls::Streak;
use std::thread::Thread;
use wattline_policy::{QueueView, Streaks, Wait, Waits};
use wattline_units::{Span, Time};

/// Work of a worker since it began; no figure ever decreases.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Time of iterations that found packets.
    pub useful: Span,
    /// Time of iterations that found none.
    pub empty: Span,
    /// Number of times that it blocked.
    pub sleeps: u64,
    /// Packets taken.
    pub packets: u64,
}

/// The workers of the running router. Observations come from their own rings and counters, never
/// from a driver's statistics.
pub trait Workers: Send {
    /// Called before each observation, to gather counters first.
    fn look(&mut self, _now: Time) {}

    /// Returns the work of a worker.
    fn work(&mut self, worker: usize) -> Work;

    /// Returns the queues of a port that a worker serves, as one; the fill is the one that the
    /// worker found at its last batch.
    fn queue(&mut self, worker: usize, port: usize) -> QueueView;

    /// Makes a parked worker ready to serve its queues.
    fn wake(&mut self, worker: usize);

    /// Lets a worker block whenever its queues are empty; arriving packets are still served.
    fn park(&mut self, worker: usize);

    /// Returns the available wait modes, if the workers see every packet.
    fn waits(&self) -> Waits {
        Waits { poll: true, pause: false, sleep: false, interrupt: true }
    }

    /// Returns the most packets that they take from a queue at once; `None` if there is no limit.
    fn batch_max(&self) -> Option<u32> {
        None
    }

    /// Returns true if they count the bytes of arriving packets.
    fn count_bytes(&self) -> bool {
        false
    }

    /// Returns the kernel's polls if the kernel or XDP programs take packets: the polls then answer
    /// all the following calls, unless the workers do.
    fn polls(&mut self) -> Option<&mut Polls> {
        None
    }

    /// Returns true if they count streaks at the batches that they take.
    fn count_streaks(&mut self) -> bool {
        self.polls().is_some_and(|polls| polls.are_counted())
    }

    /// Returns the reason if they observe less than they could.
    fn missing(&mut self) -> Option<String> {
        self.polls()?.missing()
    }

    /// Treats the backlogs of the CPUs as the queues of these interfaces, which RPS spreads.
    fn steer(&mut self, interfaces: Vec<String>) {
        if let Some(polls) = self.polls() {
            polls.steer(interfaces);
        }
    }

    /// Makes a worker count streaks from now on; `None` stops it.
    fn watch(&mut self, worker: usize, streaks: Option<Streaks>) {
        if let Some(polls) = self.polls() {
            polls.watch(worker, streaks);
        }
    }

    /// Makes the end of a streak wake this thread, which parks.
    fn wake_at_streaks(&mut self, thread: &Thread) {
        if let Some(polls) = self.polls() {
            polls.wake(thread);
        }
    }

    /// Returns a worker's unanswered streak. Until [`Self::answer`] the worker counts nothing.
    fn streak(&mut self, now: Time, worker: usize) -> Option<Streak> {
        self.polls()?.observed()?.streak(now, worker)
    }

    /// Answers a worker's streak: the policy's decision has been carried out.
    fn answer(&mut self, worker: usize) {
        if let Some(observed) = self.polls().and_then(Polls::observed) {
            observed.answer(worker);
        }
    }

    /// Returns the time since a worker's estimator had a sample.
    fn silent_for(&mut self, worker: usize) -> Span {
        let observed = self.polls().and_then(Polls::observed);
        observed.map_or(Span::ZERO, |observed| observed.silent_for(worker))
    }

    /// Sets how a worker waits.
    ///
    /// # Errors
    /// A text, for an unavailable wait mode.
    fn set_wait(&mut self, worker: usize, wait: Wait) -> Result<(), String>;

    /// Sets the number of packets taken from a queue at once.
    fn set_batch(&mut self, packets: u32);
}

/// No workers, for a plan: accepts every command and does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoWorkers;

impl Workers for NoWorkers {
    fn work(&mut self, _worker: usize) -> Work {
        Work::default()
    }
    fn queue(&mut self, _worker: usize, _port: usize) -> QueueView {
        QueueView::default()
    }
    fn wake(&mut self, _worker: usize) {}
    fn park(&mut self, _worker: usize) {}
    fn set_wait(&mut self, _worker: usize, _wait: Wait) -> Result<(), String> {
        Ok(())
    }
    fn set_batch(&mut self, _packets: u32) {}
}
