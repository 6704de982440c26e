//! A machine that forwards under a governor: by workers, by XDP programs, or by its kernel through a
//! masquerade. Its frequencies are files.

use crate::crafted::set_checksum;
use crate::governed_ports::{CPUFREQ, Program};
use crate::harness::KERNEL;
use crate::hot_ports::LIMIT;
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use wattline_linux::namespace::interface_index;
use wattline_testbed::forwarder::{Forwarder, Running, Wattline};
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Topology};
use wattline_xdp::LiveGenerator;

pub const KILOHERTZ: [&str; 3] = ["1600000", "2400000", "3300000"];
const SINK_PORT: u16 = 9;
/// Time for a decision that changes the frequency.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for a decision that changes nothing, and until streaks are counted again.
const SETTLED: Duration = Duration::from_millis(5);

/// A cpufreq policy of one CPU, by name and content of its files. New texts have the same length,
/// since writes do not truncate these files.
pub fn write_policy(folder: &Path) {
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

/// The forwarder and its governor, between a source and a sink.
pub struct Scene {
    // First: it is stopped before its namespace goes.
    running: Running,
    topology: Topology,
    machine: TempDir,
    sink: UdpSocket,
    _program: Program,
}

impl Scene {
    /// Returns true if this machine has the directory of the frequency files.
    pub fn is_possible() -> bool {
        Path::new(CPUFREQ).is_dir()
    }

    pub fn start(forwarder: Forwarder, policy: &str) -> Self {
        let machine = tempfile::tempdir().unwrap();
        write_policy(machine.path());
        let program = Program::with_frequencies(machine.path(), forwarder == KERNEL);
        let options = Options { static_neighbours: true, ..Options::default() };
        let topology = Topology::build(options).unwrap();
        for end in [&topology.source, &topology.sink] {
            // No packets of the kernel's own, which would be samples.
            end.sysctl(&[("ipv6/conf/uplink/disable_ipv6", "1")]).unwrap();
        }
        // A veth has NAPI instances without a program while it has GRO.
        for port in [LEFT, RIGHT] {
            let arguments = ["-K", port.interface, "gro", "on"];
            topology.router.run("ethtool", &arguments, LIMIT).unwrap();
        }
        let power = format!("\n[power]\nplatform = \"host\"\npolicy = \"{policy}\"\n");
        let mut running = forwarder.start_with(&topology, &program.path(), &power).unwrap();
        if forwarder == KERNEL {
            let rules = format!(
                "table ip nat {{ chain post {{ type nat hook postrouting priority 100; \
                 oifname {} masquerade; }}; }}",
                RIGHT.interface
            );
            topology.router.run("nft", &[&rules], LIMIT).unwrap();
            let govern = |socket: &Path| {
                format!(
                    "[govern]\npolicy = \"{policy}\"\nknobs = [\"frequency\"]\ncpus = [0]\n\
                     interfaces = [\"{}\"]\nsocket = \"{}\"\n",
                    LEFT.interface,
                    socket.display()
                )
            };
            let governor = Wattline::start_with(&topology, &program.path(), govern).unwrap();
            running.wattline = Some(governor);
        }
        let open = || UdpSocket::bind((SINK.v4, SINK_PORT)).unwrap();
        let sink = topology.sink.enter(open).unwrap();
        set_socket_recv_buffer_size_force(&sink, 1 << 20).unwrap();
        sink.set_read_timeout(Some(LIMIT)).unwrap();
        Self { running, topology, machine, sink, _program: program }
    }

    fn governor(&self) -> &Wattline {
        self.running.wattline.as_ref().unwrap()
    }

    pub fn log(&self) -> String {
        self.governor().log()
    }

    /// Index of the frequency.
    fn step(&self) -> usize {
        let file = self.machine.path().join("policy0/scaling_max_freq");
        let text = std::fs::read_to_string(file).unwrap();
        KILOHERTZ.iter().position(|step| *step == text.trim()).unwrap()
    }

    /// Sends bursts of up to a poll from one CPU, and returns the frequency after each, up to the
    /// first that is not the expected one. All packets arrive.
    pub fn play(&self, bursts: &[usize], expected: &[usize]) -> Vec<usize> {
        wattline_needs::until_or(|| self.step() == 0, || self.log());
        let play = || {
            let mut first = CpuSet::new();
            first.set(0);
            sched_setaffinity(None, &first).unwrap();
            let out = interface_index(SOURCE.interface).unwrap();
            let generator = LiveGenerator::new(out, &frame(), None).unwrap();
            let mut steps = Vec::new();
            for (packets, expected) in bursts.iter().zip(expected) {
                generator.send(*packets as u32).unwrap();
                for _ in 0..*packets {
                    self.sink
                        .recv(&mut [0; 64])
                        .unwrap_or_else(|why| panic!("{why}: {}", self.log()));
                }
                let end = Instant::now() + PATIENCE;
                while self.step() != *expected && Instant::now() < end {
                    std::thread::sleep(Duration::from_millis(1));
                }
                std::thread::sleep(SETTLED);
                steps.push(self.step());
                if steps.last() != Some(expected) {
                    break;
                }
            }
            steps
        };
        self.topology.source.enter(play).unwrap()
    }

    /// Returns the last changes of the operating point for streaks: true for one above the level.
    pub fn reasons(&self) -> Vec<bool> {
        let stats = self.governor().stats().unwrap();
        let changes = stats["power"]["last_changes"].as_array().unwrap();
        let above = |change: &serde_json::Value| {
            let reason = change["reason"].as_str().unwrap();
            let above = reason.contains("queues stayed above q_h");
            (above || reason.contains("queues stayed below q_l")).then_some(above)
        };
        changes.iter().filter_map(above).collect()
    }
}

/// UDP from source to sink, without checksum.
pub fn frame() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&LEFT.mac);
    frame[6..12].copy_from_slice(&SOURCE.mac);
    frame[12..26].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0]);
    frame[26..30].copy_from_slice(&SOURCE.v4.octets());
    frame[30..34].copy_from_slice(&SINK.v4.octets());
    set_checksum(&mut frame[14..34]);
    frame[34..40].copy_from_slice(&[0x13, 0x88, 0, 9, 0, 26]);
    frame
}
