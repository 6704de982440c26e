//! PowerSave in a router: a worker counts streaks where it takes batches, a program those of the polls
//! whose packets XDP programs forward, and at the end of one the governor decides. The machine's
//! frequencies are files.

use crate::governed_ports::{CPUFREQ, Program, governed};
use crate::harness::{ADAPTIVE, XDP, has, privileged};
use crate::hot_ports::{LIMIT, Row};
use rustix::process::{Pid, Signal, kill_process};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};
use wattline_linux::namespace::interface_index;
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::topology::{LEFT, SINK, SOURCE};
use wattline_xdp::LiveGenerator;

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
        Self::start_by(ADAPTIVE, policy)
    }

    fn start_by(forwarder: Forwarder, policy: &str) -> Self {
        let machine = tempfile::tempdir().unwrap();
        write_policy(machine.path());
        let program = Program::with_frequencies(machine.path());
        let row = governed(&program.path(), forwarder, policy);
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
    fn until_speed(&self, expected: &str, send: &impl Fn()) {
        let deadline = Instant::now() + LIMIT;
        while self.speed() != expected {
            let (speed, log) = (self.speed(), self.row.router.log());
            assert!(Instant::now() < deadline, "{speed}: {:?}\n{log}", self.reasons());
            send();
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Two levels that no batch can reach by chance: a burst fills a poll, and a packet comes alone.
const POLICY: &str = "queue-length:q_h=16,q_l=2,c_up=0,c_down=0,silence=0s";

/// Sends single packets, then three times bursts and single packets; the decisions are up and down by
/// turns, for the reason of the traffic.
fn decides_in_order(scene: &Scene, single: impl Fn(), burst: impl Fn()) {
    let [low, _, high] = KILOHERTZ;
    // One packet at a time is no streak above the level.
    for _ in 0..10 {
        single();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(scene.speed(), low, "{}", scene.row.router.log());
    let (above, below) = ("queues stayed above q_h", "queues stayed below q_l");
    let reasons = scene.reasons();
    assert!(!reasons.iter().any(|reason| reason.contains(above)), "{reasons:?}");
    for _ in 0..3 {
        scene.until_speed(high, &burst);
        let reasons = scene.reasons();
        assert!(reasons.last().unwrap().contains(above), "{reasons:?}");
        scene.until_speed(low, &single);
        let reasons = scene.reasons();
        assert!(reasons.last().unwrap().contains(below), "{reasons:?}");
    }
}

#[test]
fn a_streak_in_a_worker_is_a_decision_of_its_governor() {
    let test = "a_streak_in_a_worker_is_a_decision_of_its_governor";
    privileged(test, || {
        if !has("ethtool", test) || !Scene::is_possible() {
            return;
        }
        let scene = Scene::start(POLICY);
        decides_in_order(&scene, || scene.send(1), || scene.burst(BURST));
        scene.row.stop();
    });
}

#[test]
fn polls_before_xdp_programs_give_the_decisions_of_a_worker() {
    let test = "polls_before_xdp_programs_give_the_decisions_of_a_worker";
    privileged(test, || {
        if !has("ethtool", test) || !Scene::is_possible() {
            return;
        }
        let scene = Scene::start_by(XDP, POLICY);
        let send = |packets| {
            let send = || {
                let out = interface_index(SOURCE.interface).unwrap();
                LiveGenerator::new(out, &frame(), None).unwrap().send(packets).unwrap();
            };
            scene.row.topology.source.enter(send).unwrap();
        };
        decides_in_order(&scene, || send(1), || send(64));
        let stats = scene.row.router.stats().unwrap();
        assert!(stats["xdp_forwarded"].as_u64().unwrap() > 3 * 64, "{stats:#}");
        scene.row.stop();
    });
}

/// UDP from source to sink, without checksum.
fn frame() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&LEFT.mac);
    frame[6..12].copy_from_slice(&SOURCE.mac);
    frame[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame[26..30].copy_from_slice(&SOURCE.v4.octets());
    frame[30..34].copy_from_slice(&SINK.v4.octets());
    let words = frame[14..34].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes());
    frame[34..40].copy_from_slice(&[0x13, 0x88, 0, 9, 0, 26]);
    frame
}
