//! The router's workers, as the governor of this machine watches and commands them.

use crate::kernel_stack::polls::Polls;
pub use crate::kernel_stack::polls::Streak;
use std::thread::Thread;
use wattline_policy::{QueueView, Streaks, Wait, Waits};
use wattline_units::{Span, Time};

/// Work of a worker since it began; no figure ever goes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Time in iterations that found packets.
    pub useful: Span,
    /// Time in iterations that found none.
    pub empty: Span,
    /// Times that it blocked.
    pub sleeps: u64,
    /// Packets that it took.
    pub packets: u64,
}

/// The workers of the running router. What is observed comes from their own rings and
/// counters, never from a driver's statistics.
pub trait Workers: Send {
    /// The machine is about to be looked at: for whoever has to gather counters first.
    fn look(&mut self, _now: Time) {}

    /// Returns the work of a worker.
    fn work(&mut self, worker: usize) -> Work;

    /// The queues of a port that a worker serves, as one; its fill is what the worker found at
    /// its last batch.
    fn queue(&mut self, worker: usize, port: usize) -> QueueView;

    /// Makes a parked worker ready to serve its queues.
    fn wake(&mut self, worker: usize);

    /// Lets a worker block whenever nothing is there; what arrives is served all the same.
    fn park(&mut self, worker: usize);

    /// The ways in which they can wait, where they see every packet.
    fn waits(&self) -> Waits {
        Waits { poll: true, pause: false, sleep: false, interrupt: true }
    }

    /// The most packets that they take from a queue at once; `None` if there is no limit.
    fn batch_max(&self) -> Option<u32> {
        None
    }

    /// Whether they count the bytes of what arrives.
    fn count_bytes(&self) -> bool {
        false
    }

    /// Returns the kernel's polls, if the kernel or XDP programs take packets: they answer for all that
    /// follows, unless the workers do.
    fn polls(&mut self) -> Option<&mut Polls> {
        None
    }

    /// Whether they count streaks of batches where they take them.
    fn count_streaks(&mut self) -> bool {
        self.polls().is_some_and(|polls| polls.are_counted())
    }

    /// Returns the reason if they see less than they could.
    fn missing(&mut self) -> Option<String> {
        self.polls()?.missing()
    }

    /// RPS spreads the packets of these interfaces: the backlogs of the CPUs are their queues.
    fn steer(&mut self, interfaces: Vec<String>) {
        if let Some(polls) = self.polls() {
            polls.steer(interfaces);
        }
    }

    /// Has a worker count streaks from now on; `None` for none.
    fn watch(&mut self, worker: usize, streaks: Option<Streaks>) {
        if let Some(polls) = self.polls() {
            polls.watch(worker, streaks);
        }
    }

    /// Has the end of a streak wake this thread, which parks.
    fn wake_at_streaks(&mut self, thread: &Thread) {
        if let Some(polls) = self.polls() {
            polls.wake(thread);
        }
    }

    /// Returns the streak of a worker that is not answered yet. Until [`Self::answer`] the worker
    /// counts nothing.
    fn streak(&mut self, now: Time, worker: usize) -> Option<Streak> {
        self.polls()?.observed()?.streak(now, worker)
    }

    /// Answers a worker's streak: what the policy wanted is done.
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
    /// In words, for a way in which it cannot wait.
    fn set_wait(&mut self, worker: usize, wait: Wait) -> Result<(), String>;

    /// Sets how many packets are taken from a queue at once.
    fn set_batch(&mut self, packets: u32);
}

/// No workers, for a plan: every command is accepted and nothing happens.
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
