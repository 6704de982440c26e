//! Real programs: nfcapd, nfdump, softflowd, nfpcapd and tshark.

use super::router;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use wattline_needs::KillOnDrop;

pub fn is_there(program: &str) -> bool {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':').any(|folder| Path::new(folder).join(program).exists())
}

fn command(program: &str) -> Command {
    // None of them may hold the tests up.
    let mut command = Command::new("timeout");
    command.args(["60", program]);
    command.env("PATH", std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin");
    command
}

/// Returns the line in which a program names its version.
pub fn version(program: &str, option: &str) -> String {
    let output = command(program).arg(option).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    let line =
        text.lines().find(|line| line.to_lowercase().contains("version") || line.contains('.'));
    line.unwrap_or(program).to_owned()
}

fn checked(output: Output, what: &str) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Packets and bytes by protocol, addresses and ports.
#[derive(Debug, Default)]
pub struct Flows(BTreeMap<String, (u64, u64)>);

/// Format of nfdump that [`Flows::add`] reads.
const FORMAT: &str = "fmt:%pr,%sa,%sp,%da,%dp,%pkt,%byt";

impl Flows {
    /// Adds a line of nfdump.
    pub fn add(&mut self, line: &str) {
        let words: Vec<_> = line.split(',').map(str::trim).collect();
        let [protocol, source, source_port, destination, destination_port, packets, bytes] =
            words[..]
        else {
            panic!("{line}")
        };
        // Exporters put type and code of ICMP into different places.
        let key = match protocol {
            "1" | "58" => format!("{protocol} {source} {destination}"),
            _ => format!("{protocol} {source} {source_port} {destination} {destination_port}"),
        };
        let sum = self.0.entry(key).or_default();
        sum.0 += packets.parse::<u64>().unwrap();
        sum.1 += bytes.parse::<u64>().unwrap();
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn sums(&self) -> (u64, u64) {
        self.0.values().fold((0, 0), |sum, flow| (sum.0 + flow.0, sum.1 + flow.1))
    }

    pub fn assert_equal(&self, other: &Self, what: &str) {
        for (flow, counts) in &self.0 {
            assert_eq!(Some(counts), other.0.get(flow), "{what}: {flow}");
        }
        for flow in other.0.keys() {
            assert!(self.0.contains_key(flow), "{what}: {flow} is only there");
        }
    }
}

fn nfdump(folder: &Path, format: &str) -> String {
    // -6: addresses in full.
    let output =
        command("nfdump").arg("-R").arg(folder).args(["-q", "-6", "-N", "-o", format]).output();
    checked(output.unwrap(), "nfdump")
}

fn read_flows(folder: &Path) -> Flows {
    let mut flows = Flows::default();
    nfdump(folder, FORMAT)
        .lines()
        .filter(|line| line.contains(','))
        .for_each(|line| flows.add(line));
    flows
}

/// nfcapd with a folder of its own; killed with the value.
pub struct Nfcapd {
    pub address: String,
    child: KillOnDrop,
    folder: tempfile::TempDir,
}

impl Nfcapd {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = command("nfcapd")
            .args(["-b", "127.0.0.1", "-p", &port.to_string(), "-B", "4000000", "-w"])
            .arg(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let hexadecimal = format!(":{port:04X} ");
        wattline_needs::until("nfcapd listens", || {
            std::fs::read_to_string("/proc/net/udp").unwrap().contains(&hexadecimal)
        });
        Self { address: format!("127.0.0.1:{port}"), child: KillOnDrop(child), folder }
    }

    /// Its flows, once it has taken all.
    pub fn stop(mut self) -> Flows {
        self.end(true);
        read_flows(self.folder.path())
    }

    /// The same for an exporter whose sequence numbers are not checked.
    pub fn stop_lenient(mut self) -> Flows {
        self.end(false);
        read_flows(self.folder.path())
    }

    /// The same in a format of nfdump.
    pub fn stop_with(mut self, format: &str) -> String {
        self.end(true);
        nfdump(self.folder.path(), format)
    }

    fn end(&mut self, strict: bool) {
        // Sent messages are in its socket's buffer at once; it needs time to read them.
        std::thread::sleep(Duration::from_millis(500));
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap();
        let mut log = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        for line in log.lines().filter(|line| line.contains("Sequence Errors")) {
            let in_order = line.contains("Sequence Errors: 0") || !strict;
            assert!(in_order && line.contains("Bad Packets: 0"), "{log}");
        }
        assert!(log.contains("Sequence Errors"), "{log}");
    }
}

/// Lets softflowd export a capture.
pub fn softflowd(capture: &Path, collector: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = command("softflowd")
        .arg("-r")
        .arg(capture)
        .args(["-v", "10", "-6", "-d", "-m", "100000", "-n", collector, "-p"])
        .arg(folder.path().join("pid"))
        // With a control socket it waits for a client.
        .args(["-c", "none"])
        .output();
    checked(output.unwrap(), "softflowd");
}

/// Returns the flows that nfpcapd finds in a capture.
pub fn nfpcapd(capture: &Path) -> Flows {
    let folder = tempfile::tempdir().unwrap();
    let output = command("nfpcapd").arg("-r").arg(capture).arg("-w").arg(folder.path()).output();
    checked(output.unwrap(), "nfpcapd");
    read_flows(folder.path())
}

/// Contents of messages, as tshark finds them.
pub struct Dissected {
    pub frames: usize,
    pub packets: u64,
    pub bytes: u64,
    /// Malformed packets, and expert information from a warning on.
    pub complaints: String,
}

/// Lets tshark dissect messages, which are written to `file` as if sent to `port`.
pub fn dissect(file: &Path, messages: &[Vec<u8>], port: u16, tcp: bool) -> Dissected {
    let mut sequence = 1;
    let frames = messages.iter().map(|message| {
        let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4(
            [127, 0, 0, 1],
            [127, 0, 0, 1],
            64,
        );
        let mut frame = Vec::new();
        if tcp {
            builder.tcp(40000, port, sequence, 65535).ack(1).write(&mut frame, message).unwrap();
            sequence += message.len() as u32;
        } else {
            builder.udp(40000, port).write(&mut frame, message).unwrap();
        }
        frame
    });
    router::write(file, frames);
    let tshark = |arguments: &[&str]| {
        let port = format!("{}.port=={port},cflow", if tcp { "tcp" } else { "udp" });
        let output =
            command("tshark").args(["-n", "-d", &port, "-r"]).arg(file).args(arguments).output();
        checked(output.unwrap(), "tshark")
    };
    const WARNING: &str = "_ws.malformed || _ws.expert.severity >= 0x600000";
    let complaints = tshark(&["-Y", WARNING, "-V"]);
    let count = |field: &str| {
        let text = tshark(&["-T", "fields", "-e", field]);
        let words = text.split(['\n', ',', '\t']).filter(|word| !word.is_empty());
        words.map(|word| word.parse::<u64>().unwrap()).collect::<Vec<_>>()
    };
    Dissected {
        frames: count("cflow.version").len(),
        packets: count("cflow.packets").iter().sum(),
        bytes: count("cflow.octets").iter().sum(),
        complaints,
    }
}
