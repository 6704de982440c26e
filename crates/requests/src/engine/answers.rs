//! Handling of a thread's events: answers, and failures that end a request without one.

use super::connection::State;
use super::record::Ending;
use super::slots::Slot;
use super::worker::Worker;
use crate::clock::{Nanos, now};
use crate::protocol::{Protocol, Step};
use rustix::event::epoll::EventFlags;

impl<P: Protocol> Worker<'_, P> {
    /// Handles all collected events.
    pub(super) fn read_all(&mut self) {
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            let number = event.data.u64() as u32;
            if matches!(self.connections[number as usize].state, State::Connecting { .. }) {
                self.connected(number);
                continue;
            }
            let flags = event.flags;
            if flags.contains(EventFlags::OUT)
                && self.connections[number as usize].flush(&self.epoll, number).is_err()
            {
                self.fail(number, Ending::Reset);
                continue;
            }
            if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                self.read(number);
            }
        }
        self.events = events;
    }

    /// Reads a connection's answers.
    fn read(&mut self, number: u32) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = self.connections[number as usize].read(&mut buffer);
        let at = now();
        match outcome {
            Ok(None) => {}
            Ok(Some(0)) => self.ended_by_server(number, at),
            Ok(Some(length)) => self.take_answers(number, &buffer[..length], at),
            Err(_) => self.fail(number, Ending::Reset),
        }
        self.buffer = buffer;
    }

    fn take_answers(&mut self, number: u32, mut input: &[u8], at: Nanos) {
        while !input.is_empty() {
            let connection = &mut self.connections[number as usize];
            let Some(first) = connection.pending.front() else {
                self.protocol_error(number, "an answer without a request");
                return;
            };
            match self.protocol.read(&mut connection.parser, first.expect, &mut input) {
                Ok(Step::More) => {}
                Ok(Step::Answer { outcome, last }) => {
                    self.complete(number, Ending::Answer(outcome), at);
                    if last {
                        self.fail(number, Ending::Reset);
                        return;
                    }
                    let generation = self.connections[number as usize].generation;
                    self.slots.push(Slot { connection: number, generation, freed: at });
                }
                Err(error) => {
                    self.protocol_error(number, error.0);
                    return;
                }
            }
        }
    }

    fn ended_by_server(&mut self, number: u32, at: Nanos) {
        let connection = &self.connections[number as usize];
        if let Some(outcome) = self.protocol.closed(&connection.parser)
            && !connection.pending.is_empty()
        {
            self.complete(number, Ending::Answer(outcome), at);
        }
        self.fail(number, Ending::Reset);
    }

    fn protocol_error(&mut self, number: u32, error: &'static str) {
        self.record.first_protocol_error.get_or_insert(error);
        // The answers that follow can no longer be separated.
        self.fail(number, Ending::Protocol);
    }

    /// Counts the oldest request of a connection as ended.
    pub(super) fn complete(&mut self, number: u32, ending: Ending, at: Nanos) {
        let connection = &mut self.connections[number as usize];
        let Some(request) = connection.pending.pop_front() else { return };
        connection.useful |= matches!(ending, Ending::Answer(_));
        self.outstanding -= 1;
        let latency = at.saturating_sub(request.intended);
        self.record.run.ended(ending);
        self.interval.ended(ending, latency);
        self.record.answered_in_window += u64::from(ending.served() && self.measured(at));
        if self.measured(request.intended) {
            self.record.window.ended(ending);
            if ending.served() {
                self.record.latency.record(latency);
                self.record.response.record(at.saturating_sub(request.sent));
            }
        }
    }

    /// Ends all requests of a connection and closes it, to be opened again. Only the oldest request
    /// can have broken the protocol or be too late; the others count as reset.
    pub(super) fn fail(&mut self, number: u32, why: Ending) {
        let at = now();
        let mut ending = why;
        while !self.connections[number as usize].pending.is_empty() {
            self.complete(number, ending, at);
            ending = Ending::Reset;
        }
        self.connections[number as usize].close(at);
        let generation = |number: u32| self.connections[number as usize].generation;
        self.slots.trim(2 * self.depth * self.connections.len(), generation);
        self.closed.push(number);
    }
}
