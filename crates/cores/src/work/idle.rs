//! Waiting and waking of a core, and the accounting of its time.

use super::{Core, State};
use crate::context::Sink;
use crate::ring::Ring;
use crate::states::{CoreState, StateSpan};
use wattline_policy::{CoreSetting, Wait};

impl Core {
    /// Sleeps or keeps polling, because the rings are empty.
    pub(super) fn rest(&mut self, sink: &mut Sink) {
        self.end_overload();
        let wake_at = match self.wait() {
            Wait::Poll | Wait::Pause => {
                self.book(self.at, sink);
                self.state = State::Spinning;
                return;
            }
            Wait::Sleep(span) => Some(self.at + span.as_picos().max(1)),
            Wait::Interrupt => None,
        };
        self.book(self.at, sink);
        sink.awake.asleep(self.number, self.at);
        self.counts.sleeps += 1;
        let from = if self.active { 0 } else { self.setting.idle_limit };
        self.state = State::Idle { since: self.at, from, wake_at };
    }

    /// Wakes the core, by an interrupt or by its own timer.
    pub(super) fn wake(&mut self, at: u64, by_interrupt: bool, sink: &mut Sink) {
        let depth = self.depth(at);
        self.book(at, sink);
        sink.awake.awake(self.number, at);
        self.counts.interrupts += u64::from(by_interrupt);
        if by_interrupt {
            // Moderation belongs to a queue: queues that raised no interrupt may raise one as soon
            // as before.
            let raised = at - self.delivery;
            for (port, ring) in self.rings.iter_mut().enumerate() {
                if ring.interrupt_due().is_some_and(|due| due <= raised) {
                    ring.interrupt_allowed = raised + self.moderation[port];
                    if let Some(napi) = &mut self.napi {
                        napi.schedule(port);
                    }
                }
            }
        }
        self.at = at + self.extra_exit[depth] + self.costs.wake_up;
        self.state = State::Waking;
    }

    /// Inactive cores, to which no packets go, wait for an interrupt regardless of their setting;
    /// so does the kernel.
    fn wait(&self) -> Wait {
        if self.active && self.napi.is_none() { self.setting.wait } else { Wait::Interrupt }
    }

    pub(super) fn next_interrupt(&self) -> Option<u64> {
        let interrupt = |ring: &Ring| Some(ring.interrupt_due()?.saturating_add(self.delivery));
        self.rings.iter().filter_map(interrupt).min().map(|at| at.max(self.booked))
    }

    /// Idle state that the core has reached by `at`. An active core goes deeper the longer it
    /// sleeps, up to its limit; a removed core goes to its limit at once.
    fn depth(&self, at: u64) -> usize {
        let State::Idle { since, from, .. } = self.state else { return 0 };
        if !self.active {
            return from.max(self.setting.idle_limit);
        }
        let mut depth = from;
        while depth < self.setting.idle_limit && since + self.target_residency[depth + 1] <= at {
            depth += 1;
        }
        depth
    }

    /// Accounts the time up to `until` to the present state.
    pub fn book(&mut self, until: u64, sink: &mut Sink) {
        if until <= self.booked {
            return;
        }
        match self.state {
            State::Serving | State::Waking => {
                self.book_as(CoreState::Useful(self.costs.frequency), until, sink);
            }
            State::Spinning => self.book_as(CoreState::Empty(self.costs.frequency), until, sink),
            State::Idle { since, .. } => {
                // Each part is accounted to the state that the core was in.
                let mut depth = self.depth(self.booked);
                let deepest = self.depth(until);
                while depth < deepest {
                    let deeper_at = since + self.target_residency[depth + 1];
                    self.book_as(CoreState::Idle(depth), deeper_at, sink);
                    depth += 1;
                }
                self.book_as(CoreState::Idle(depth), until, sink);
            }
        }
    }

    fn book_as(&mut self, state: CoreState, until: u64, sink: &mut Sink) {
        if until <= self.booked {
            return;
        }
        self.spent.add(state, until - self.booked);
        if let Some(log) = &mut sink.states {
            let from_picos = self.booked;
            log.push(StateSpan { core: self.number, state, from_picos, until_picos: until });
        }
        self.booked = until;
    }

    /// Changes the setting of the core from `now` on.
    pub fn set(
        &mut self,
        now: u64,
        setting: CoreSetting,
        active: bool,
        batch: u32,
        moderation: impl Iterator<Item = u64>,
        sink: &mut Sink,
    ) {
        self.book(now, sink);
        let depth = self.depth(now);
        (self.setting, self.active, self.batch) = (setting, active, batch.max(1));
        for (mine, new) in self.moderation.iter_mut().zip(moderation) {
            *mine = new;
        }
        match (self.state, self.wait()) {
            (State::Idle { .. }, Wait::Poll | Wait::Pause) => {
                self.wake(now.max(self.booked), false, sink)
            }
            (State::Idle { wake_at: Some(_), .. }, Wait::Sleep(_)) => {}
            (State::Idle { .. }, Wait::Sleep(span)) => {
                let wake_at = Some(now + span.as_picos().max(1));
                self.state = State::Idle { since: now, from: depth, wake_at };
            }
            (State::Idle { since, .. }, Wait::Interrupt) => {
                // A core that was parked stays as deep as it is until its first packet.
                let from = if active { depth } else { depth.max(setting.idle_limit) };
                let since = if from == depth && active { since } else { now };
                self.state = State::Idle { since, from, wake_at: None };
            }
            (State::Spinning, Wait::Interrupt | Wait::Sleep(_)) => {
                self.at = now.max(self.at);
                self.rest(sink);
            }
            (State::Spinning, Wait::Poll | Wait::Pause) | (State::Serving | State::Waking, _) => {}
        }
    }

    /// Idle state of the core at `now`; `None` if it is awake.
    pub fn idle_state(&self, now: u64) -> Option<usize> {
        matches!(self.state, State::Idle { .. }).then(|| self.depth(now))
    }
}
