//! Test of a platform's promises to policies, inside the guest: the host platform on the drivers of
//! the emulated machine.
//!
//! The program is the same that runs the lab outside. It stops at the platform's first operating
//! point and at each turn of a knob until it is released, so that the machine can be inspected from
//! outside meanwhile.

use std::io::Read;
use std::path::Path;
use std::time::Duration;
use wattline_governor::Governor;
use wattline_governor::conformance::{Circumstances, Follows, Turn, probe};
use wattline_governor::machine::Machine as _;
use wattline_host::{Host, HostOptions, KernelStack, Layout, Port, Scope, Work, Workers};
use wattline_knobs::{Machine, STATE_DIRECTORY, Session};
use wattline_linux::ethtool;
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::{QueueView, Trigger, Wait};
use wattline_units::{Span, Time};

/// Environment variable that makes a program the subject of the test: `router` or `kernel`, which
/// serves the queues, and the interfaces, separated by commas.
pub const SUBJECT: &str = "WATTLINE_RIG_CONFORMANCE";
/// Named pipe at which it waits; a line releases it to turn the next knob.
pub const GO: &str = "/tmp/conformance.go";
/// Line printed when the platform has brought the machine to its first operating point, before any
/// knob is turned.
pub const FIRST: &str = "conformance: at its first point";
/// Beginning of a line with a knob, `promised` or `denied`, and `before` or `turned` for the time
/// relative to its turn.
pub const TURN: &str = "conformance turn: ";
/// Beginning of a line with the platform's capabilities in JSON ([`wattline_policy::Can`]).
pub const CAN: &str = "conformance can: ";
/// Beginning of a line with a feature that the platform lacks.
pub const MISSING: &str = "conformance missing: ";
/// Beginning of a line with the judgement of a promise.
pub const VERDICT: &str = "conformance verdict: ";
/// Beginning of a line with a complaint.
pub const COMPLAINT: &str = "conformance complaint: ";
/// Last line.
pub const DONE: &str = "conformance: done";

/// Shortest time between a turn and its judgement.
const PERIOD: Span = Span::from_millis(50);
/// Interval between two polls. A thread reads the kernel's counters on request, and shows them at
/// the next poll; the meters are read every 250 ms.
const POLL_INTERVAL: Duration = Duration::from_millis(150);
/// Limit of the number of policy calls, above a probe's number of turns.
const MOST_CALLS: usize = 200;

/// Runs the test if [`SUBJECT`] is set: lets a probe turn all knobs of this machine, prints its
/// findings, and restores everything. Returns false if this program is not the subject.
///
/// # Errors
/// Fails for a malformed subject, and on a machine that cannot be governed.
pub fn serve() -> Result<bool, String> {
    let Ok(subject) = std::env::var(SUBJECT) else { return Ok(false) };
    let tree = Tree::at("/");
    let options = options(&subject, &tree)?;
    let (kernel, _) = KernelStack::new(&tree, &options.layout);
    let workers: Box<dyn Workers> =
        if options.scope.workers { Box::new(AcceptingWorkers(kernel)) } else { Box::new(kernel) };
    let state = Path::new(STATE_DIRECTORY);
    let (session, _) =
        Session::begin(Machine::new(&tree), &tree, state).map_err(|e| e.to_string())?;
    let host = Host::new(options, session, workers).map_err(|e| e.to_string())?;
    let platform = host.platform().clone();
    println!("{CAN}{}", serde_json::to_string(&platform.can).map_err(|e| e.to_string())?);
    let status = host.status();
    let missing = status.lock().map_err(|e| e.to_string())?.missing.clone();
    missing.iter().for_each(|note| println!("{MISSING}{note}"));

    // Arrivals are only known from the kernel's counters, without fill levels. Power and idle
    // states of the emulated machine are judged from outside.
    let follows = Follows { frequency: true, ..Follows::NOTHING };
    let circumstances = Circumstances { period: PERIOD, traffic: false, follows };
    let (policy, findings) = probe(&platform, circumstances);
    // Brings the machine to the first operating point, before the first call of the policy.
    let mut governor = Governor::new(host, policy);
    println!("{FIRST}");
    wait_for_go()?;
    let now = governor.machine().now();
    governor.start(now);
    let mut printed = None;
    for _ in 0..MOST_CALLS {
        let turn = findings.turn();
        if let Some(Turn { promise, promised, turned }) = turn.filter(|_| turn != printed) {
            let promised = if promised { "promised" } else { "denied" };
            println!("{TURN}{promise} {promised} {}", if turned { "turned" } else { "before" });
            wait_for_go()?;
        }
        printed = turn;
        for _ in 0..2 {
            let now = governor.machine().now();
            governor.look(now);
            std::thread::sleep(POLL_INTERVAL);
        }
        if findings.are_complete() {
            break;
        }
        let now: Time = governor.machine().now();
        governor.trigger(now.max(governor.ask().at), Trigger::Timer);
    }
    findings.verdicts().iter().for_each(|verdict| println!("{VERDICT}{verdict}"));
    findings.complaints().iter().for_each(|complaint| println!("{COMPLAINT}{complaint}"));
    governor.into_machine().into_knobs().finish();
    println!("{DONE}");
    Ok(true)
}

/// Waits for a line in the pipe: opening waits for a writer, and reading for its text.
fn wait_for_go() -> Result<(), String> {
    let mut line = String::new();
    std::fs::File::open(GO)
        .and_then(|mut pipe| pipe.read_to_string(&mut line))
        .map(drop)
        .map_err(|e| format!("{GO}: {e}"))
}

fn options(subject: &str, tree: &Tree) -> Result<HostOptions, String> {
    let refused = || {
        format!(
            "{subject:?} is not a subject: expected `router` or `kernel`, a blank, and interfaces with commas between them"
        )
    };
    let (who, interfaces) = subject.split_once(' ').ok_or_else(refused)?;
    let scope = match who {
        "router" => Scope::ROUTER,
        "kernel" => Scope { cores: false, ..Scope::KERNEL },
        _ => return Err(refused()),
    };
    let port = |interface: &str| Port {
        // A driver that does not report channels has one queue.
        queues: ethtool::channels(interface).map_or(1, |channels| channels.combined.max(1)),
        interface: Some(interface.to_owned()),
        cores: Vec::new(),
    };
    let cpus: Vec<u32> = tree.cpus("/sys/devices/system/cpu/online").map_err(|e| e.to_string())?;
    let ports = interfaces.split(',').map(port).collect();
    Ok(HostOptions {
        tree: tree.clone(),
        layout: Layout { workers: cpus.len(), cpus, ports },
        ring_size: None,
        busy_poll: true,
        sample: Span::from_millis(1),
        uncore: true,
        meters: true,
        rights: Rights::ALL,
        override_limits: false,
        may_raise: true,
        preferences: false,
        scope,
    })
}

/// Workers that accept all orders, with the kernel's counters.
struct AcceptingWorkers(KernelStack);

impl Workers for AcceptingWorkers {
    fn look(&mut self, now: Time) {
        self.0.look(now);
    }
    fn work(&mut self, worker: usize) -> Work {
        self.0.work(worker)
    }
    fn queue(&mut self, worker: usize, port: usize) -> QueueView {
        self.0.queue(worker, port)
    }
    fn wake(&mut self, _worker: usize) {}
    fn park(&mut self, _worker: usize) {}
    fn set_wait(&mut self, _worker: usize, _wait: Wait) -> Result<(), String> {
        Ok(())
    }
    fn set_batch(&mut self, _packets: u32) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_parsed_and_malformed_ones_refused() {
        let tree = Tree::at("/");
        let options = options("router lo,no-such-if", &tree).unwrap();
        assert!(options.scope.workers && options.layout.workers > 0);
        let ports: Vec<_> = options.layout.ports.iter().map(|port| port.queues).collect();
        assert_eq!(ports, [1, 1]);
        assert!(!super::options("kernel lo", &tree).unwrap().scope.workers);
        for subject in ["", "router", "worker lo"] {
            assert!(super::options(subject, &tree).is_err(), "{subject:?}");
        }
    }
}
