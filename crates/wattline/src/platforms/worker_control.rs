//! Controls the workers and reads their counters, for a governor's thread.

use quanta::Clock;
use std::thread::Thread;
use wattline_dataplane::frame::BATCH_MAX;
use wattline_dataplane::worker::{Command, Mode};
use wattline_host::{Streak, Work, Workers};
use wattline_policy::{QueueView, Streaks, Wait, Waits};
use wattline_router::platform::WorkerHandle;
use wattline_units::{Span, Time};

/// The control handles of all workers.
pub(super) struct WorkerControl {
    workers: Vec<WorkerHandle>,
    /// Turns cycles of the time-stamp counter into time.
    clock: Clock,
}

impl WorkerControl {
    pub fn new(workers: Vec<WorkerHandle>) -> Self {
        Self { workers, clock: Clock::new() }
    }

    fn command(&self, worker: usize, command: Command) {
        if let Some(WorkerHandle { control, waker, .. }) = self.workers.get(worker) {
            // Must not override a request to stop the router.
            if matches!(control.current_command(), Command::Run | Command::Park) {
                control.command(command);
                waker.wake();
            }
        }
    }
}

impl Drop for WorkerControl {
    fn drop(&mut self) {
        // Without a governor no thread would answer.
        self.workers.iter().for_each(|worker| worker.queue_watch.ask(None));
    }
}

impl Workers for WorkerControl {
    fn work(&mut self, worker: usize) -> Work {
        let Some(worker) = self.workers.get(worker) else { return Work::default() };
        let totals = &worker.counters.totals;
        let span = |cycles: u64| Span::from_nanos(self.clock.delta_as_nanos(0, cycles));
        Work {
            useful: span(totals.useful_cycles.get()),
            empty: span(totals.empty_cycles.get()),
            sleeps: totals.sleeps.get(),
            packets: totals.received.get(),
        }
    }

    fn queue(&mut self, worker: usize, port: usize) -> QueueView {
        let Some(worker) = self.workers.get(worker) else { return QueueView::default() };
        let queue = worker.counters.queueing(port);
        QueueView {
            fill: u32::try_from(queue.waiting).unwrap_or(u32::MAX),
            arrivals: queue.taken + queue.lost,
            drops: queue.lost,
            bytes: Some(queue.bytes),
            ..QueueView::default()
        }
    }

    fn wake(&mut self, worker: usize) {
        self.command(worker, Command::Run);
    }

    fn park(&mut self, worker: usize) {
        self.command(worker, Command::Park);
    }

    fn waits(&self) -> Waits {
        Waits { poll: true, pause: true, sleep: true, interrupt: true }
    }

    fn batch_max(&self) -> Option<u32> {
        Some(BATCH_MAX as u32)
    }

    fn count_bytes(&self) -> bool {
        true
    }

    fn count_streaks(&mut self) -> bool {
        true
    }

    fn watch(&mut self, worker: usize, streaks: Option<Streaks>) {
        if let Some(worker) = self.workers.get(worker) {
            worker.queue_watch.ask(streaks);
        }
    }

    fn wake_at_streaks(&mut self, thread: &Thread) {
        self.workers.iter().for_each(|worker| worker.queue_watch.wake_at_events(thread.clone()));
    }

    fn streak(&mut self, _: Time, worker: usize) -> Option<Streak> {
        let streak = self.workers.get(worker)?.queue_watch.event()?;
        Some(Streak { port: streak.port, above: streak.above })
    }

    fn answer(&mut self, worker: usize) {
        if let Some(worker) = self.workers.get(worker) {
            worker.queue_watch.answer();
        }
    }

    fn silent_for(&mut self, worker: usize) -> Span {
        self.workers.get(worker).map_or(Span::ZERO, |worker| worker.queue_watch.silent_for())
    }

    fn set_wait(&mut self, worker: usize, wait: Wait) -> Result<(), String> {
        let worker = self.workers.get(worker).ok_or("there is no such worker")?;
        let mode = match wait {
            Wait::Poll => Mode::Poll,
            Wait::Pause => Mode::Pause,
            Wait::Sleep(time) => {
                worker.control.set_nap(time.into());
                Mode::Nap
            }
            Wait::Interrupt => Mode::Interrupt,
        };
        worker.control.set_mode(mode);
        worker.waker.wake();
        Ok(())
    }

    fn set_batch(&mut self, packets: u32) {
        for worker in &self.workers {
            worker.control.set_batch(packets as usize);
        }
    }
}
