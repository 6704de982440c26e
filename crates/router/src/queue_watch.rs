//! The queue estimator of a worker: its thread counts streaks of batches, and reports the end of a
//! streak to the governor's thread.
//!
//! Without a request the worker reads one number per batch; with a request it also writes one. Only
//! at an event it takes a lock and wakes the governor. An unanswered event stops the counting: as
//! in PowerSave's paper, counters start anew once the operating point has changed.

use quanta::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use wattline_dataplane::batch_watch::BatchWatch;
use wattline_dataplane::port::PortQueue;
use wattline_policy::{QueueEstimator, Streaks};
use wattline_units::{Span, Time};

/// End of a streak, at a worker's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streak {
    /// Number of the port.
    pub port: usize,
    /// True if it was above the upper level.
    pub above: bool,
}

/// State shared by a worker and a governor's thread.
#[derive(Debug)]
pub struct QueueWatch {
    /// Number of the last request; 0 for none so far.
    request: AtomicU64,
    asked: Mutex<Option<Streaks>>,
    /// The unanswered event; 0 for none.
    event: AtomicU64,
    /// Time-stamp counter at the last batch or empty pass.
    last: AtomicU64,
    governor: Mutex<Option<Thread>>,
    clock: Clock,
}

impl Default for QueueWatch {
    fn default() -> Self {
        let clock = Clock::new();
        Self {
            request: AtomicU64::new(0),
            asked: Mutex::new(None),
            event: AtomicU64::new(0),
            last: AtomicU64::new(clock.raw()),
            governor: Mutex::new(None),
            clock,
        }
    }
}

impl QueueWatch {
    /// Has the worker count these streaks from its next batch on; `None` for none. If the rule is
    /// unchanged, its counters are kept.
    pub fn ask(&self, streaks: Option<Streaks>) {
        *lock(&self.asked) = streaks;
        self.last.fetch_max(self.clock.raw(), Ordering::Relaxed);
        self.request.fetch_add(1, Ordering::Release);
        if streaks.is_none() {
            self.answer();
        }
    }

    /// Unparks this thread at each event.
    pub fn wake_at_events(&self, thread: Thread) {
        *lock(&self.governor) = Some(thread);
    }

    /// Returns the unanswered event.
    pub fn event(&self) -> Option<Streak> {
        let event = self.event.load(Ordering::Acquire).checked_sub(1)?;
        Some(Streak { port: (event >> 1) as usize, above: event & 1 == 1 })
    }

    /// Answers the event, so that the worker counts again.
    pub fn answer(&self) {
        self.event.store(0, Ordering::Release);
    }

    /// Returns the time since the last batch or empty pass, or since the last request.
    pub fn silent_for(&self) -> Span {
        let passed = self.clock.raw().saturating_sub(self.last.load(Ordering::Relaxed));
        Span::from_nanos(self.clock.delta_as_nanos(0, passed))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The data is consistent even if a holder panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The worker's side.
pub struct WorkerEstimator {
    shared: Arc<QueueWatch>,
    estimator: QueueEstimator,
    ports: usize,
    request: u64,
    streaks: Option<Streaks>,
}

impl WorkerEstimator {
    /// Creates the estimator of a worker with this many ports.
    pub fn new(shared: Arc<QueueWatch>, ports: usize) -> Self {
        let estimator = QueueEstimator::new(ports);
        Self { shared, estimator, ports, request: 0, streaks: None }
    }

    /// Returns the requested streaks, unless an event is unanswered.
    #[inline]
    fn counted(&mut self, now: Time) -> Option<Streaks> {
        let request = self.shared.request.load(Ordering::Acquire);
        if request != self.request {
            self.follow(now, request);
        }
        let streaks = self.streaks?;
        self.shared.last.store(self.shared.clock.raw(), Ordering::Relaxed);
        (self.shared.event.load(Ordering::Acquire) == 0).then_some(streaks)
    }

    #[cold]
    fn follow(&mut self, now: Time, request: u64) {
        // The governor is writing it: the next batch will see it.
        let Ok(asked) = self.shared.asked.try_lock() else { return };
        let before = std::mem::replace(&mut self.streaks, *asked);
        self.request = request;
        if let Some(streaks) = &self.streaks
            && before.is_none_or(|before| before.rule != streaks.rule)
        {
            self.estimator.start(now, streaks.rule);
        }
    }

    #[cold]
    fn raise(&self, port: usize, above: bool) {
        self.shared.event.store(1 + ((port as u64) << 1 | u64::from(above)), Ordering::Release);
        if let Some(governor) = &*lock(&self.shared.governor) {
            governor.unpark();
        }
    }
}

impl BatchWatch for WorkerEstimator {
    #[inline]
    fn batch(&mut self, now: Time, port: usize, queue: &dyn PortQueue, taken: usize) {
        let Some(streaks) = self.counted(now) else { return };
        let taken = taken.min(u32::MAX as usize) as u32;
        // A port that does not know its backlog has at least the packets that it returned.
        let found = queue.counters().waiting.min(u32::MAX.into()) as u32;
        let event = self.estimator.batch(now, port, found.max(taken), taken);
        if let Some(above) = event.filter(|above| streaks.asks(*above)) {
            self.raise(port, above);
        }
    }

    #[inline]
    fn empty_pass(&mut self, now: Time) {
        if self.shared.request.load(Ordering::Relaxed) == 0
            || self.estimator.rule().read != wattline_policy::FillRead::Pass
        {
            return;
        }
        let Some(streaks) = self.counted(now) else { return };
        for port in 0..self.ports {
            let event = self.estimator.empty_pass(now, port);
            if let Some(above) = event.filter(|above| streaks.asks(*above)) {
                return self.raise(port, above);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};
    use wattline_dataplane::frame::{Frame, FramePool};
    use wattline_dataplane::port::PortCounters;
    use wattline_policy::{CoreSet, FillRead, Level, StreakRule};

    /// A queue with this many waiting frames.
    struct Held(u64);

    impl PortQueue for Held {
        fn receive(&mut self, _: &mut FramePool, _: &mut [Frame]) -> usize {
            0
        }
        fn transmit(&mut self, _: &mut FramePool, _: &[Frame]) -> usize {
            0
        }
        fn flush(&mut self, _: &mut FramePool) {}
        fn recycle(&mut self, _: &mut FramePool) {}
        fn pending(&mut self) -> usize {
            0
        }
        fn counters(&self) -> PortCounters {
            PortCounters { waiting: self.0, ..PortCounters::default() }
        }
    }

    fn streaks(read: FillRead) -> Streaks {
        let rule = StreakRule {
            above: Level { packets: 32, samples: 1 },
            below: Level { packets: 4, samples: 1 },
            read,
            ..StreakRule::NEVER
        };
        Streaks { cores: CoreSet::only(0), rule, at_above: true, at_below: true, at_silence: true }
    }

    fn estimator() -> (Arc<QueueWatch>, WorkerEstimator) {
        let shared = Arc::new(QueueWatch::default());
        (Arc::clone(&shared), WorkerEstimator::new(shared, 2))
    }

    #[test]
    fn streak_is_handed_over_once_and_counting_goes_on_with_the_answer() {
        let (shared, mut worker) = estimator();
        let batch = |worker: &mut WorkerEstimator, fill| {
            worker.batch(Time::ZERO, 1, &Held(fill), fill.min(8) as usize);
        };
        (0..9).for_each(|_| batch(&mut worker, 40));
        assert_eq!(shared.event(), None, "not requested");
        shared.ask(Some(streaks(FillRead::Before)));
        batch(&mut worker, 40);
        assert_eq!(shared.event(), None);
        batch(&mut worker, 40);
        let above = Streak { port: 1, above: true };
        assert_eq!(shared.event(), Some(above));
        // It is unanswered: nothing is counted meanwhile, and nothing overwrites it.
        (0..9).for_each(|_| batch(&mut worker, 1));
        assert_eq!(shared.event(), Some(above));
        shared.answer();
        batch(&mut worker, 1);
        assert_eq!(shared.event(), None, "counters have started anew");
        batch(&mut worker, 1);
        assert_eq!(shared.event(), Some(Streak { port: 1, above: false }));
        shared.answer();
        // If the rule is unchanged, the counters are kept. An event that was not requested does not
        // count.
        batch(&mut worker, 40);
        shared.ask(Some(Streaks { at_above: false, ..streaks(FillRead::Before) }));
        batch(&mut worker, 40);
        assert_eq!(shared.event(), None);
        shared.ask(Some(streaks(FillRead::Before)));
        (0..2).for_each(|_| batch(&mut worker, 40));
        assert_eq!(shared.event(), Some(above));
        shared.ask(None);
        (0..9).for_each(|_| batch(&mut worker, 40));
        assert_eq!(shared.event(), None);
    }

    #[test]
    fn empty_passes_count_only_on_request() {
        for (read, event) in [(FillRead::Before, None), (FillRead::Pass, Some(0))] {
            let (shared, mut worker) = estimator();
            worker.empty_pass(Time::ZERO);
            shared.ask(Some(streaks(read)));
            worker.batch(Time::ZERO, 1, &Held(10), 8);
            (0..3).for_each(|_| worker.empty_pass(Time::ZERO));
            assert_eq!(shared.event().map(|streak| streak.port), event, "{read:?}");
        }
    }

    #[test]
    fn event_wakes_a_parked_thread_and_a_batch_ends_a_silence() {
        let (shared, mut worker) = estimator();
        shared.wake_at_events(std::thread::current());
        shared.ask(Some(streaks(FillRead::Before)));
        std::thread::sleep(Duration::from_millis(20));
        assert!(shared.silent_for() >= Span::from_millis(20));
        worker.batch(Time::ZERO, 0, &Held(40), 8);
        assert!(shared.silent_for() < Span::from_millis(20));
        let thread = std::thread::spawn(move || worker.batch(Time::ZERO, 0, &Held(40), 8));
        let began = Instant::now();
        while shared.event().is_none() {
            std::thread::park_timeout(Duration::from_secs(60));
        }
        assert!(began.elapsed() < Duration::from_secs(50));
        thread.join().unwrap();
    }
}
