//! Ports that `wattline reload` adds and removes under a governor: it starts again with the present
//! ports, and an interface that is no port any more gets its settings back. On veth pairs the knob
//! is the deferral of NAPI instances, by which a policy moderates queues there.

use crate::harness::{ADAPTIVE, XDP, binary, has, privileged, quiet_with};
use crate::hot_ports::{LIMIT, Row, load, lost_nothing};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use wattline_linux::napi::{self, Napi};
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::probe::Probe;
use wattline_testbed::topology::Topology;

/// The program with a state directory of its own, as another governor may run on this machine.
pub struct Program {
    folder: TempDir,
}

impl Program {
    fn new() -> Self {
        Self::from_file(tempfile::tempdir().unwrap(), binary(), "")
    }

    /// A machine with these cpufreq policies, which are files without an effect. With `governs` the
    /// program is `wattline govern` in place of a router, and the pressure of other programs is
    /// hidden.
    pub fn with_frequencies(policies: &Path, governs: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut before = format!("mount --bind {} {CPUFREQ} || exit 1; ", policies.display());
        if governs {
            let (folder, program) = (folder.path().display(), binary().display());
            before += &format!(
                "for file in pressure/cpu schedstat; do still={folder}/${{file##*/}}; \
                 cat /proc/$file >$still && mount --bind $still /proc/$file; done; \
                 exec {program} govern \"$2\"; "
            );
        }
        Self::from_file(folder, binary(), &before)
    }

    /// From a file of its own, which a newer version may replace.
    fn installed() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("installed");
        let linked = std::fs::hard_link(binary(), &file);
        linked.or_else(|_| std::fs::copy(binary(), &file).map(drop)).unwrap();
        Self::from_file(folder, &file, "")
    }

    /// From a file of one's own, after more commands of a shell.
    fn from_file(folder: TempDir, file: &Path, before: &str) -> Self {
        let (state, script) = (folder.path().join("state"), folder.path().join("wattline"));
        std::fs::create_dir(&state).unwrap();
        std::fs::create_dir_all("/var/lib/wattline").unwrap();
        // `ip netns exec` has given the router mounts of its own; its clients have none.
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = run ]; then mount --bind {} /var/lib/wattline || exit 1; {before}fi\n\
             exec {} \"$@\"\n",
            state.display(),
            file.display()
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        Self { folder }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("wattline")
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("state/knobs.journal")
    }
}

/// The kernel's cpufreq policies.
pub const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";

const PERIOD: u64 = 125_000;

/// A governor that moderates each queue to 125 us.
pub fn governed(program: &Path, forwarder: Forwarder, policy: &str) -> Row {
    let power = format!("\n[power]\nplatform = \"host\"\npolicy = \"{policy}\"\n");
    // A veth keeps its NAPI instances without a program while it has GRO.
    let prepare = |topology: &Topology| {
        for name in ["left", "right", "side"] {
            topology.router.run("ethtool", &["-K", name, "gro", "on"], LIMIT).unwrap();
        }
    };
    Row::start_as(program, forwarder, "", &power, prepare)
}

impl Row {
    /// Returns the deferral of an interface's queue in nanoseconds.
    fn deferred(&self, interface: &'static str) -> u64 {
        let get = move || napi::get(interface, 0, Napi::GroFlushTimeout).unwrap();
        self.topology.router.enter(get).unwrap()
    }

    #[track_caller]
    fn until_deferred(&self, expected: [u64; 3]) {
        let now = || ["left", "right", "side"].map(|name| self.deferred(name));
        let reason = || format!("{:?} instead of {expected:?}\n{}", now(), self.router.log());
        wattline_needs::until_or(|| now() == expected, reason);
    }

    pub fn power(&self) -> Value {
        self.router.stats().unwrap()["power"].clone()
    }
}

fn a_governor_follows_ports(forwarder: Forwarder) {
    if !has("ping", "a_governor_follows_ports") || !has("ethtool", "a_governor_follows_ports") {
        return;
    }
    let program = Program::new();
    let row = governed(&program.path(), forwarder, "ondemand+125us");
    row.until_deferred([PERIOD, PERIOD, 0]);
    let descriptors = row.descriptors_at_rest();
    let probe = Probe::start(&row.topology, &load(2_000.0)).unwrap();
    let mut decisions = 0;
    for _ in 0..2 {
        let report = row.apply(&row.with_side());
        assert_eq!(report["applied"], json!(["[[port]]"]), "{report}");
        assert_eq!(report["needs_restart"], json!([]), "{report}");
        assert_eq!(report["not_as_configured"], json!([]), "{report}");
        row.until_deferred([PERIOD, PERIOD, PERIOD]);
        row.pings_by_the_port();
        let power = row.power();
        assert!(power["waits_because"].is_null(), "{power}");
        let now = power["decisions"].as_u64().unwrap();
        assert!(now > decisions, "counts go on: {decisions}, then {now}");
        decisions = now;

        let report = row.apply(&row.plain);
        assert_eq!(report["applied"], json!(["[[port]]"]), "{report}");
        row.until_deferred([PERIOD, PERIOD, 0]);
        row.until_descriptors_are(&descriptors);
        row.pings();
    }
    lost_nothing(probe);
    row.apply(&row.with_side());
    row.until_deferred([PERIOD, PERIOD, PERIOD]);
    let offered = || row.power()["offered_packets"].as_u64().unwrap();
    let before = offered();
    row.pings_by_the_port();
    // Requests at one port and answers at the other.
    wattline_needs::until_or(
        || offered() >= before + 80,
        || format!("{before}, then {}\n{}", offered(), row.router.log()),
    );
    row.stop();
    assert!(!program.journal().exists(), "all is restored");
}

mod with {
    tests_with! {
        a_governor_follows_ports, privileged:
        workers: ADAPTIVE, xdp_programs: XDP
    }
}

/// A router is killed after its ports have changed: the watchdog of its second governor restores
/// each interface to its state before it was a port.
#[test]
fn a_router_killed_after_its_ports_changed_leaves_every_interface_as_it_was() {
    let test = "a_router_killed_after_its_ports_changed_leaves_every_interface_as_it_was";
    quiet_with(&["ethtool"], test, || {
        for forwarder in [ADAPTIVE, XDP] {
            for removes in [false, true] {
                let program = Program::new();
                let mut row = governed(&program.path(), forwarder, "ondemand+125us");
                row.apply(&row.with_side());
                row.until_deferred([PERIOD, PERIOD, PERIOD]);
                if removes {
                    row.apply(&row.plain);
                    row.until_deferred([PERIOD, PERIOD, 0]);
                }
                let journal = std::fs::read_to_string(program.journal()).unwrap();
                assert_eq!(journal.contains("napi:side"), !removes, "{journal}");
                row.router.kill();
                row.until_deferred([0, 0, 0]);
                wattline_needs::until_or(|| !program.journal().exists(), || row.router.log());
            }
        }
    });
}

/// The path of a replaced program leads nowhere, or to another version.
#[test]
fn a_governor_begins_anew_after_its_program_was_replaced() {
    quiet_with(&["ethtool"], "a_governor_begins_anew_after_its_program_was_replaced", || {
        let program = Program::installed();
        let mut row = governed(&program.path(), ADAPTIVE, "ondemand+125us");
        row.until_deferred([PERIOD, PERIOD, 0]);
        std::fs::remove_file(program.folder.path().join("installed")).unwrap();
        let report = row.apply(&row.with_side());
        assert_eq!(report["not_as_configured"], json!([]), "{report}");
        row.until_deferred([PERIOD, PERIOD, PERIOD]);
        row.router.kill();
        row.until_deferred([0, 0, 0]);
    });
}

/// Only other ports can help it: until they come, nothing is taken over, written or logged. A lock
/// that another process holds may be released at any time: that is retried, also silently.
#[test]
fn governor_that_cannot_begin_waits_silently() {
    quiet_with(&["ethtool"], "governor_that_cannot_begin_waits_silently", || {
        let program = Program::new();
        let row = governed(&program.path(), ADAPTIVE, "ondemand+125us");
        row.until_deferred([PERIOD, PERIOD, 0]);
        row.topology.router.ip("link add still type bridge\nlink set still up").unwrap();
        // A bridge has no moderation.
        let section = |name| format!("\n[[port]]\nname = \"{name}\"\ninterface = \"{name}\"\n");
        let without = row.plain.replace(&section("left"), &section("still"));
        let report = row.apply(&without.replace(&section("right"), ""));
        let waits = report["not_as_configured"].to_string();
        assert!(waits.contains("the governor waits: [power] policy"), "{report}");
        row.until_deferred([0, 0, 0]);
        let said = || row.router.log().lines().filter(|line| line.contains("govern")).count();
        let before = said();
        // Longer than the time until a retry.
        std::thread::sleep(Duration::from_secs(12));
        assert_eq!(said(), before, "{}", row.router.log());
        assert_eq!(row.router.log().matches("watchdog process").count(), 1);
        assert!(!program.journal().exists());

        // Another process governs the machine when the ports come back.
        let lock = std::fs::File::open(program.folder.path().join("state/knobs.lock")).unwrap();
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
        let waits = row.apply(&row.plain)["not_as_configured"].to_string();
        assert!(waits.contains("is changing this machine's settings"), "{waits}");
        let before = said();
        std::thread::sleep(Duration::from_secs(12));
        assert_eq!(said(), before, "{}", row.router.log());
        drop(lock);
        row.until_deferred([PERIOD, PERIOD, 0]);
        row.stop();
    });
}

/// The policy decides the workers' wait mode, whatever a reload applies.
#[test]
fn a_reload_leaves_workers_to_their_governor() {
    let test = "a_reload_leaves_workers_to_their_governor";
    privileged(test, || {
        let program = Program::new();
        let row = governed(&program.path(), ADAPTIVE, "poll");
        let sleeps = || {
            let stats = row.router.stats().unwrap();
            stats["workers"][0]["sleeps"].as_u64().unwrap()
        };
        for text in [row.plain.clone() + "\n[log]\nlevel = \"debug\"\n", row.with_side()] {
            row.apply(&text);
            // It stops blocking once the governor has decided.
            std::thread::sleep(Duration::from_millis(500));
            let before = sleeps();
            std::thread::sleep(Duration::from_secs(1));
            assert_eq!(sleeps(), before, "{}", row.router.log());
        }
        row.stop();
    });
}
