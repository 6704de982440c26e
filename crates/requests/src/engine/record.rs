//! Measurements of a thread.

use crate::clock::{Nanos, seconds};
use crate::latency::Times;
use crate::protocol::Outcome;
use serde::Serialize;
use std::ops::AddAssign;

/// Largest number of operations of a protocol.
pub(crate) const OPERATIONS: usize = 4;

/// Requests that were not served, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Failures {
    /// The connection was closed or reset before the answer was complete.
    #[serde(rename = "reset_requests")]
    pub reset: u64,
    /// No complete answer within the timeout after sending.
    #[serde(rename = "timeout_requests")]
    pub timeout: u64,
    /// Answers that broke the protocol.
    #[serde(rename = "protocol_error_requests")]
    pub protocol: u64,
    /// The server reported an error of its own.
    #[serde(rename = "server_error_requests")]
    pub server_error: u64,
    /// The server reported an error in the request.
    #[serde(rename = "client_error_requests")]
    pub client_error: u64,
    /// Due within the measured time, but no connection was free until its end.
    #[serde(rename = "unsent_requests")]
    pub unsent: u64,
}

impl Failures {
    /// Returns the sum over all kinds.
    pub fn total(&self) -> u64 {
        let Self { reset, timeout, protocol, server_error, client_error, unsent } = self;
        reset + timeout + protocol + server_error + client_error + unsent
    }
}

impl AddAssign for Failures {
    fn add_assign(&mut self, other: Self) {
        self.reset += other.reset;
        self.timeout += other.timeout;
        self.protocol += other.protocol;
        self.server_error += other.server_error;
        self.client_error += other.client_error;
        self.unsent += other.unsent;
    }
}

/// Requests by ending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Due by the schedule.
    pub due: u64,
    /// Handed to the kernel, by operation.
    pub sent: [u64; OPERATIONS],
    /// Served, misses included.
    pub served: u64,
    /// Served requests for keys that the server does not have.
    pub misses: u64,
    /// Failed requests.
    pub failures: Failures,
}

impl Counts {
    /// Returns the number of sent requests of all operations.
    pub fn sent_total(&self) -> u64 {
        self.sent.iter().sum()
    }

    pub(super) fn ended(&mut self, ending: Ending) {
        match ending {
            Ending::Answer(Outcome::Done) => self.served += 1,
            Ending::Answer(Outcome::Miss) => {
                self.served += 1;
                self.misses += 1;
            }
            Ending::Answer(Outcome::ClientError) => self.failures.client_error += 1,
            Ending::Answer(Outcome::ServerError) => self.failures.server_error += 1,
            Ending::Reset => self.failures.reset += 1,
            Ending::Timeout => self.failures.timeout += 1,
            Ending::Protocol => self.failures.protocol += 1,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.due += other.due;
        self.sent.iter_mut().zip(other.sent).for_each(|(mine, other)| *mine += other);
        self.served += other.served;
        self.misses += other.misses;
        self.failures += other.failures;
    }
}

/// Ending of a request that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Answer(Outcome),
    Reset,
    Timeout,
    Protocol,
}

impl Ending {
    /// Returns true if the request was served, so that its time counts as a latency.
    pub fn served(self) -> bool {
        matches!(self, Self::Answer(Outcome::Done | Outcome::Miss))
    }
}

/// Measurements of one or more threads.
#[derive(Debug, Clone, Default)]
pub struct Recording {
    /// Length of the measured time; less than requested if the load was stopped.
    pub measured: Nanos,
    /// Requests due in the measured time.
    pub window: Counts,
    /// Requests of the whole run, warm-up included.
    pub run: Counts,
    /// Requests sent during the measured time, whenever they were due.
    pub sent_in_window: u64,
    /// Requests answered during the measured time, whenever they were due.
    pub answered_in_window: u64,
    /// Latency of the served requests of the window, from their intended times.
    pub latency: Times,
    /// The same from the moment of sending: without the wait for a connection.
    pub response: Times,
    /// Lateness of the generator itself: from the later of the intended time and the moment when a
    /// connection was free.
    pub lateness: Times,
    /// Duration of the event loop's turns that had work. It bounds the time that an answer lies
    /// unread.
    pub turns: Times,
    /// Total nanoseconds that requests of the window waited for a free connection.
    pub slot_wait: u128,
    /// Total nanoseconds that the generator was late by itself.
    pub own_wait: u128,
    /// Failed attempts to reopen a connection.
    pub connect_failures: u64,
    /// Reopened connections.
    pub reconnects: u64,
    /// First protocol error, for the message.
    pub first_protocol_error: Option<&'static str>,
    /// Use of each thread in the window.
    pub threads: Vec<ThreadUse>,
}

/// Use of a thread in the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ThreadUse {
    /// Processor time.
    pub cpu_seconds: f64,
    /// Share of the time that the thread was awake; turns of a spinning thread without work do not
    /// count.
    pub busy_ratio: f64,
    /// Share of the time that the thread was runnable but had no processor
    /// (`/proc/thread-self/schedstat`); `None` if the kernel does not report it.
    pub run_delay_ratio: Option<f64>,
}

impl Recording {
    /// Adds another thread's measurements.
    pub(super) fn add(&mut self, other: &Self) {
        self.measured = self.measured.max(other.measured);
        self.window += other.window;
        self.run += other.run;
        self.sent_in_window += other.sent_in_window;
        self.answered_in_window += other.answered_in_window;
        self.latency.add(&other.latency);
        self.response.add(&other.response);
        self.lateness.add(&other.lateness);
        self.turns.add(&other.turns);
        self.slot_wait += other.slot_wait;
        self.own_wait += other.own_wait;
        self.connect_failures += other.connect_failures;
        self.reconnects += other.reconnects;
        self.first_protocol_error = self.first_protocol_error.or(other.first_protocol_error);
        self.threads.extend_from_slice(&other.threads);
    }
}

/// Processor usage of the calling thread so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    at: Nanos,
    cpu: Nanos,
    run_delay: Option<Nanos>,
    idle: Nanos,
}

impl Usage {
    /// Reads the present usage of a thread that has been idle for `idle` in total.
    pub fn now(at: Nanos, idle: Nanos) -> Self {
        let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
        let run_delay =
            schedstat.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse().ok());
        Self { at, cpu: crate::clock::thread_cpu_time(), run_delay, idle }
    }

    /// Returns the use from `self` until `end`.
    pub fn until(&self, end: &Self) -> ThreadUse {
        let wall = end.at.saturating_sub(self.at).max(1) as f64;
        let ratio = |nanos: Nanos| nanos as f64 / wall;
        ThreadUse {
            cpu_seconds: seconds(end.cpu.saturating_sub(self.cpu)),
            busy_ratio: 1.0 - ratio(end.idle.saturating_sub(self.idle)).min(1.0),
            run_delay_ratio: self
                .run_delay
                .zip(end.run_delay)
                .map(|(before, after)| ratio(after.saturating_sub(before))),
        }
    }
}
