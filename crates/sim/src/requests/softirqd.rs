//! ksoftirqd and the application on one core, as in Linux 4.16.
//!
//! Softirqs precede the application until they have been restarted ten times or for 2 ms
//! (kernel/softirq.c, `MAX_SOFTIRQ_RESTART`, `MAX_SOFTIRQ_TIME`). Then ksoftirqd takes over, and no
//! interrupt runs them until it is done (`ksoftirqd_running`, since 4.9). It is a task like the
//! application, and the fair scheduler divides the core between both (kernel/sched/fair.c): a turn
//! is half the scheduler's period; a task that slept is credited as much, and takes the core at
//! once if it is behind by more than the granularity of wake-ups.

/// Restarts after which ksoftirqd takes over.
const RESTARTS: u32 = 10;
/// Time after which ksoftirqd takes over, in picoseconds.
const LONGEST: u64 = 2_000_000_000;
/// Part of a turn that is the wake-up granularity: 1 of the period's 6 ms.
const WAKE: i64 = 3;
/// Part of a turn that is the minimum granularity: 0.75 of the period's 6 ms.
const LEAST: u64 = 4;

/// State of ksoftirqd on one core. All times are in picoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct Softirqd {
    /// Half the scheduler's period; zero without ksoftirqd.
    slice: u64,
    /// True if it has work and takes it from the softirqs.
    runnable: bool,
    /// True if it has the core; otherwise the application has.
    running: bool,
    /// Time for which the present holder of the core has had it while the other waits.
    ran: u64,
    /// Run time of ksoftirqd beyond that of the application.
    lead: i64,
    /// Start and restarts of the softirqs in progress.
    since: u64,
    restarts: u32,
}

impl Softirqd {
    pub fn new(slice: u64) -> Self {
        // Asleep until now, so it has a sleeper's credit.
        Self { slice, lead: -(slice as i64), ..Self::default() }
    }

    /// Returns true if softirqs wait for the application's turn to end.
    #[inline]
    pub fn waits(&self) -> bool {
        self.runnable && !self.running
    }

    /// Returns the rest of the application's turn while ksoftirqd waits.
    pub fn rest(&self) -> u64 {
        self.slice.saturating_sub(self.ran).max(1)
    }

    /// Notes the start of a poll; `goes_on` if it follows another without a pause.
    #[inline]
    pub fn poll(&mut self, now: u64, goes_on: bool) {
        if goes_on {
            self.restarts += 1;
        } else {
            (self.since, self.restarts) = (now, 0);
        }
    }

    /// Accounts a poll that took `picos` until `now`. `pending` if another one is due, `waiting` if
    /// the application has work, `woken` if this poll delivered that work.
    pub fn polled(&mut self, now: u64, picos: u64, [pending, waiting, woken]: [bool; 3]) {
        if self.slice == 0 {
            return;
        }
        let slice = self.slice as i64;
        if !self.runnable {
            let long = self.restarts >= RESTARTS || now - self.since >= LONGEST;
            if pending && long {
                self.runnable = true;
                self.lead = self.lead.max(-slice);
                self.running = !waiting || -self.lead > slice / WAKE;
                self.ran = 0;
            }
            return;
        }
        self.lead += picos as i64;
        if !pending {
            self.runnable = false;
            return;
        }
        if woken {
            self.lead = self.lead.min(slice);
            self.ran = 0;
        }
        self.ran += picos;
        let preempted = woken && self.lead > slice / WAKE;
        if waiting && (preempted || self.is_over(self.lead)) {
            (self.running, self.ran) = (false, 0);
        }
    }

    /// Accounts work of the application while ksoftirqd waits; `done` if it has no more.
    pub fn served(&mut self, picos: u64, done: bool) {
        self.lead -= picos as i64;
        self.ran += picos;
        if done || self.is_over(-self.lead) {
            (self.running, self.ran) = (true, 0);
        }
    }

    /// Returns true if the turn of the task that is ahead by `lead` is over.
    fn is_over(&self, lead: i64) -> bool {
        self.ran >= self.slice || (self.ran >= self.slice / LEAST && lead > self.slice as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: u64 = 1_000_000_000;

    #[test]
    fn ksoftirqd_takes_over_after_ten_restarts_or_two_milliseconds() {
        for (polls, each, expected) in [(10, 1, false), (11, 1, true), (2, MILLI, true)] {
            let mut softirqd = Softirqd::new(12 * MILLI);
            let mut now = 0;
            for poll in 0..polls {
                softirqd.poll(now, poll > 0);
                now += each;
                softirqd.polled(now, each, [true, true, false]);
            }
            assert_eq!(softirqd.runnable, expected, "{polls} polls of {each}");
        }
    }

    #[test]
    fn both_take_turns_and_without_a_slice_there_is_no_ksoftirqd() {
        let mut softirqd = Softirqd::new(12 * MILLI);
        let (mut now, mut kernel) = (0, 0);
        for step in 0..4_000 {
            if softirqd.waits() {
                softirqd.served(MILLI, false);
            } else {
                softirqd.poll(now, step > 0);
                softirqd.polled(now + MILLI, MILLI, [true, true, false]);
                kernel += 1;
            }
            now += MILLI;
        }
        assert!((1_950..2_050).contains(&kernel), "{kernel} of 4,000");
        let mut none = Softirqd::new(0);
        none.poll(0, true);
        none.polled(9 * MILLI, 9 * MILLI, [true, true, false]);
        assert!(!none.runnable && !none.waits());
    }

    #[test]
    fn ksoftirqd_sleeps_when_nothing_is_pending_and_runs_on_when_the_application_does() {
        let mut softirqd = Softirqd::new(12 * MILLI);
        softirqd.polled(3 * MILLI, 3 * MILLI, [true, true, false]);
        assert!(softirqd.runnable && softirqd.running, "credit of a sleeper");
        softirqd.polled(30 * MILLI, 20 * MILLI, [true, true, false]);
        assert!(softirqd.waits());
        softirqd.served(MILLI, true);
        assert!(!softirqd.waits() && softirqd.running);
        softirqd.polled(31 * MILLI, MILLI, [false, true, false]);
        assert!(!softirqd.runnable);
    }
}
