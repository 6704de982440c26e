//! PowerSave in a router: a worker counts streaks where it takes batches, and at the end of one its
//! governor decides. The machine's frequencies are files.

use crate::governed_ports::{CPUFREQ, Program, governed};
use crate::harness::{ADAPTIVE, has, privileged};
use crate::hot_ports::{LIMIT, Row};
use rustix::process::{Pid, Signal, kill_process};
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};
use wattline_testbed::topology::SINK;

const KILOHERTZ: [&str; 3] = ["1600000", "2400000", "3300000"];
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
struct Scene {
    row: Row,
    machine: tempfile::TempDir,
    sender: UdpSocket,
}

impl Scene {
    fn send(&self, packets: usize) {
        for _ in 0..packets {
            self.sender.send_to(&[0; 26], (SINK.v4, 9)).unwrap();
        }
    }

    /// Sends while the router's threads stand still, so that its worker finds all of it at once.
    fn burst(&self) {
        let signal = |signal| {
            let pid = Pid::from_raw(self.row.router.pid() as i32).unwrap();
            kill_process(pid, signal).unwrap();
        };
        signal(Signal::STOP);
        self.send(BURST);
        signal(Signal::CONT);
    }

    fn speed(&self) -> String {
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
        if !has("ethtool", test) || !Path::new(CPUFREQ).is_dir() {
            return;
        }
        let machine = tempfile::tempdir().unwrap();
        write_policy(machine.path());
        let program = Program::with_frequencies(machine.path());
        let policy = "queue-length:q_h=16,q_l=2,c_up=0,c_down=0,silence=0s";
        let row = governed(&program.path(), ADAPTIVE, policy);
        let sender = row.topology.source.enter(|| UdpSocket::bind(("0.0.0.0", 0)).unwrap());
        let scene = Scene { row, machine, sender: sender.unwrap() };
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
        scene.until_speed(high, || scene.burst());
        let reasons = scene.reasons();
        assert!(reasons.last().unwrap().contains(above), "{reasons:?}");
        scene.until_speed(low, || scene.send(1));
        let reasons = scene.reasons();
        assert!(reasons.last().unwrap().contains(below), "{reasons:?}");
        scene.row.stop();
    });
}
