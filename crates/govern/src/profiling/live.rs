//! A real server on this machine, under load.

use super::machine::{Machine, MachineError};
use super::{At, Grid, LoadFailure, NotSet, Rig, Run};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattline_linux::namespace::{NamespaceError, enter_thread};
use wattline_requests::engine::{self, LoadError, LoadOptions};
use wattline_requests::protocol::Protocol;
use wattline_requests::{Cause, Report};

/// Generates a load of a rate, with a seed, and returns its report.
pub type Loader = Box<dyn FnMut(f64, u64) -> Result<Report, LoadFailure>>;

/// Largest share of failed requests of a sustained load. With more failures its 99th percentile
/// would not describe the server.
const FAILED: f64 = 1e-3;
/// Smallest share of requests that a sustained load serves. A server that keeps the generator
/// waiting for connections serves less.
const SERVED: f64 = 0.97;

/// Maximum age of a card's counters.
const COUNTED: Duration = Duration::from_millis(110);
/// Time within which every meter is read again. A load that begins after it contains no energy of
/// the point before.
const METERED: Duration = Duration::from_millis(270);

/// Runs a function on a thread in a network namespace, or on this thread without one. Sockets and
/// threads that it creates belong to that namespace, too.
///
/// # Errors
/// Fails if the namespace does not exist or may not be entered.
pub fn within<T: Send>(
    namespace: Option<&str>,
    run: impl FnOnce() -> T + Send,
) -> Result<T, NamespaceError> {
    let Some(name) = namespace else { return Ok(run()) };
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || enter_thread(name).map(|()| run()));
        match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Returns a loader that uses Wattline's own generator. Its connections start in the network
/// namespace, if one is given, to reach a card of this machine through another one that is cabled
/// to it. `stop` ends the load.
pub fn loader<P: Protocol>(
    name: &'static str,
    options: LoadOptions,
    addresses: Vec<SocketAddr>,
    protocol: impl Fn(usize) -> P + Send + Sync + 'static,
    (stop, namespace): (Arc<AtomicBool>, Option<String>),
) -> Loader {
    Box::new(move |rate, seed| {
        let options = LoadOptions { rate, seed: options.seed ^ seed, ..options.clone() };
        let run = || engine::run(&options, &addresses, &protocol, &stop, |_, _| {});
        let made = within(namespace.as_deref(), run)
            .map_err(|error| LoadFailure::Server(error.to_string()))?;
        if stop.load(Ordering::Relaxed) {
            return Err(LoadFailure::Interrupted);
        }
        let (recording, intervals) =
            made.map_err(|error: LoadError| LoadFailure::Server(error.to_string()))?;
        Ok(Report::new::<P>(name, Vec::new(), &options, &recording, intervals))
    })
}

/// The server, its load, and the machine.
pub struct Live {
    machine: Machine,
    grid: Grid,
    load: Loader,
    /// Largest number of requests in one packet.
    depth: usize,
}

impl Live {
    /// Prepares a profile of a machine under a load, in which up to `depth` requests of a
    /// connection share a packet. Energy includes the load's warm-up; latencies do not.
    pub fn new(machine: Machine, grid: Grid, load: Loader, depth: usize) -> Self {
        Self { machine, grid, load, depth }
    }

    /// Restores the machine.
    ///
    /// # Errors
    /// Fails if some settings could not be restored.
    pub fn end(self) -> Result<(), MachineError> {
        self.machine.end()
    }
}

impl Rig for Live {
    fn set(&mut self, at: At) -> Result<Option<f64>, NotSet> {
        let (state, period) = match at {
            At::Default { .. } => (self.machine.platform().fastest(), None),
            At::Point { state, period, .. } => (state, Some(self.grid.periods[period])),
        };
        self.machine.set(state, period)
    }

    fn holds(&mut self, _at: At) -> Result<(), NotSet> {
        self.machine.holds()
    }

    fn load(&mut self, rate_rps: f64, number: u64) -> Result<Run, LoadFailure> {
        // Meters and cards are read periodically, so wait until they include the time before the
        // load.
        std::thread::sleep(METERED);
        let arrivals = self.machine.arrivals();
        let before = self.machine.energy();
        let report = (self.load)(rate_rps, number)?;
        let after = self.machine.energy();
        std::thread::sleep(COUNTED);
        let arrivals = self.machine.arrivals().zip(arrivals);
        let arrivals = arrivals.map(|(after, before)| after.saturating_sub(before));
        if report.served_requests == 0 {
            let why = report.first_protocol_error.unwrap_or("the server answers nothing");
            return Err(LoadFailure::Server(why.to_owned()));
        }
        let sent: u64 = report.run_sent_requests.values().sum();
        if let Some(arrivals) = arrivals.filter(|_| self.grid.periods.len() > 1)
            && arrived_elsewhere(arrivals, sent, self.depth)
        {
            return Err(LoadFailure::Elsewhere(format!(
                "of {sent} requests only {arrivals} packets came to {}, whose moderation is varied, so \
                 that every period would look alike: name the interface that the requests arrive at \
                 by [govern] interfaces in --config, or profile frequencies alone by --periods 1",
                self.machine.interfaces().join(", ")
            )));
        }
        Ok(Run {
            arrivals_per_request: per_request(sent, arrivals),
            ..run_of(&report, drawn(before, after))
        })
    }
}

/// Returns the packets per request of a run; `None` if they were not counted, or if all took a path
/// without a card, such as the loopback.
fn per_request(sent: u64, arrivals: Option<u64>) -> Option<f64> {
    arrivals
        .filter(|arrivals| *arrivals > 0 && sent > 0)
        .map(|arrivals| arrivals as f64 / sent as f64)
}

/// Returns true if the governed interfaces received too few packets, so the requests must have used
/// another interface. Up to `depth` requests share a packet. Other traffic counts as well, so this
/// can miss such a case.
fn arrived_elsewhere(arrivals: u64, sent: u64, depth: usize) -> bool {
    sent > 0 && arrivals as f64 * depth.max(1) as f64 * 2.0 < sent as f64
}

/// Returns the joules and the seconds between two readings of a meter. The duration of the load
/// would be wrong by up to one meter period at either end.
fn drawn(before: Option<(f64, f64)>, after: Option<(f64, f64)>) -> Option<(f64, f64)> {
    let ((joules, until), (joules_before, from)) = after.zip(before)?;
    Some(((joules - joules_before).max(0.0), (until - from).max(0.0)))
}

fn run_of(report: &Report, drawn: Option<(f64, f64)>) -> Run {
    let verdict = &report.verdict;
    let latency = &report.latency;
    let percentile = |seconds: Option<f64>| seconds.unwrap_or(f64::INFINITY);
    let due = report.due_requests.max(1) as f64;
    let too_many_failed = report.failed_requests as f64 > (FAILED * due).max(1.0);
    let by_generator = verdict.saturation_cause == Some(Cause::Generator);
    let sustained = !verdict.saturated
        && !too_many_failed
        && verdict.served_rate_rps >= SERVED * verdict.due_rate_rps;
    Run {
        percentiles: [latency.p50_seconds, latency.p95_seconds, latency.p99_seconds]
            .map(percentile),
        sustained,
        generator_too_slow: verdict.saturated && by_generator,
        late_seconds: report.generator.lateness.p99_seconds,
        arrivals_per_request: None,
        joules: drawn.map(|(joules, _)| joules),
        seconds: drawn.map_or(0.0, |(_, seconds)| seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_through_another_interface_are_detected() {
        // A few packets of other traffic, and none at all.
        assert!(arrived_elsewhere(40, 1_150, 1) && arrived_elsewhere(0, 1_150, 1));
        // A packet for each request, and for every four requests of a connection.
        assert!(!arrived_elsewhere(1_150, 1_150, 1) && !arrived_elsewhere(300, 1_200, 4));
        assert!(!arrived_elsewhere(0, 0, 1));
    }

    /// The meter was read at 0.75 s and 3.25 s, and the load ran from 0.8 s to 3.1 s: 100 W, not
    /// 109 W.
    #[test]
    fn watts_use_the_time_between_meter_readings() {
        let (joules, seconds) = drawn(Some((75.0, 0.75)), Some((325.0, 3.25))).unwrap();
        assert_eq!(joules / seconds, 100.0);
        // The meter was not read during the load: no time, and no watts.
        assert_eq!(drawn(Some((75.0, 0.75)), Some((75.0, 0.75))), Some((0.0, 0.0)));
        assert_eq!(drawn(None, Some((75.0, 0.75))), None);
    }
}
