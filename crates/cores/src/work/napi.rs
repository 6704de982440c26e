//! Polls of NAPI: a poll takes packets until the ring is empty or its budget is spent. After a
//! short poll the queue interrupts again; after a full one it is polled again in its turn.

use super::{Core, Polled};
use crate::context::{Stop, Watched};

impl Core {
    /// Continues the present poll, or begins the next one. The estimator counts a poll at its end,
    /// when the kernel reports it, unless the poll took no packets.
    pub(super) fn napi_poll(&mut self, watched: &Watched) -> Polled {
        loop {
            let Some(napi) = &mut self.napi else { return Polled::Nothing };
            let Some(taken) = napi.taken else {
                match self.next_scheduled() {
                    Some(port) => self.begin_poll(port),
                    None => return Polled::Nothing,
                }
                continue;
            };
            let ring = &mut self.rings[self.port];
            ring.admit(self.at);
            let left = (napi.budget - taken).min(ring.fill().min(u32::MAX as usize) as u32);
            if left > 0 && !self.seen {
                napi.taken = Some(taken + left);
                ring.begin_batch(left);
                return Polled::Batch;
            }
            let full = taken == napi.budget;
            if taken == 0 {
                self.at += self.costs.empty_poll;
            } else if let Some(streaks) = &watched.streaks
                && let Some(above) = self.estimate.batch(self.at, self.port, taken as usize, taken)
                && streaks.asks(above)
                && !self.seen
            {
                return Polled::Stop(Stop::Streak { at: self.at, port: self.port, above });
            }
            (napi.taken, napi.scheduled[self.port]) = (None, full);
            if full && self.overloaded_since.is_none() {
                self.overloaded_since = Some(self.at);
            }
            self.estimate.batch_begins();
            self.seen = false;
            self.next_port = if self.port + 1 == self.rings.len() { 0 } else { self.port + 1 };
        }
    }

    fn begin_poll(&mut self, port: usize) {
        self.port = port;
        self.counts.polls += 1;
        if let Some(napi) = &mut self.napi {
            napi.taken = Some(0);
        }
    }

    /// Serves the interrupts that have reached the core, and returns the next port to be polled.
    fn next_scheduled(&mut self) -> Option<usize> {
        let napi = self.napi.as_mut()?;
        let raised = self.at.saturating_sub(self.delivery);
        for (port, ring) in self.rings.iter_mut().enumerate() {
            if !napi.scheduled[port] && ring.interrupt_due().is_some_and(|due| due <= raised) {
                napi.schedule(port);
                ring.interrupt_allowed = raised + self.moderation[port];
                self.counts.interrupts += 1;
                self.at += self.costs.interrupt;
            }
        }
        let ports = self.rings.len();
        let in_turn = (self.next_port..ports).chain(0..self.next_port);
        in_turn.into_iter().find(|port| napi.scheduled[*port])
    }
}
