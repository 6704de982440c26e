//! Closed and unresponsive connections of a thread.

use super::connection::State;
use super::record::Ending;
use super::slots::Slot;
use super::worker::{LONGEST_SLEEP, Worker};
use crate::clock::{Nanos, now};
use crate::protocol::Protocol;
use std::io;
use std::net::SocketAddr;

impl<P: Protocol> Worker<'_, P> {
    pub(super) fn connected(&mut self, number: u32) {
        let connection = &mut self.connections[number as usize];
        let at = now();
        if connection.finish_connect(&self.epoll, number).is_err() {
            self.record.connect_failures += 1;
            connection.close(at);
            self.closed.push(number);
            return;
        }
        self.record.reconnects += 1;
        let generation = connection.generation;
        for _ in 0..self.depth {
            self.slots.push(Slot { connection: number, generation, freed: at });
        }
    }

    /// Reopens closed connections, and ends requests and connects that take too long.
    pub(super) fn maintain_connections(&mut self, at: Nanos) {
        if at >= self.next_scan {
            self.end_overdue(at);
        }
        for number in std::mem::take(&mut self.closed) {
            let State::Closed { retry_at } = self.connections[number as usize].state else {
                continue;
            };
            if retry_at > at {
                self.closed.push(number);
            } else if self.begin_connect(number, at).is_err() {
                self.record.connect_failures += 1;
                self.connections[number as usize].close(at);
                self.closed.push(number);
            }
        }
    }

    fn end_overdue(&mut self, at: Nanos) {
        // Notices a timeout late by a twentieth of it at most.
        self.next_scan = at + (self.timeout / 20).clamp(500_000, LONGEST_SLEEP);
        for number in 0..self.connections.len() as u32 {
            let connection = &mut self.connections[number as usize];
            let over = |since: Nanos| at.saturating_sub(since) > self.timeout;
            if let State::Connecting { since, .. } = connection.state
                && over(since)
            {
                self.record.connect_failures += 1;
                connection.close(at);
                self.closed.push(number);
            } else if connection.pending.front().is_some_and(|first| over(first.sent)) {
                self.fail(number, Ending::Timeout);
            }
        }
    }

    pub(super) fn begin_connect(&mut self, number: u32, at: Nanos) -> io::Result<()> {
        let address = self.address(number);
        self.connections[number as usize].connect(&self.epoll, number, &address, at)
    }

    pub(super) fn address(&self, number: u32) -> SocketAddr {
        self.addresses[self.connections[number as usize].target]
    }
}
