//! PowerSave in a router: a worker counts streaks where it takes batches, and at the end of one its
//! governor decides. The machine's frequencies are files.

use crate::governed_ports::{CPUFREQ, Program, governed};
use crate::harness::{ADAPTIVE, has, privileged};
use crate::hot_ports::{LIMIT, Row};
use rustix::process::{Pid, Signal, kill_process};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};
use wattline_testbed::topology::SINK;

pub const KILOHERTZ: [&str; 3] = ["1600000", "2400000", "3300000"];
const SINK_PORT: u16 = 9;
/// More than the upper level of the queue.
const BURST: usize = 100;

/// A cpufreq policy of one CPU, by name and content of its files. What replaces a text is as long, since
/// writes to the kernel's files cut nothing off.
fn write_policy(folder: &Path) {
    let [low, _, high] = KILOHERTZ;
    let steps = KILOHERTZ.join(" ");
    let files = [
        ("scaling_driver", "acpi-cpufreq"),
        ("scaling_available_frequencies", &steps),
        ("scaling_available_governors", "performance"),
        ("scaling_governor", "performance"),
        ("related_cpus", "0"),
        ("affected_cpus", "0"),
        ("cpuinfo_min_freq", low),
        ("cpuinfo_max_freq", high),
        ("scaling_min_freq", low),
        ("scaling_max_freq", high),
        ("scaling_cur_freq", high),
    ];
    let policy = folder.join("policy0");
    std::fs::create_dir(&policy).unwrap();
    for (name, text) in files {
        std::fs::write(policy.join(name), format!("{text}\n")).unwrap();
    }
}

/// A router, what it writes, and who sends through it.
pub struct Scene {
    pub row: Row,
    machine: tempfile::TempDir,
    sender: UdpSocket,
    _sink: UdpSocket,
    _program: Program,
}

impl Scene {
    /// Whether this machine has a place for the files of frequencies.
    pub fn is_possible() -> bool {
        Path::new(CPUFREQ).is_dir()
    }

    pub fn start(policy: &str) -> Self {
        let machine = tempfile::tempdir().unwrap();
        write_policy(machine.path());
        let program = Program::with_frequencies(machine.path());
        let row = governed(&program.path(), ADAPTIVE, policy);
        let open = |address| UdpSocket::bind((address, SINK_PORT)).unwrap();
        let sender = row.topology.source.enter(|| open(Ipv4Addr::UNSPECIFIED)).unwrap();
        // Else the sink would answer.
        let sink = row.topology.sink.enter(|| open(SINK.v4)).unwrap();
        Self { row, machine, sender, _sink: sink, _program: program }
    }

    /// Packets forwarded so far.
    pub fn forwarded(&self) -> u64 {
        self.row.router.stats().unwrap()["forwarded"].as_u64().unwrap()
    }

    fn send(&self, packets: usize) {
        for _ in 0..packets {
            self.sender.send_to(&[0; 26], (SINK.v4, SINK_PORT)).unwrap();
        }
    }

    /// Sends while the router's threads stand still, so that its worker finds all of it at once.
    pub fn burst(&self, packets: usize) {
        let signal = |signal| {
            let pid = Pid::from_raw(self.row.router.pid() as i32).unwrap();
            kill_process(pid, signal).unwrap();
        };
        signal(Signal::STOP);
        wattline_needs::until("it does not stop", || self.stands_still());
        self.send(packets);
        signal(Signal::CONT);
    }

    /// Whether a signal has stopped all threads of the router.
    fn stands_still(&self) -> bool {
        let tasks = format!("/proc/{}/task", self.row.router.pid());
        std::fs::read_dir(tasks).unwrap().all(|task| {
            let state = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            // The name before it may contain anything.
            state.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
        })
    }

    pub fn speed(&self) -> String {
        let file = self.machine.path().join("policy0/scaling_max_freq");
        std::fs::read_to_string(file).unwrap().trim().to_owned()
    }

    /// Reasons of the last changes of the operating point.
    fn reasons(&self) -> Vec<String> {
        let power = self.row.power();
        let changes = power["last_changes"].as_array().unwrap();
        changes.iter().map(|change| change["reason"].as_str().unwrap().to_owned()).collect()
    }

    /// Sends again and again until the frequency is this one.
    #[track_caller]
    fn until_speed(&self, expected: &str, send: impl Fn()) {
        let deadline = Instant::now() + LIMIT;
        while self.speed() != expected {
            let (speed, log) = (self.speed(), self.row.router.log());
            assert!(Instant::now() < deadline, "{speed}: {:?}\n{log}", self.reasons());
            send();
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

#[test]
fn a_streak_in_a_worker_is_a_decision_of_its_governor() {
    let test = "a_streak_in_a_worker_is_a_decision_of_its_governor";
    privileged(test, || {
        if !has("ethtool", test) || !Scene::is_possible() {
            return;
        }
        let scene = Scene::start("queue-length:q_h=16,q_l=2,c_up=0,c_down=0,silence=0s");
        let [low, _, high] = KILOHERTZ;
        let (above, below) = ("queues stayed above q_h", "queues stayed below q_l");

        // One packet at a time is no streak above the level.
        for _ in 0..10 {
            scene.send(1);
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(scene.speed(), low, "{}", scene.row.router.log());
        let reasons = scene.reasons();
        assert!(!reasons.iter().any(|reason| reason.contains(above)), "{reasons:?}");
        scene.until_speed(high, || scene.burst(BURST));
        let reasons = scene.reasons();
        assert!(reasons.last().unwrap().contains(above), "{reasons:?}");
        scene.until_speed(low, || scene.send(1));
        let reasons = scene.reasons();
        assert!(reasons.last().unwrap().contains(below), "{reasons:?}");
        scene.row.stop();
    });
}
