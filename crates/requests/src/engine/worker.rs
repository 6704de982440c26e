//! One thread of the generator.

use super::connection::{Connection, State};
use super::interval::{Open, Part};
use super::options::{LoadOptions, nanos};
use super::record::{Ending, Recording, Usage};
use super::slots::{Slot, Slots};
use crate::clock::{Nanos, now};
use crate::protocol::Protocol;
use crate::schedule::Schedule;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, Event};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// Requests that are sent before the next check for answers.
const BURST: usize = 64;
/// Events that are collected at once.
const EVENTS: usize = 256;
/// Bytes that are read at once. Connections share the buffer.
const BUFFER: usize = 1 << 17;
/// Longest time between two checks of the stop flag.
pub(super) const LONGEST_SLEEP: Nanos = 50_000_000;
/// Connections that are opened concurrently before the load begins.
const OPENING: usize = 64;

/// A thread's part of the load.
pub(super) struct Worker<'a, P: Protocol> {
    pub(super) protocol: P,
    pub(super) schedule: Schedule,
    pub(super) connections: Vec<Connection<P>>,
    pub(super) addresses: &'a [SocketAddr],
    pub(super) epoll: OwnedFd,
    pub(super) slots: Slots,
    pub(super) depth: usize,
    pub(super) timeout: Nanos,
    pub(super) spin: bool,
    /// Start of the load, and start and end of the measured time.
    pub(super) start: Nanos,
    pub(super) window: (Nanos, Nanos),
    /// Connections with requests to write.
    pub(super) dirty: Vec<u32>,
    /// Connections to reopen.
    pub(super) closed: Vec<u32>,
    pub(super) outstanding: usize,
    pub(super) next_scan: Nanos,
    pub(super) idle: Nanos,
    pub(super) interval: Open,
    pub(super) record: Recording,
    pub(super) buffer: Vec<u8>,
    pub(super) events: Vec<Event>,
    pub(super) stop: &'a AtomicBool,
    pub(super) parts: Sender<Part>,
}

/// Parameters of a worker except its protocol.
pub(super) struct Setting<'a> {
    pub options: &'a LoadOptions,
    pub addresses: &'a [SocketAddr],
    pub thread: usize,
    pub stop: &'a AtomicBool,
    pub parts: Sender<Part>,
}

impl<'a, P: Protocol> Worker<'a, P> {
    /// Creates a worker whose connections are not opened yet.
    pub fn new(protocol: P, setting: Setting<'a>) -> io::Result<Self> {
        let Setting { options, addresses, thread, stop, parts } = setting;
        let LoadOptions { arrivals, rate, threads, seed, .. } = *options;
        // Connection c of all is connection c / threads of thread c % threads.
        let mine = (thread..options.connections).step_by(threads);
        let connections = mine.map(|number| Connection::new(number % addresses.len())).collect();
        Ok(Self {
            protocol,
            schedule: Schedule::new(arrivals, rate, thread, threads, seed),
            connections,
            addresses,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            slots: Slots::default(),
            depth: options.depth,
            timeout: nanos(options.timeout),
            spin: options.spin,
            start: 0,
            window: (nanos(options.warmup), nanos(options.warmup) + nanos(options.duration)),
            dirty: Vec::new(),
            closed: Vec::new(),
            outstanding: 0,
            next_scan: 0,
            idle: 0,
            interval: Open::new(thread, nanos(options.interval)),
            record: Recording::default(),
            buffer: vec![0; BUFFER],
            events: Vec::with_capacity(EVENTS),
            stop,
            parts,
        })
    }

    /// Opens all connections.
    ///
    /// # Errors
    /// Fails at the first connection that cannot be opened, with its address.
    pub fn open(&mut self) -> Result<(), (SocketAddr, io::Error)> {
        let (mut begun, mut open) = (0, 0);
        while open < self.connections.len() {
            while begun < self.connections.len() && begun - open < OPENING {
                self.begin_connect(begun as u32, now())
                    .map_err(|error| (self.address(begun as u32), error))?;
                begun += 1;
            }
            self.sleep(LONGEST_SLEEP);
            self.take_events().map_err(|error| (self.addresses[0], error))?;
            for index in 0..self.events.len() {
                let number = self.events[index].data.u64() as u32;
                let connection = &mut self.connections[number as usize];
                if matches!(connection.state, State::Connecting { .. }) {
                    connection
                        .finish_connect(&self.epoll, number)
                        .map_err(|error| (self.address(number), error))?;
                    open += 1;
                }
            }
            let late = |connection: &Connection<P>| match connection.state {
                State::Connecting { since, .. } => now().saturating_sub(since) > self.timeout,
                _ => false,
            };
            if let Some(number) = self.connections.iter().position(late) {
                return Err((self.address(number as u32), io::ErrorKind::TimedOut.into()));
            }
        }
        for place in 0..self.depth * self.connections.len() {
            let connection = (place % self.connections.len()) as u32;
            let generation = self.connections[connection as usize].generation;
            self.slots.push(Slot { connection, generation, freed: 0 });
        }
        Ok(())
    }

    /// Runs the load, which begins at `start`, to its end, and waits for the last answers.
    pub fn run(mut self, start: Nanos) -> io::Result<Recording> {
        self.start = start;
        self.window = (start + self.window.0, start + self.window.1);
        let mut begin = None;
        let mut end = None;
        let mut turn = now();
        loop {
            let stopped = self.stop.load(Ordering::Relaxed);
            if stopped && turn < self.window.1 {
                self.window.1 = turn;
            }
            if begin.is_none() && turn >= self.window.0 {
                begin = Some(Usage::now(turn, self.idle));
            }
            if end.is_none() && turn >= self.window.1 {
                end = Some(Usage::now(turn, self.idle));
                // Requests that are due and have a slot are late only because of this thread, so
                // they are still sent.
                while self.send(turn) > 0 {}
                self.count_unsent();
            }
            let sent = if end.is_none() { self.send(turn) } else { 0 };
            self.maintain_connections(turn);
            if end.is_some() && self.outstanding == 0 {
                break;
            }
            let asleep = self.wait_for_events(sent < BURST, end.is_some())?;
            self.idle += asleep;
            // Sleep is not part of a turn.
            turn += asleep;
            let seen = self.events.len();
            self.read_all();
            let after = now();
            let length = after.saturating_sub(turn);
            if seen > 0 || sent > 0 {
                if begin.is_some() && end.is_none() {
                    self.record.turns.record(length);
                }
            } else if self.spin {
                self.idle += length;
            }
            turn = after;
            self.publish(turn);
        }
        let _ = self.parts.send(self.interval.turn(now().saturating_sub(start), self.end()));
        self.record.measured = self.window.1.saturating_sub(self.window.0);
        if let (Some(begin), Some(end)) = (begin, end) {
            self.record.threads.push(begin.until(&end));
        }
        Ok(self.record)
    }

    /// Returns the end of the load, since its start.
    fn end(&self) -> Nanos {
        self.window.1.saturating_sub(self.start)
    }

    fn publish(&mut self, at: Nanos) {
        let since = at.saturating_sub(self.start);
        if since >= self.interval.end() {
            // The receiver may be gone.
            let _ = self.parts.send(self.interval.turn(since, self.end()));
        }
    }

    /// Returns true if a request due at this time is measured.
    pub(super) fn measured(&self, intended: Nanos) -> bool {
        (self.window.0..self.window.1).contains(&intended)
    }

    /// Sends the requests that are due while slots are free; returns their number.
    fn send(&mut self, at: Nanos) -> usize {
        let mut sent = 0;
        while sent < BURST {
            let intended = self.start + self.schedule.peek();
            if intended > at || intended >= self.window.1 {
                break;
            }
            let generation = |number: u32| self.connections[number as usize].generation;
            let Some(slot) = self.slots.pop(generation) else { break };
            self.schedule.advance();
            if self.measured(intended) {
                self.record.window.due += 1;
            }
            self.record.run.due += 1;
            let connection = &mut self.connections[slot.connection as usize];
            if connection.fresh == 0 {
                self.dirty.push(slot.connection);
            }
            connection.append(&mut self.protocol, intended, slot.freed);
            self.outstanding += 1;
            sent += 1;
        }
        while let Some(number) = self.dirty.pop() {
            self.flush(number);
        }
        sent
    }

    /// Writes a connection's new requests and records the time.
    fn flush(&mut self, number: u32) {
        let connection = &mut self.connections[number as usize];
        let sent = now();
        let first = connection.pending.len() - connection.fresh;
        let in_window = (self.window.0..self.window.1).contains(&sent);
        for index in first..connection.pending.len() {
            let request = &mut connection.pending[index];
            request.sent = sent;
            let operation = P::operation(request.expect);
            self.record.run.sent[operation] += 1;
            self.record.sent_in_window += u64::from(in_window);
            self.interval.sent(operation, 1);
            if (self.window.0..self.window.1).contains(&request.intended) {
                self.record.window.sent[operation] += 1;
                let could = request.intended.max(request.freed);
                let late = sent.saturating_sub(could);
                self.record.lateness.record(late);
                self.record.own_wait += u128::from(late);
                self.record.slot_wait += u128::from(could - request.intended);
            }
        }
        connection.fresh = 0;
        if connection.flush(&self.epoll, number).is_err() {
            self.fail(number, Ending::Reset);
        }
    }

    /// Counts the requests of the window that were due but not sent.
    fn count_unsent(&mut self) {
        loop {
            let intended = self.start + self.schedule.peek();
            if intended >= self.window.1 {
                return;
            }
            self.schedule.advance();
            self.record.run.due += 1;
            self.record.run.failures.unsent += 1;
            if self.measured(intended) {
                self.record.window.due += 1;
                self.record.window.failures.unsent += 1;
            }
        }
    }

    /// Returns the time of the next work that no event announces.
    fn next_work(&self, ended: bool) -> Nanos {
        let mut wake = (now() + LONGEST_SLEEP).min(self.start + self.interval.end());
        if self.outstanding > 0 || !self.closed.is_empty() {
            wake = wake.min(self.next_scan);
        }
        if !ended {
            wake = wake.min(self.window.1);
            let due = self.start + self.schedule.peek();
            if !self.slots.is_empty() {
                wake = wake.min(due);
            }
        }
        wake
    }

    /// Collects pending events. If there are none and nothing else is to be done (`may_sleep`),
    /// waits for an event until the next work is due. Returns the duration of the sleep.
    fn wait_for_events(&mut self, may_sleep: bool, ended: bool) -> io::Result<Nanos> {
        self.take_events()?;
        if !may_sleep || self.spin || !self.events.is_empty() {
            return Ok(0);
        }
        let (before, wake) = (now(), self.next_work(ended));
        if wake <= before {
            return Ok(0);
        }
        self.sleep(wake - before);
        let slept = now() - before;
        self.take_events()?;
        Ok(slept)
    }

    /// Waits for an event for up to `length`, with nanosecond resolution; epoll alone rounds up to
    /// milliseconds.
    fn sleep(&self, length: Nanos) {
        let timeout = Timespec {
            tv_sec: (length / crate::clock::SECOND) as i64,
            tv_nsec: (length % crate::clock::SECOND) as i64,
        };
        // An interrupted sleep is only shorter.
        let _ = poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&timeout));
    }

    fn take_events(&mut self) -> io::Result<()> {
        self.events.clear();
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&at_once)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
