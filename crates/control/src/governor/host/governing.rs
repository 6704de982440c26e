//! The thread that asks the policy.
//!
//! On emulated cores the policy is asked at each batch; here that would cost the data path a
//! lock, so the thread looks at the workers' counters once per sampling period instead and takes
//! what it finds for the last batch of each queue that made progress
//! (docs/explanation/closed-loop-host.md).

use crate::governor::Governor;
use crate::governor::machine::{Machine, View};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use wattline_policy::{QueueView, Trigger};
use wattline_units::{Span, Time};

/// A machine is looked at this often even where its policy asks for nothing.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Asked for by whoever owns the thread.
type Request<M> = Box<dyn FnOnce(&mut Governor<M>) + Send>;

/// A policy in charge of a machine, in a thread of its own; it ends with this.
pub struct Governing<M> {
    requests: Option<SyncSender<Request<M>>>,
    thread: Option<JoinHandle<()>>,
}

impl<M: Machine + 'static> Governing<M> {
    /// Starts the thread: asks for the first operating point, then samples.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(governor: Governor<M>, period: Duration) -> std::io::Result<Self> {
        let (requests, inbox) = sync_channel(4);
        let period = period.max(Duration::from_micros(100));
        let thread = std::thread::Builder::new()
            .name("governor".into())
            .spawn(move || run(governor, period, &inbox))?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Lets the thread look at the governor, and waits for what comes of it. `None` when the
    /// thread has ended.
    pub fn ask<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Governor<M>) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answers) = sync_channel(1);
        let request: Request<M> = Box::new(move |governor| {
            // Whoever asked may have gone.
            let _ = answer.send(look(governor));
        });
        self.requests.as_ref()?.send(request).ok()?;
        answers.recv().ok()
    }
}

impl<M> Drop for Governing<M> {
    /// The machine is dropped with the thread, and so restored, before this returns.
    fn drop(&mut self) {
        self.requests = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the governor has panicked: this is a defect");
        }
    }
}

fn run<M: Machine>(mut governor: Governor<M>, period: Duration, inbox: &Receiver<Request<M>>) {
    let mut sampler = Sampler::default();
    governor.start(governor.now());
    loop {
        let now = governor.now();
        let ask = governor.ask();
        let until = Duration::from(ask.at.since(now)).min(LONGEST_SLEEP);
        let sleep = if ask.on_batch.is_empty() { until } else { until.min(period) };
        match inbox.recv_timeout(sleep) {
            Ok(request) => request(&mut governor),
            Err(RecvTimeoutError::Timeout) => sampler.sample(&mut governor),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Finds what happened since the last look, and asks the policy for it.
#[derive(Default)]
struct Sampler {
    view: View,
    /// By number of the queue.
    last: Vec<QueueView>,
    triggers: Vec<Trigger>,
}

impl Sampler {
    fn sample<M: Machine>(&mut self, governor: &mut Governor<M>) {
        let now = governor.now();
        governor.machine().observe(now, &mut self.view);
        self.triggers.clear();
        let batch = governor.point().batch;
        self.last.resize(self.view.queues.len(), QueueView::default());
        for (queue, (seen, last)) in self.view.queues.iter().zip(&mut self.last).enumerate() {
            let served = |view: &QueueView| view.arrivals - view.drops;
            let progress = served(seen).saturating_sub(served(last));
            *last = *seen;
            if progress > 0 {
                let taken = u32::try_from(progress).unwrap_or(u32::MAX).min(batch).max(1);
                self.triggers.push(Trigger::Batch { queue, taken });
            }
        }
        // Who got nothing from any queue has found them empty as often as it cared to look.
        for core in 0..self.view.cores.len() {
            let idle = |trigger: &Trigger| match trigger {
                Trigger::Batch { queue, .. } => {
                    governor.platform().queues.get(*queue).is_none_or(|q| q.core != core)
                }
                _ => true,
            };
            if self.triggers.iter().all(idle) {
                self.triggers.push(Trigger::EmptyPolls { core });
            }
        }
        for trigger in &self.triggers {
            governor.trigger(now, *trigger);
        }
        if governor.ask().at <= now {
            governor.trigger(now, Trigger::Timer);
        }
    }
}

/// How often a queue's fill is forgotten that nobody took anything from.
pub(super) const STALE: Span = Span::from_millis(2);

/// What a worker found at its last batch says nothing any more once there was none for a while.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Freshness {
    arrivals: u64,
    since: Time,
}

impl Freshness {
    /// The queue as it is to be shown.
    pub fn show(&mut self, now: Time, mut seen: QueueView) -> QueueView {
        if seen.arrivals != self.arrivals {
            *self = Self { arrivals: seen.arrivals, since: now };
        } else if now.since(self.since) > STALE {
            seen.fill = 0;
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_is_forgotten_when_no_batch_comes() {
        let at = |micros| Time::ZERO + Span::from_micros(micros);
        let seen = QueueView { fill: 40, arrivals: 7, drops: 0 };
        let mut fresh = Freshness::default();
        assert_eq!(fresh.show(at(10), seen).fill, 40);
        assert_eq!(fresh.show(at(1500), seen).fill, 40);
        assert_eq!(fresh.show(at(2500), seen).fill, 0);
        assert_eq!(fresh.show(at(2600), QueueView { arrivals: 8, ..seen }).fill, 40);
    }
}
