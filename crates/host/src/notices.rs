//! Events that the workers notice where they take batches.

use super::workers::Workers;
use wattline_governor::machine::Notice;
use wattline_policy::{Platform, Streaks, Trigger};
use wattline_units::{Span, Time};

/// Maximum delay of noticing a silence after work. No event wakes this thread at a silence, and a
/// look at each length of one would take an eighth of a core while all cores work. So a silence of
/// some milliseconds is noticed late: by as long as the work lasted, and at most by this time or
/// one length of the silence.
const LATE: Span = Span::from_millis(32);

/// Events that a policy asked for, of all workers.
pub(super) struct Notices {
    streaks: Streaks,
    /// Worker whose streak the policy is answering.
    asked: Option<usize>,
    /// By worker: time of the last reported silence.
    reported: Vec<Time>,
    /// Time of the next look for silences, and its delay after the first possible one.
    look: Time,
    late: Span,
}

impl Notices {
    pub fn new(cores: usize) -> Self {
        let reported = vec![Time::ZERO; cores];
        Self { streaks: Streaks::NEVER, asked: None, reported, look: Time::ZERO, late: Span::ZERO }
    }

    /// Makes the workers count the events that the policy asks for from now on.
    pub fn watch(&mut self, streaks: Streaks, workers: &mut dyn Workers) {
        if streaks == self.streaks {
            return;
        }
        self.streaks = streaks;
        (self.look, self.late) = (Time::ZERO, Span::ZERO);
        for worker in 0..self.reported.len() {
            let counts = streaks.cores.contains(worker);
            workers.watch(worker, counts.then_some(streaks));
        }
    }

    /// Returns the next event; the previous one has been answered.
    pub fn next(&mut self, now: Time, platform: &Platform, workers: &mut dyn Workers) -> Notice {
        if let Some(worker) = self.asked.take() {
            workers.answer(worker);
        }
        let cores = self.streaks.cores;
        let counting = || cores.iter().filter(|core| *core < self.reported.len());
        for core in counting() {
            let Some(streak) = workers.streak(now, core) else { continue };
            self.asked = Some(core);
            let mut queues = platform.queues.iter();
            let queue = queues.position(|it| it.port == streak.port && it.core == core);
            // RPS leads packets of a port to cores without queues of it.
            let any = || platform.queues.iter().position(|it| it.port == streak.port);
            if let Some(queue) = queue.or_else(any) {
                return Notice::Event(Trigger::Streak { queue, above: streak.above });
            }
        }
        let silence = self.streaks.rule.silence;
        if !self.streaks.at_silence || silence == Span::ZERO {
            return Notice::Nothing { until: Time::NEVER };
        }
        if now < self.look {
            return Notice::Nothing { until: self.look };
        }
        let mut first = Time::NEVER;
        for core in counting() {
            let silent = workers.silent_for(core).min(now.since(self.reported[core]));
            if silent >= silence {
                self.reported[core] = now;
                (self.look, self.late) = (now, Span::ZERO);
                return Notice::Event(Trigger::Silence { core });
            }
            first = first.min(now + (silence - silent));
        }
        self.look = first + self.late;
        self.late = (self.late * 2).clamp(silence, LATE.max(silence));
        Notice::Nothing { until: self.look }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workers::{Streak, Work};
    use wattline_policy::{CoreSet, Queue, QueueView, StreakRule, Wait};

    /// One worker that counts, and records its commands.
    #[derive(Default)]
    struct Counting {
        watched: Vec<(usize, bool)>,
        streak: Option<Streak>,
        answers: u32,
        silent: Span,
    }

    impl Workers for Counting {
        fn work(&mut self, _: usize) -> Work {
            Work::default()
        }
        fn queue(&mut self, _: usize, _: usize) -> QueueView {
            QueueView::default()
        }
        fn wake(&mut self, _: usize) {}
        fn park(&mut self, _: usize) {}
        fn set_wait(&mut self, _: usize, _: Wait) -> Result<(), String> {
            Ok(())
        }
        fn set_batch(&mut self, _: u32) {}
        fn watch(&mut self, worker: usize, streaks: Option<Streaks>) {
            self.watched.push((worker, streaks.is_some()));
        }
        fn streak(&mut self, _: Time, _: usize) -> Option<Streak> {
            self.streak
        }
        fn answer(&mut self, _: usize) {
            self.answers += 1;
            self.streak = None;
        }
        fn silent_for(&mut self, _: usize) -> Span {
            self.silent
        }
    }

    fn at(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    #[test]
    fn streaks_are_answered_by_the_request_for_the_next_event() {
        let queues = (0..4).map(|queue| Queue { port: queue / 2, core: queue % 2 }).collect();
        let platform = Platform { cores: 2, queues, ..Platform::BARE };
        let (mut notices, mut workers) = (Notices::new(2), Counting::default());
        let rule = StreakRule { silence: Span::from_micros(100), ..StreakRule::NEVER };
        let streaks = Streaks { cores: CoreSet::only(1), rule, ..Streaks::NEVER };
        notices.watch(streaks, &mut workers);
        notices.watch(streaks, &mut workers);
        assert_eq!(workers.watched, [(0, false), (1, true)], "once");
        let nothing = Notice::Nothing { until: Time::NEVER };
        assert_eq!(notices.next(at(500), &platform, &mut workers), nothing, "silence is not asked");
        workers.streak = Some(Streak { port: 1, above: true });
        let streak = Notice::Event(Trigger::Streak { queue: 3, above: true });
        assert_eq!(notices.next(at(500), &platform, &mut workers), streak);
        assert_eq!(workers.answers, 0, "the policy is being asked");
        assert_eq!(notices.next(at(500), &platform, &mut workers), nothing);
        assert_eq!(workers.answers, 1);
    }

    #[test]
    fn silence_is_reported_once_for_as_long_as_it_lasts() {
        let platform = Platform::BARE;
        let (mut notices, mut workers) = (Notices::new(1), Counting::default());
        let rule = StreakRule { silence: Span::from_micros(100), ..StreakRule::NEVER };
        let streaks = Streaks { cores: CoreSet::only(0), rule, at_silence: true, ..Streaks::NEVER };
        notices.watch(streaks, &mut workers);
        workers.silent = Span::from_micros(60);
        let next = notices.next(at(500), &platform, &mut workers);
        assert_eq!(next, Notice::Nothing { until: at(540) });
        workers.silent = Span::from_micros(105);
        let silence = Notice::Event(Trigger::Silence { core: 0 });
        assert_eq!(notices.next(at(545), &platform, &mut workers), silence);
        let next = notices.next(at(545), &platform, &mut workers);
        assert_eq!(next, Notice::Nothing { until: at(645) });
        workers.silent = Span::from_micros(205);
        assert_eq!(notices.next(at(645), &platform, &mut workers), silence);
    }

    /// Looks while a core works and has a sample a millisecond before each look. Returns the times
    /// between looks in milliseconds.
    fn looks(silence: u64) -> (Vec<f64>, Notices, Time) {
        let (mut notices, mut workers) = (Notices::new(2), Counting::default());
        let rule = StreakRule { silence: Span::from_millis(silence), ..StreakRule::NEVER };
        let cores = CoreSet::first(2);
        notices.watch(Streaks { cores, rule, at_silence: true, ..Streaks::NEVER }, &mut workers);
        let (mut now, mut looks) = (at(500_000), Vec::new());
        workers.silent = Span::from_millis(1);
        for _ in 0..6 {
            let Notice::Nothing { until } = notices.next(now, &Platform::BARE, &mut workers) else {
                panic!("no core is silent");
            };
            // Something else wakes the thread, and changes nothing.
            let early = notices.next(now + Span::from_micros(1), &Platform::BARE, &mut workers);
            assert_eq!(early, Notice::Nothing { until });
            looks.push((until.since(now).as_seconds() * 1e3).round());
            now = until;
        }
        (looks, notices, now)
    }

    #[test]
    fn busy_cores_are_polled_less_often_and_no_silence_is_missed() {
        assert_eq!(looks(50).0, [49.0, 99.0, 99.0, 99.0, 99.0, 99.0]);
        let (looks, mut notices, now) = looks(5);
        assert_eq!(looks, [4.0, 9.0, 14.0, 24.0, 36.0, 36.0]);
        let mut workers = Counting { silent: Span::from_millis(6), ..Counting::default() };
        for core in 0..2 {
            let silence = Notice::Event(Trigger::Silence { core });
            assert_eq!(notices.next(now, &Platform::BARE, &mut workers), silence);
        }
        let nothing = Notice::Nothing { until: now + Span::from_millis(5) };
        assert_eq!(notices.next(now, &Platform::BARE, &mut workers), nothing, "exact again");
    }
}
