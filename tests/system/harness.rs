//! Common parts of the tests of the router.

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use wattline_testbed::forwarder::{Forwarder, Mode, Running, Wattline};
use wattline_testbed::leftovers::can_build_namespaces;
use wattline_testbed::topology::{Options, Topology};

/// Kernel forwarding, the reference.
pub const KERNEL: Forwarder = Forwarder::Kernel;
/// Wattline in each of its modes, with one worker.
pub const POLL: Forwarder = Forwarder::Wattline { mode: Mode::Poll, workers: 1 };
/// See [`POLL`].
pub const INTERRUPT: Forwarder = Forwarder::Wattline { mode: Mode::Interrupt, workers: 1 };
/// See [`POLL`].
pub const ADAPTIVE: Forwarder = Forwarder::Wattline { mode: Mode::Adaptive, workers: 1 };
/// Wattline with XDP programs that forward as much as they can.
pub const XDP: Forwarder = Forwarder::Wattline { mode: Mode::XdpForward, workers: 1 };

/// Makes one test for the kernel and one for every mode of Wattline from each function
/// `fn name(forwarder: Forwarder)`. These tests send hardly any packets.
macro_rules! quietly_with_every_forwarder {
    ($($function:ident),+ $(,)?) => {$(
        mod $function {
            tests_with! {
                $function, quiet:
                kernel: KERNEL, wattline_poll: POLL, wattline_interrupt: INTERRUPT,
                wattline_adaptive: ADAPTIVE, wattline_xdp: XDP
            }
        }
    )+};
}

/// The same for functions that load the machine and do not depend on the wait mode: with the
/// kernel, with workers in adaptive mode, and with XDP programs.
macro_rules! with_every_kind_of_forwarder {
    ($($function:ident),+ $(,)?) => {$(
        mod $function {
            tests_with! {
                $function, privileged:
                kernel: KERNEL, wattline_adaptive: ADAPTIVE, wattline_xdp: XDP
            }
        }
    )+};
}

/// The same for functions that send hardly any packets.
macro_rules! quietly_with_every_kind_of_forwarder {
    ($($function:ident),+ $(,)?) => {$(
        mod $function {
            tests_with! {
                $function, quiet:
                kernel: KERNEL, wattline_adaptive: ADAPTIVE, wattline_xdp: XDP
            }
        }
    )+};
}

/// A test of a function for each forwarder. Workers that poll load the machine, whatever is sent.
macro_rules! tests_with {
    ($function:ident, $how:ident: $($name:ident: $forwarder:ident),+) => {$(
        #[test]
        fn $name() {
            use crate::harness::{self, $forwarder};
            if $forwarder == harness::POLL {
                harness::privileged(stringify!($function), || super::$function($forwarder));
            } else {
                harness::$how(stringify!($function), || super::$function($forwarder));
            }
        }
    )+};
}

/// The program under test.
pub fn binary() -> &'static Path {
    Path::new(wattline_needs::program())
}

/// Runs a test that needs root and loads the machine, one at a time: two processors cannot carry two loads
/// without losing packets of both. Tests of [`quiet`] run beside it. Skips the test without root.
pub fn privileged(test: &str, body: impl FnOnce()) {
    run(test, FlockOperation::LockExclusive, FlockOperation::LockShared, body);
}

/// Runs a test that needs root and little of the machine, beside others.
pub fn quiet(test: &str, body: impl FnOnce()) {
    run(test, FlockOperation::Unlock, FlockOperation::LockShared, body);
}

/// Runs a test as [`privileged`] does, if the programs that it needs are installed.
pub fn privileged_with(programs: &[&str], test: &str, body: impl FnOnce()) {
    if programs.iter().all(|program| has(program, test)) {
        privileged(test, body);
    }
}

/// Runs a test as [`quiet`] does, if the programs that it needs are installed.
pub fn quiet_with(programs: &[&str], test: &str, body: impl FnOnce()) {
    if programs.iter().all(|program| has(program, test)) {
        quiet(test, body);
    }
}

/// Runs a test that needs root and all processors, with no other at the same time: routers of other
/// tests would not answer for seconds.
pub fn alone(test: &str, body: impl FnOnce()) {
    run(test, FlockOperation::LockExclusive, FlockOperation::LockExclusive, body);
}

/// Runs a test while it holds the locks of the load and of the processors.
fn run(test: &str, load: FlockOperation, processors: FlockOperation, body: impl FnOnce()) {
    if !can_build_namespaces(test) {
        return;
    }
    let lock = |name: &str, how| {
        let path = std::env::temp_dir().join(format!("wattline-system-tests-{name}.lock"));
        let file = std::fs::File::create(path).unwrap();
        flock(&file, how).unwrap();
        file
    };
    let _place = (load == FlockOperation::Unlock).then(Place::take);
    // Held until the files are closed, also when the body panics or the process dies.
    let _locks = [lock("load", load), lock("processors", processors)];
    body();
}

/// One of the places of [`quiet`] tests. There are more threads than places: tests that wait for
/// the lock of the load do not block quiet ones.
struct Place;

static FREE_PLACES: Mutex<u32> = Mutex::new(2);
static FREED: Condvar = Condvar::new();

impl Place {
    fn take() -> Self {
        let free = FREE_PLACES.lock().unwrap();
        *FREED.wait_while(free, |free| *free == 0).unwrap() -= 1;
        Self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *FREE_PLACES.lock().unwrap() += 1;
        FREED.notify_one();
    }
}

/// Returns true if a program is installed; otherwise reports that `test` is skipped.
pub fn has(program: &str, test: &str) -> bool {
    let there = wattline_testbed::command::installed(program);
    if !there {
        wattline_needs::skip(Some(test), wattline_needs::Need::Tool, program);
    }
    there
}

/// Asks a program that the test started to end.
pub fn terminate(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Returns the duration of a long load.
pub fn load_time() -> Duration {
    Duration::from_secs(number_from_environment("WATTLINE_SECONDS", 5))
}

/// Returns the number in an environment variable, or `otherwise`.
pub fn number_from_environment(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Pseudo-random numbers, the same for the same seed (xorshift64), which is not 0.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A topology with a running forwarder.
pub struct Bench {
    // First: the router is stopped before its namespace goes.
    pub running: Running,
    pub topology: Topology,
    forwarder: Forwarder,
}

impl Bench {
    pub fn start(options: Options, forwarder: Forwarder) -> Self {
        Self::start_in(Topology::build(options).unwrap(), forwarder, "")
    }

    /// Starts it in the given topology, with `more` in Wattline's configuration.
    pub fn start_in(topology: Topology, forwarder: Forwarder, more: &str) -> Self {
        let running = forwarder
            .start_with(&topology, binary(), more)
            .unwrap_or_else(|error| panic!("{error}"));
        Self { running, topology, forwarder }
    }

    /// The running Wattline.
    pub fn router(&self) -> &Wattline {
        self.running.wattline.as_ref().unwrap()
    }

    /// Its log so far; empty if the kernel forwards.
    pub fn log(&self) -> String {
        self.running.wattline.as_ref().map(Wattline::log).unwrap_or_default()
    }

    /// Its counters now.
    pub fn stats(&self) -> Value {
        self.router().stats().unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// The output of a command about it.
    #[track_caller]
    pub fn ask(&self, words: &[&str]) -> String {
        self.router().ask(words).unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Restarts the router.
    pub fn restarted(self) -> Self {
        let Self { running, topology, forwarder } = self;
        running.stop().unwrap_or_else(|error| panic!("{error}"));
        Self::start_in(topology, forwarder, "")
    }

    /// Stops the router. Checks, for Wattline, that every frame is accounted for and that it did
    /// not leave the work to the kernel.
    pub fn finish(self) {
        let Some(totals) = self.running.stop().unwrap_or_else(|error| panic!("{error}")) else {
            return;
        };
        assert!(
            totals.balance(),
            "received + generated = forwarded + punted + dropped: {totals:?}"
        );
        assert!(totals.forwarded > 0, "nothing went through Wattline: {totals:?}");
        // Workers send packets that the router makes itself.
        let transit = totals.forwarded > totals.generated;
        let by_xdp = self.forwarder == XDP && transit;
        assert_eq!(totals.xdp_forwarded > 0, by_xdp, "by whom: {totals:?}");
    }
}

/// Returns the captures of the shared data; an empty list, with a message, without them.
pub fn captures(test: &str) -> Vec<PathBuf> {
    let folder = data().join("captures");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        wattline_needs::skip(
            Some(test),
            wattline_needs::Need::Data,
            format_args!("captures in {}", folder.display()),
        );
        return Vec::new();
    };
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn data() -> PathBuf {
    std::env::var_os("WATTLINE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    )
}
