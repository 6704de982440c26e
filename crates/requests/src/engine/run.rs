//! A load from start to end.

use super::interval::{Collector, Interval, Part};
use super::options::{LoadOptions, OptionsError, nanos};
use super::record::Recording;
use super::worker::{Setting, Worker};
use crate::clock::{Nanos, now};
use crate::latency::Times;
use crate::protocol::Protocol;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use thiserror::Error;

/// Files that the program needs in addition to connections.
const OTHER_FILES: u64 = 64;
/// Time between the last connection and the first request, for all threads to reach their loops.
const LEAD: Nanos = 5_000_000;

/// Reason why a load could not begin or was aborted.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Options outside their ranges.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Options(Vec<OptionsError>),
    /// No server.
    #[error("no server to send requests to")]
    NoTarget,
    /// A connection could not be opened before the load began.
    #[error("{address}: cannot connect: {error}")]
    Connect {
        /// The server.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// The process may not open enough files for the connections.
    #[error(
        "{connections} connections need more files than this process may open ({limit}); raise it \
         with ulimit -n"
    )]
    Files {
        /// Requested number.
        connections: usize,
        /// The hard limit.
        limit: u64,
    },
    /// A thread's event loop failed.
    #[error("the event loop failed: {0}")]
    Loop(#[from] io::Error),
    /// A thread panicked, which is a defect of the generator.
    #[error("a thread of the generator ended by a panic; this is a defect")]
    Panic,
}

/// Runs the load and returns the recording of all threads, and all intervals.
///
/// `protocol` returns the protocol of a thread by its number. `live` is called with each complete
/// interval and its latencies, which are not kept. `stop` ends the load early; the measurements
/// until then are returned.
///
/// # Errors
/// Fails when options are wrong, or when a connection cannot be opened before the load begins.
/// Later failures are counted.
pub fn run<P: Protocol>(
    options: &LoadOptions,
    addresses: &[SocketAddr],
    protocol: impl Fn(usize) -> P,
    stop: &AtomicBool,
    mut live: impl FnMut(&Interval, &Times),
) -> Result<(Recording, Vec<Interval>), LoadError> {
    options.check().map_err(LoadError::Options)?;
    if addresses.is_empty() {
        return Err(LoadError::NoTarget);
    }
    raise_file_limit(options.connections)?;
    let (parts, part_reader) = mpsc::channel::<Part>();
    let (opened, opened_reader) = mpsc::channel::<Result<(), LoadError>>();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut starts = Vec::new();
        for thread in 0..options.threads {
            let (start, start_reader) = mpsc::channel::<Nanos>();
            let (parts, opened, protocol) = (parts.clone(), opened.clone(), protocol(thread));
            let setting = Setting { options, addresses, thread, stop, parts };
            starts.push(start);
            threads.push(scope.spawn(move || make(protocol, setting, &opened, &start_reader)));
        }
        // Each thread has its own clones; without these, the receivers end with the last thread.
        drop((parts, opened));
        for _ in 0..options.threads {
            // Returning drops the senders of the start, which ends the threads.
            opened_reader.recv().map_err(|_| LoadError::Panic)??;
        }
        let start = now() + LEAD;
        for thread in starts {
            thread.send(start).map_err(|_| LoadError::Panic)?;
        }

        let (warmup, duration) = (nanos(options.warmup), nanos(options.duration));
        let length = nanos(options.interval);
        let mut collector = Collector::new(options.threads, length, warmup, warmup + duration);
        let mut intervals = Vec::new();
        for part in part_reader {
            for (interval, latency) in collector.take(&part) {
                live(&interval, &latency);
                intervals.push(interval);
            }
        }
        for (interval, latency) in collector.finish() {
            live(&interval, &latency);
            intervals.push(interval);
        }
        let mut all = Recording::default();
        for thread in threads {
            if let Some(recording) = thread.join().map_err(|_| LoadError::Panic)?? {
                all.add(&recording);
            }
        }
        Ok((all, intervals))
    })
}

/// Body of one thread; returns `None` if the load was never started.
fn make<P: Protocol>(
    protocol: P,
    setting: Setting<'_>,
    opened: &mpsc::Sender<Result<(), LoadError>>,
    start: &mpsc::Receiver<Nanos>,
) -> Result<Option<Recording>, LoadError> {
    let stop = setting.stop;
    let open = || {
        let mut worker = Worker::new(protocol, setting)?;
        worker.open().map_err(|(address, error)| LoadError::Connect { address, error })?;
        Ok(worker)
    };
    let worker = match open() {
        Ok(worker) => worker,
        Err(error) => {
            let _ = opened.send(Err(error));
            return Ok(None);
        }
    };
    let _ = opened.send(Ok(()));
    let Ok(start) = start.recv() else { return Ok(None) };
    // Sleeps end on time, not up to 50 us later. If the kernel refuses, the measured lateness shows
    // it.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let outcome = worker.run(start);
    if outcome.is_err() {
        stop.store(true, Ordering::Relaxed);
    }
    Ok(Some(outcome?))
}

/// Raises the soft limit of open files to one for each connection, within the hard limit.
fn raise_file_limit(connections: usize) -> Result<(), LoadError> {
    let needed = connections as u64 + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if let Some(limit) = limit.maximum.filter(|most| *most < needed) {
        return Err(LoadError::Files { connections, limit });
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum })
        .map_err(|error| LoadError::Loop(error.into()))
}
