//! A governor with its own thread, for machines whose workers do not call it.
//!
//! Timers have the precision of the system. Events that the machine notices itself
//! ([`Machine::notice`]) wake the thread. A policy that asks for batches is called, once per
//! sampling period, for the queues of those cores that hold packets: a sample of the fill levels at
//! the batches. A batch before a timer's due time is reported before the timer: a timer that stands
//! for silence moves on with each batch.

use super::Governor;
use super::account::Totals;
use super::lease::Asked;
use super::machine::{Machine, Notice};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wattline_policy::{QueueView, Trigger};
use wattline_status::HeldPoint;
use wattline_units::{Span, Time};

/// Pause of a caller between two attempts to get the governor's answer.
const RETRY: Duration = Duration::from_millis(1);
/// Longest time between two wake-ups of the thread. In between it sleeps until its policy is due: a
/// governor that saves power must not keep a CPU awake.
const LONGEST_WAIT: Duration = Duration::from_millis(1_000);

/// The governor's state, shared with its thread.
struct Shared<M> {
    governor: Mutex<Governor<M>>,
    stopping: AtomicBool,
}

impl<M> Shared<M> {
    fn governor(&self) -> MutexGuard<'_, Governor<M>> {
        self.governor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running governor; ends with the value.
pub struct Runner<M> {
    shared: Arc<Shared<M>>,
    thread: Option<JoinHandle<()>>,
}

impl<M: Machine + 'static> Runner<M> {
    /// Asks the policy for the first operating point and starts the thread. `sample` is the time
    /// between looks at queues for a policy that asks for batches.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(mut governor: Governor<M>, sample: Duration) -> io::Result<Self> {
        let now = governor.machine().now();
        governor.start(now);
        let shared =
            Arc::new(Shared { governor: Mutex::new(governor), stopping: AtomicBool::new(false) });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("governor".to_owned())
            .spawn(move || run(&own, sample))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Looks at the governor between two decisions; `None` if it is busy for longer than
    /// `patience`, as with a knob that hangs.
    pub fn look<R>(
        &self,
        patience: Duration,
        look: impl FnOnce(&mut Governor<M>) -> R,
    ) -> Option<R> {
        let end = Instant::now() + patience;
        loop {
            match self.shared.governor.try_lock() {
                Ok(mut governor) => return Some(look(&mut governor)),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Some(look(&mut poisoned.into_inner()));
                }
                Err(TryLockError::WouldBlock) if Instant::now() >= end => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(RETRY),
            }
        }
    }

    /// Lets a client hold an operating point, or ends that.
    ///
    /// # Errors
    /// As [`Governor::lease`], and when the governor is busy for longer than `patience`.
    pub fn lease(&self, asked: &Asked, patience: Duration) -> Result<Option<HeldPoint>, String> {
        let held = self.look(patience, |governor| {
            let now = governor.machine().now();
            governor.lease(now, asked)
        });
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        let busy = || "the governor is busy with a knob that does not answer".to_owned();
        held.ok_or_else(busy)?
    }

    /// Returns everything counted up to now; `None` as for [`Self::look`].
    pub fn totals(&self, patience: Duration) -> Option<Totals> {
        self.look(patience, |governor| {
            let now = governor.machine().now();
            governor.totals(now)
        })
    }

    /// Returns true if its thread has ended by a panic, so that the policy no longer decides. The
    /// counts remain readable.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread and returns the governor, also after a panic: its machine has to be
    /// restored. `None` while another thread looks at it.
    pub fn end(self) -> Option<Governor<M>> {
        let shared = Arc::clone(&self.shared);
        // Joins the thread, which has the other share.
        drop(self);
        let governor = Arc::into_inner(shared)?.governor;
        Some(governor.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<M> Drop for Runner<M> {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the governor has panicked, which is a defect of Wattline");
        }
    }
}

/// The queues at the last look.
#[derive(Default)]
struct Seen {
    queues: Vec<QueueView>,
    /// By queue: packets that arrived since the previous look.
    came: Vec<u64>,
}

fn run<M: Machine>(shared: &Shared<M>, sample: Duration) {
    let mut seen = Seen::default();
    shared.governor().machine().wake_at_events(std::thread::current());
    while !shared.stopping.load(Ordering::Acquire) {
        let wait = {
            let mut governor = shared.governor();
            let now = governor.machine().now();
            poll_machine(&mut governor, now, &mut seen, sample)
        };
        std::thread::park_timeout(wait);
    }
}

/// Calls the policy for everything that has come up; returns how long nothing more can.
fn poll_machine<M: Machine>(
    governor: &mut Governor<M>,
    now: Time,
    seen: &mut Seen,
    sample: Duration,
) -> Duration {
    let watched = governor.ask().sampled();
    if watched.is_empty() {
        // Unobserved arrivals must not count as batches of the first look that follows.
        seen.queues.clear();
    } else {
        let present = &governor.look(now).queues;
        if seen.queues.is_empty() {
            seen.queues.clone_from(present);
        }
        seen.came.clear();
        let both = present.iter().zip(&seen.queues);
        let came = |(present, before): (&QueueView, &QueueView)| {
            present.arrivals.saturating_sub(before.arrivals)
        };
        seen.came.extend(both.map(came));
        seen.queues.copy_from_slice(present);
        report_queues(governor, now, seen, true);
    }
    // The policy's answer to a batch may leave its timer overdue; the governor moves it to just
    // after the batch. Without this extra picosecond, batches at every look would starve the timer.
    governor.trigger(now + Span::from_picos(1), Trigger::Timer);
    if !watched.is_empty() {
        report_queues(governor, now, seen, false);
    }
    // Last, since this may consume a wake-up meant for an event.
    let noticed = follow_notices(governor);
    let longest = if governor.ask().sampled().is_empty() { LONGEST_WAIT } else { sample };
    let due = governor.ask().at.min(noticed);
    Duration::from(due.since(governor.machine().now())).min(longest)
}

/// Calls the policy for the events that the machine has noticed itself; returns the latest time of
/// the next check.
fn follow_notices<M: Machine>(governor: &mut Governor<M>) -> Time {
    for _ in 0..governor.platform().cores.saturating_mul(2) {
        let now = governor.machine().now();
        match governor.machine().notice(now) {
            Notice::Event(trigger) => governor.trigger(now, trigger),
            Notice::Nothing { until } => return until,
        };
    }
    // Timers must not starve.
    governor.machine().now()
}

/// Reports the queues that hold packets: with `new`, those with arrivals since the last look,
/// otherwise the others. A look stands for the batches in which the arrivals since the previous
/// look were taken, each as large as the fill found allows.
fn report_queues<M: Machine>(governor: &mut Governor<M>, now: Time, seen: &Seen, new: bool) {
    let batch = governor.point().batch;
    for (queue, (view, came)) in seen.queues.iter().zip(&seen.came).enumerate() {
        if view.fill > 0 && (*came > 0) == new {
            let taken = view.fill.min(batch).max(1);
            let batches = came.div_ceil(u64::from(taken)).clamp(1, u64::from(u32::MAX)) as u32;
            // One call per look, as everywhere; a level is more specific.
            let level = governor.ask().on_fill;
            let core = governor.platform().queues.get(queue).map(|queue| queue.core);
            let full = view.fill >= level.packets;
            if full && core.is_some_and(|core| level.cores.contains(core)) {
                governor.trigger(now, Trigger::Fill { queue });
            } else {
                // Ignored unless its core is watched for batches.
                governor.trigger(now, Trigger::Batch { queue, taken, batches });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Taken, View};
    use crate::step::Step;
    use wattline_needs::until;
    use wattline_policies::POLICIES;
    use wattline_policy::testing::policy;
    use wattline_policy::{
        AskAgain, BuildContext, Can, CoreSet, FrequencyDomain, IdleState, Looks, Platform, Policy,
        Queue, build,
    };
    use wattline_units::Hertz;

    /// Two cores; the test sets the ring of the first.
    struct Fed {
        platform: Platform,
        queue: QueueView,
    }

    impl Machine for Fed {
        fn platform(&self) -> &Platform {
            &self.platform
        }
        fn now(&self) -> Time {
            Time::ZERO
        }
        fn observe(&mut self, _: Time, view: &mut View) {
            view.queues[0] = self.queue;
        }
        fn take(&mut self, _: &Step) -> Taken {
            Taken::Done
        }
    }

    fn fed(policy: &str) -> Governor<Fed> {
        let platform = Platform {
            cores: 2,
            frequencies: vec![Hertz(1e9), Hertz(2e9)],
            domain: FrequencyDomain::Core,
            idle_states: vec![IdleState {
                name: "C1".into(),
                exit_latency: Span::from_micros(1),
                exit_latency_measured: None,
            }],
            queues: (0..2).map(|core| Queue { port: 0, core }).collect(),
            ring_size: Some(256),
            moderation: (Span::ZERO, Span::ZERO),
            frequency_transition: Span::ZERO,
            can: Can { set_moderation: false, ..Can::EVERY_KNOB },
            ..Platform::BARE
        };
        let spec = POLICIES.parse(policy).unwrap();
        let context = BuildContext { platform: &platform, server: None, packet: None, seed: 0 };
        let policy = build(&spec, &context).unwrap();
        let mut governor = Governor::new(Fed { platform, queue: QueueView::default() }, policy);
        governor.start(Time::ZERO);
        governor
    }

    /// Asks for batches, a level, and a time; reports the triggers that it gets.
    fn both(sender: std::sync::mpsc::Sender<Trigger>, mut due: Time) -> Box<dyn Policy> {
        policy(Looks::WHOLE, move |seen, _| {
            let _ = sender.send(seen.trigger);
            if seen.trigger == Trigger::Timer {
                due = Time::NEVER;
            }
            let both = CoreSet::first(2);
            AskAgain { at: due, ..AskAgain::on_batch(both).and_on_fill(both, 50) }
        })
    }

    #[test]
    fn panicked_policy_is_detected_and_its_machine_comes_back() {
        let machine = fed("poll").into_machine();
        let mut asked = false;
        let panics = policy(Looks::WHOLE, move |seen, point| {
            assert!(!std::mem::replace(&mut asked, true), "called after the panic");
            point.set_frequency(0);
            AskAgain::at(seen.now)
        });
        let governor = Governor::new(machine, panics);
        let runner = Runner::start(governor, Duration::from_millis(1)).unwrap();
        until("it ends", || runner.has_failed());
        assert_eq!(runner.totals(Duration::ZERO).unwrap().own.decisions, 1, "of before");
        let governor = runner.end().expect("the machine has to be restored");
        assert_eq!(governor.point().fastest_active(), 0);

        let well = Runner::start(fed("poll"), Duration::from_millis(1)).unwrap();
        assert!(!well.has_failed());
    }

    #[test]
    fn thread_sleeps_until_its_policy_is_due() {
        for (asks, waits) in [(30, 30), (500, 500), (5_000, 1_000)] {
            let machine = fed("poll").into_machine();
            let due = Time::ZERO + Span::from_millis(asks);
            let policy = policy(Looks::WHOLE, move |_, _| AskAgain::at(due));
            let mut governor = Governor::new(machine, policy);
            governor.start(Time::ZERO);
            let sample = Duration::from_millis(1);
            let wait = poll_machine(&mut governor, Time::ZERO, &mut Seen::default(), sample);
            assert_eq!(wait, Duration::from_millis(waits));
        }
    }

    /// As in the simulator and on emulated cores.
    #[test]
    fn look_that_finds_the_level_is_one_call() {
        let (sender, asked) = std::sync::mpsc::channel();
        let machine = fed("poll").into_machine();
        let mut governor = Governor::new(machine, both(sender, Time::NEVER));
        governor.start(Time::ZERO);
        let (mut seen, sample) = (Seen::default(), Duration::from_millis(1));
        for (millis, fill) in [(1, 49), (2, 50), (3, 60)] {
            let arrivals = governor.machine().queue.arrivals + 10;
            governor.machine().queue = QueueView { fill, arrivals, ..QueueView::default() };
            poll_machine(&mut governor, Time::ZERO + Span::from_millis(millis), &mut seen, sample);
        }
        let asked: Vec<Trigger> = asked.try_iter().collect();
        let batch = Trigger::Batch { queue: 0, taken: 49, batches: 1 };
        let fill = Trigger::Fill { queue: 0 };
        assert_eq!(asked, [Trigger::Start, batch, fill, fill]);
    }

    #[test]
    fn batches_at_every_look_do_not_starve_a_timer() {
        let (sender, asked) = std::sync::mpsc::channel();
        let machine = fed("poll").into_machine();
        let due = Time::ZERO + Span::from_micros(2_500);
        let mut governor = Governor::new(machine, both(sender, due));
        governor.start(Time::ZERO);
        let (mut seen, sample) = (Seen::default(), Duration::from_millis(1));
        for millis in 1..=4 {
            let arrivals = governor.machine().queue.arrivals + 10;
            governor.machine().queue = QueueView { fill: 10, arrivals, ..QueueView::default() };
            poll_machine(&mut governor, Time::ZERO + Span::from_millis(millis), &mut seen, sample);
        }
        let asked: Vec<Trigger> = asked.try_iter().collect();
        let batch = Trigger::Batch { queue: 0, taken: 10, batches: 1 };
        assert_eq!(asked, [Trigger::Start, batch, batch, batch, Trigger::Timer, batch]);
    }

    /// Notices events that other threads leave, and wakes its governor.
    struct Noticing(Fed, Arc<Events>);

    #[derive(Default)]
    struct Events {
        left: Mutex<Vec<Trigger>>,
        governor: Mutex<Option<std::thread::Thread>>,
    }

    impl Machine for Noticing {
        fn platform(&self) -> &Platform {
            &self.0.platform
        }
        fn now(&self) -> Time {
            Time::ZERO
        }
        fn observe(&mut self, _: Time, _: &mut View) {}
        fn take(&mut self, _: &Step) -> Taken {
            Taken::Done
        }
        fn wake_at_events(&mut self, thread: std::thread::Thread) {
            *self.1.governor.lock().unwrap() = Some(thread);
        }
        fn notice(&mut self, _: Time) -> Notice {
            let event = self.1.left.lock().unwrap().pop();
            event.map_or(Notice::Nothing { until: Time::NEVER }, Notice::Event)
        }
    }

    /// The thread would sleep for a second by itself.
    #[test]
    fn event_wakes_the_thread_and_is_one_call() {
        let events = Arc::new(Events::default());
        let machine = Noticing(fed("poll").into_machine(), Arc::clone(&events));
        let (policy, context) =
            (POLICIES.parse("queue-length").unwrap(), machine.0.platform.clone());
        let context = BuildContext { platform: &context, server: None, packet: None, seed: 0 };
        let governor = Governor::new(machine, build(&policy, &context).unwrap());
        let runner = Runner::start(governor, Duration::from_millis(1)).unwrap();
        let wake = || until("it is there", || events.governor.lock().unwrap().clone()).unpark();
        let count = |runner: &Runner<Noticing>| {
            runner.totals(Duration::from_secs(1)).unwrap().own.decisions
        };
        for (number, rung) in [(2, (2, 0)), (3, (2, 1))] {
            events.left.lock().unwrap().push(Trigger::Streak { queue: 0, above: true });
            wake();
            let began = Instant::now();
            until("it is asked", || count(&runner) >= number);
            println!("asked within {:?}", began.elapsed());
            let point = runner.look(Duration::from_secs(1), |governor| {
                (governor.point().active.len(), governor.point().fastest_active())
            });
            assert_eq!(point, Some(rung));
        }
        // The policy does not ask for the silence of a core that it does not watch.
        events.left.lock().unwrap().push(Trigger::Silence { core: 1 });
        wake();
        until("the notice is read", || events.left.lock().unwrap().is_empty());
        assert_eq!(count(&runner), 3);
    }
}
