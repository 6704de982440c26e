//! A real server under a real load, on this machine's knobs.

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

/// Makes one load of a rate, with a seed, and reports it.
pub type Loader = Box<dyn FnMut(f64, u64) -> Result<Report, LoadFailure>>;

/// A share of failed requests that a sustained load may have: more than one in a thousand, and
/// its 99th percentile is not the server's.
const FAILED: f64 = 1e-3;
/// A server that kept the generator waiting for connections answers less than this share.
const SERVED: f64 = 0.97;

/// Counts of a card are at most this old.
const COUNTED: Duration = Duration::from_millis(110);
/// Meters have been read within this time: a load that begins later has no watts of the point before.
const METERED: Duration = Duration::from_millis(270);

/// Runs something on a thread in this network namespace; here and now without one. What it starts
/// and opens is in that namespace, too.
///
/// # Errors
/// When there is no such namespace, or it must not be entered.
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

/// A loader by this generator, whose connections go out from a network namespace: to a card of this
/// machine by way of another one, whose port is cabled to it. `stop` ends it.
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
    /// As many requests may share a packet.
    depth: usize,
}

impl Live {
    /// Power is counted over the load's warm-up, too, which latencies leave out. So many requests of a
    /// connection (`depth`) may share a packet.
    pub fn new(machine: Machine, grid: Grid, load: Loader, depth: usize) -> Self {
        Self { machine, grid, load, depth }
    }

    /// Gives the machine back.
    ///
    /// # Errors
    /// When some of it could not be restored.
    pub fn end(self) -> Result<(), MachineError> {
        self.machine.end()
    }
}

impl Rig for Live {
    fn set(&mut self, at: At) -> Result<Option<f64>, NotSet> {
        match at {
            At::Default { .. } => self.machine.set_default().map(|()| None),
            At::Point { state, period, .. } => self.machine.set(state, self.grid.periods[period]),
        }
    }

    fn holds(&mut self, _at: At) -> Result<(), NotSet> {
        self.machine.holds()
    }

    fn load(&mut self, rate_rps: f64, number: u64) -> Result<Run, LoadFailure> {
        // Cards are asked for their counts now and then only: what came before is passed over.
        std::thread::sleep(METERED);
        let came = self.machine.arrivals();
        let before = self.machine.energy();
        let report = (self.load)(rate_rps, number)?;
        let after = self.machine.energy();
        std::thread::sleep(COUNTED);
        let came = self.machine.arrivals().zip(came);
        let came = came.map(|(after, before)| after.saturating_sub(before));
        if report.served_requests == 0 {
            let why = report.first_protocol_error.unwrap_or("the server answers nothing");
            return Err(LoadFailure::Server(why.to_owned()));
        }
        let sent: u64 = report.run_sent_requests.values().sum();
        if let Some(came) = came.filter(|_| self.grid.periods.len() > 1)
            && came_elsewhere(came, sent, self.depth)
        {
            return Err(LoadFailure::Elsewhere(format!(
                "of {sent} requests only {came} packets came to {}, whose moderation is varied, so that \
                 every period would look alike: name the interface that the requests arrive at by \
                 [govern] interfaces in --config, or profile frequencies alone by --periods 1",
                self.machine.interfaces().join(", ")
            )));
        }
        Ok(Run {
            arrivals_per_request: per_request(sent, came),
            ..run_of(&report, drawn(before, after))
        })
    }
}

/// Packets for each request of a run; none where nobody counted, or all came by a way without a
/// card, such as the loopback.
fn per_request(sent: u64, arrivals: Option<u64>) -> Option<f64> {
    arrivals
        .filter(|arrivals| *arrivals > 0 && sent > 0)
        .map(|arrivals| arrivals as f64 / sent as f64)
}

/// Whether so few packets came to the governed interfaces that the requests came by another one. A
/// request has a packet of its own at least, unless those of a connection are sent together; what
/// others sent counts as well.
fn came_elsewhere(came: u64, sent: u64, depth: usize) -> bool {
    sent > 0 && came as f64 * depth.max(1) as f64 * 2.0 < sent as f64
}

/// Joules between two readings of a meter, and the seconds that those are of: the load's own time would
/// be another one, by up to a period of the meter at either end.
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
    fn requests_that_come_by_another_interface_are_noticed() {
        // Strays of a card that no request came by, and none at all.
        assert!(came_elsewhere(40, 1_150, 1) && came_elsewhere(0, 1_150, 1));
        // A packet for each, and one for several of a connection.
        assert!(!came_elsewhere(1_150, 1_150, 1) && !came_elsewhere(300, 1_200, 4));
        assert!(!came_elsewhere(0, 0, 1));
    }

    /// Read at 0.75 s and 3.25 s of a load from 0.8 s to 3.1 s: 100 W, not 109 W.
    #[test]
    fn watts_are_of_the_time_that_the_meter_saw() {
        let (joules, seconds) = drawn(Some((75.0, 0.75)), Some((325.0, 3.25))).unwrap();
        assert_eq!(joules / seconds, 100.0);
        // Not read meanwhile: no time, and no watts.
        assert_eq!(drawn(Some((75.0, 0.75)), Some((75.0, 0.75))), Some((0.0, 0.0)));
        assert_eq!(drawn(None, Some((75.0, 0.75))), None);
    }
}
