//! A governor with a thread of its own, for machines whose workers do not ask by themselves.
//!
//! Timers are met to the precision of the system. A policy that wants to be asked at batches is
//! shown, [`SAMPLE`] apart, the queues of those cores that hold packets: a sample of the fill
//! levels that its estimator would see.

use super::Governor;
use super::account::Totals;
use super::machine::Machine;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use wattline_policy::{QueueView, Trigger};
use wattline_units::Time;

/// How often queues are looked at for a policy that wants to be asked at batches.
pub const SAMPLE: Duration = Duration::from_millis(1);
/// The thread looks around this often, whatever happens.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The governor's state, shared with its thread.
struct Shared<M> {
    governor: Mutex<Governor<M>>,
    stopping: Mutex<bool>,
    bell: Condvar,
}

impl<M> Shared<M> {
    fn governor(&self) -> MutexGuard<'_, Governor<M>> {
        self.governor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A governor at work; ends with the value.
pub struct Runner<M> {
    shared: Arc<Shared<M>>,
    thread: Option<JoinHandle<()>>,
}

impl<M: Machine + 'static> Runner<M> {
    /// Asks for the first operating point and begins.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(mut governor: Governor<M>) -> io::Result<Self> {
        let now = governor.machine().now();
        governor.start(now);
        let shared = Arc::new(Shared {
            governor: Mutex::new(governor),
            stopping: Mutex::new(false),
            bell: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("governor".to_owned()).spawn(move || run(&own))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Looks at the governor between two questions.
    pub fn look<R>(&self, look: impl FnOnce(&mut Governor<M>) -> R) -> R {
        look(&mut self.shared.governor())
    }

    /// Everything that was counted up to now.
    pub fn totals(&self) -> Totals {
        let mut governor = self.shared.governor();
        let now = governor.machine().now();
        governor.totals(now)
    }
}

impl<M> Drop for Runner<M> {
    fn drop(&mut self) {
        *self.shared.stopping.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.bell.notify_all();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the governor has panicked: this is a defect");
        }
    }
}

fn run<M: Machine>(shared: &Shared<M>) {
    let mut queues = Vec::new();
    loop {
        let wait = {
            let mut governor = shared.governor();
            let now = governor.machine().now();
            look_around(&mut governor, now, &mut queues)
        };
        let stopping = shared.stopping.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = shared.bell.wait_timeout_while(stopping, wait, |stopping| !*stopping);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 {
            return;
        }
    }
}

/// Asks the policy for what has come up, and says how long nothing can.
fn look_around<M: Machine>(
    governor: &mut Governor<M>,
    now: Time,
    queues: &mut Vec<QueueView>,
) -> Duration {
    governor.trigger(now, Trigger::Timer);
    let on_batch = governor.ask().on_batch;
    if !on_batch.is_empty() {
        let batch = governor.point().batch;
        queues.clear();
        queues.extend_from_slice(&governor.look(now).queues);
        for (queue, view) in queues.iter().enumerate().filter(|(_, view)| view.fill > 0) {
            // Refused unless its core is watched.
            governor.trigger(now, Trigger::Batch { queue, taken: view.fill.min(batch) });
        }
    }
    let longest = if on_batch.is_empty() { LONGEST_WAIT } else { SAMPLE };
    let due = Duration::from(governor.ask().at.since(governor.machine().now()));
    due.min(longest)
}
