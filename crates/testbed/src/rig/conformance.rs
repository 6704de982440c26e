//! The test of what a platform promises to policies, inside the guest: this machine's platform on
//! the drivers of the emulated one.
//!
//! It runs in the guest, as the same program that runs the lab outside. It stops at the platform's
//! first point and at each turn of a knob until it is let go on, so that the machine can be looked at
//! from outside meanwhile.

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

/// Says who serves the queues, `router` or `kernel`, and names the interfaces, with commas
/// between them; and so makes a program the one that is tested.
pub const SUBJECT: &str = "WATTLINE_RIG_CONFORMANCE";
/// The named pipe that it waits at: a line lets it turn the first knob, or the next one.
pub const GO: &str = "/tmp/conformance.go";
/// The line that says that the platform has brought the machine to its first point, and no knob has
/// been turned yet.
pub const FIRST: &str = "conformance: at its first point";
/// Beginning of a line that names a knob, says `promised` or `denied`, and says `before` where it
/// is about to be turned and `turned` where it just has been.
pub const TURN: &str = "conformance turn: ";
/// Beginning of a line with the platform's capabilities in JSON ([`wattline_policy::Can`]).
pub const CAN: &str = "conformance can: ";
/// Beginning of a line with a feature that the platform lacks.
pub const MISSING: &str = "conformance missing: ";
/// Beginning of a line with the judgement of a promise.
pub const VERDICT: &str = "conformance verdict: ";
/// Beginning of a line with a complaint.
pub const COMPLAINT: &str = "conformance complaint: ";
/// The last line.
pub const DONE: &str = "conformance: done";

/// A turn is judged so long after it at the earliest.
const PERIOD: Span = Span::from_millis(50);
/// A thread reads the kernel's counters when it is asked, and shows them at the next look; the
/// meters are read every 250 ms.
const LOOK: Duration = Duration::from_millis(150);
/// More questions than a probe has turns.
const MOST_QUESTIONS: usize = 200;

/// Is the subject where [`SUBJECT`] is set: lets a probe turn all knobs of this machine, says what
/// it found, and gives everything back. False where this program is no subject.
///
/// # Errors
/// A subject that makes no sense, or a machine that cannot be governed; in words.
pub fn serve() -> Result<bool, String> {
    let Ok(subject) = std::env::var(SUBJECT) else { return Ok(false) };
    let tree = Tree::at("/");
    let options = options(&subject, &tree)?;
    let (kernel, _) = KernelStack::new(&tree, &options.layout);
    let workers: Box<dyn Workers> =
        if options.scope.workers { Box::new(Obedient(kernel)) } else { Box::new(kernel) };
    let state = Path::new(STATE_DIRECTORY);
    let (session, _) =
        Session::begin(Machine::new(&tree), &tree, state).map_err(|e| e.to_string())?;
    let host = Host::new(options, session, workers).map_err(|e| e.to_string())?;
    let platform = host.platform().clone();
    println!("{CAN}{}", serde_json::to_string(&platform.can).map_err(|e| e.to_string())?);
    let status = host.status();
    let missing = status.lock().map_err(|e| e.to_string())?.missing.clone();
    missing.iter().for_each(|note| println!("{MISSING}{note}"));

    // What arrives is seen by the kernel's counters alone, which know no fill levels. What the
    // emulated machine draws and where its CPUs sleep is judged from outside.
    let follows = Follows { frequency: true, ..Follows::NOTHING };
    let circumstances = Circumstances { period: PERIOD, traffic: false, follows };
    let (policy, findings) = probe(&platform, circumstances);
    // Brings the machine to the first point; the policy has not been asked yet.
    let mut governor = Governor::new(host, policy);
    println!("{FIRST}");
    wait_for_go()?;
    let now = governor.machine().now();
    governor.start(now);
    let mut told = None;
    for _ in 0..MOST_QUESTIONS {
        let turn = findings.turn();
        if let Some(Turn { promise, promised, turned }) = turn.filter(|_| turn != told) {
            let promised = if promised { "promised" } else { "denied" };
            println!("{TURN}{promise} {promised} {}", if turned { "turned" } else { "before" });
            wait_for_go()?;
        }
        told = turn;
        for _ in 0..2 {
            let now = governor.machine().now();
            governor.look(now);
            std::thread::sleep(LOOK);
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

/// Opening it waits for whoever writes, and reading for what is written.
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
        // One that does not say has one.
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

/// Workers that do as they are told, and count what the kernel counts.
struct Obedient(KernelStack);

impl Workers for Obedient {
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
    fn subjects_are_read_and_nonsense_is_refused() {
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
