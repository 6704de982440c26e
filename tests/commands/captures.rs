//! `wattline run` from capture to capture: the whole router without root.

use crate::program::{ended_with, wattline};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;
use wattline_traffic::capture::{LinkType, Reader, Resolution, Writer};

const CONFIG: &str = r#"
[router]
socket = "SOCKET"
[[port]]
name = "a"
capture = { read = "in.pcap" }
mac = "02:00:00:00:00:01"
addresses = ["192.0.2.1/24"]
[[port]]
name = "b"
capture = { write = "out.pcap" }
mac = "02:00:00:00:00:11"
addresses = ["198.51.100.1/24"]
[[route]]
prefix = "0.0.0.0/0"
via = "198.51.100.2"
[[route]]
prefix = "10.66.0.0/16"
kind = "blackhole"
[[neighbour]]
address = "198.51.100.2"
mac = "02:00:00:00:00:12"
"#;

/// A UDP packet to the router's port a.
fn frame(destination: [u8; 4], ttl: u8) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1])
        .ipv4([192, 0, 2, 9], destination, ttl)
        .udp(1000, 2000);
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &[7; 32]).unwrap();
    bytes
}

fn write_capture(path: &Path, frames: &[Vec<u8>]) {
    let mut writer = Writer::create(path, LinkType::ETHERNET, Resolution::Nanos).unwrap();
    for (number, frame) in frames.iter().enumerate() {
        writer.write(Duration::from_micros(number as u64), frame).unwrap();
    }
    writer.finish().unwrap();
}

pub fn read_capture(path: &Path) -> Vec<Vec<u8>> {
    let mut reader = Reader::open(path).unwrap();
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record().unwrap() {
        frames.push(record.data.to_vec());
    }
    frames
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket").display().to_string();
        std::fs::write(folder.path().join("router.toml"), config.replace("SOCKET", &socket))
            .unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self) -> Output {
        let mut command = Command::new(wattline_needs::program());
        command.arg("run").arg(self.path("router.toml")).arg("--json").output().unwrap()
    }
}

fn account(output: &Output) -> Value {
    let account: Value = serde_json::from_slice(&output.stdout).unwrap();
    let count = |key: &str| account[key].as_u64().unwrap();
    let dropped: u64 =
        account["dropped"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    assert_eq!(
        count("received") + count("generated"),
        count("forwarded") + count("punted") + dropped,
        "{account}"
    );
    account
}

#[test]
fn packets_are_routed_from_one_capture_to_the_other() {
    for (mode, workers) in [("poll", 1), ("interrupt", 1), ("adaptive", 3)] {
        let settings = format!("[router]\nmode = \"{mode}\"\nworkers = {workers}\n");
        let folder = Folder::new(&CONFIG.replace("[router]\n", &settings));
        let mut frames: Vec<_> = (0..300_u16)
            .map(|number| frame([203, 0, (number >> 8) as u8, number as u8], 64))
            .collect();
        frames.push(frame([10, 66, 1, 1], 64));
        frames.push(frame([192, 0, 2, 1], 64));
        write_capture(&folder.path("in.pcap"), &frames);
        let output = folder.run();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let account = account(&output);
        assert_eq!(account["received"], 302, "{account}");
        assert_eq!(account["forwarded"], 300, "{account}");
        assert_eq!(account["punted"], 1, "{account}");
        assert_eq!(account["dropped"]["blackhole"], 1, "{account}");
        let sent = read_capture(&folder.path("out.pcap"));
        assert_eq!(sent.len(), 300);
        for (sent, received) in sent.iter().zip(&frames) {
            assert_eq!(sent[..12], [2, 0, 0, 0, 0, 0x12, 2, 0, 0, 0, 0, 0x11]);
            assert_eq!(sent[22], received[22] - 1, "time to live");
            etherparse::SlicedPacket::from_ethernet(sent).unwrap();
            assert_eq!(sent[26..], received[26..], "addresses and payload");
        }
    }
}

#[test]
fn wrong_configurations_end_with_78_and_all_that_is_wrong() {
    let config = CONFIG.replace("blackhole", "black hole").replace("192.0.2.1/24", "192.0.2.1/33");
    let output = Folder::new(&config).run();
    let text = ended_with(
        &output,
        78,
        &[
            "router.toml:8: [[port]] addresses = \"192.0.2.1/33\"",
            "router.toml:19: [[route]] kind = \"black hole\"",
        ],
    );
    assert_eq!(text.lines().filter(|line| line.contains("router.toml:")).count(), 2, "{text}");
}

#[test]
fn missing_inputs_end_with_66() {
    let output = Folder::new(CONFIG).run();
    ended_with(&output, 66, &["in.pcap"]);
    assert_eq!(wattline(&["run", "/nonexistent/router.toml"]).status.code(), Some(66));
}

#[test]
fn a_capture_that_is_none_ends_with_65_and_a_cut_one_is_forwarded_up_to_the_cut() {
    let folder = Folder::new(CONFIG);
    std::fs::write(folder.path("in.pcap"), "this is no capture at all, is it?").unwrap();
    let output = folder.run();
    assert_eq!(output.status.code(), Some(65), "{}", String::from_utf8_lossy(&output.stderr));

    let folder = Folder::new(CONFIG);
    let frames: Vec<_> = (0..10).map(|number| frame([203, 0, 113, number], 64)).collect();
    write_capture(&folder.path("in.pcap"), &frames);
    let bytes = std::fs::read(folder.path("in.pcap")).unwrap();
    std::fs::write(folder.path("in.pcap"), &bytes[..bytes.len() - 20]).unwrap();
    let output = folder.run();
    assert_eq!(output.status.code(), Some(65), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(account(&output)["forwarded"], 9);
}

#[test]
fn packets_cut_by_a_snap_length_are_replayed_whole_where_that_is_asked() {
    let cut = |config: &str| {
        let folder = Folder::new(config);
        let whole = frame([203, 0, 113, 5], 64);
        // Written by hand: our writer knows no snap length.
        let header = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 40, 1];
        let record = [0, 0, 40, whole.len() as u32];
        let mut bytes: Vec<u8> =
            header.iter().chain(&record).flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(&whole[..40]);
        std::fs::write(folder.path("in.pcap"), bytes).unwrap();
        let output = folder.run();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (account(&output), read_capture(&folder.path("out.pcap")), whole)
    };
    let (short, sent, _) = cut(CONFIG);
    assert_eq!((&short["dropped"]["bad-length"], sent.len()), (&1.into(), 0), "{short}");
    let asked = CONFIG.replace("read = \"in.pcap\"", "read = \"in.pcap\", original_length = true");
    let (long, sent, whole) = cut(&asked);
    assert_eq!(long["forwarded"], 1, "{long}");
    assert_eq!((sent[0].len(), &sent[0][26..40]), (whole.len(), &whole[26..40]));
    assert!(sent[0][40..].iter().all(|byte| *byte == 0));
}

/// Also under another name, which the configuration's own check cannot detect.
#[test]
fn a_capture_that_is_read_is_never_overwritten() {
    type Link = fn(PathBuf, PathBuf) -> std::io::Result<()>;
    let links: [Link; 2] = [std::os::unix::fs::symlink, std::fs::hard_link];
    for link in links {
        let folder = Folder::new(CONFIG);
        write_capture(&folder.path("in.pcap"), &[frame([203, 0, 113, 5], 64)]);
        let before = std::fs::read(folder.path("in.pcap")).unwrap();
        link(folder.path("in.pcap"), folder.path("out.pcap")).unwrap();
        let output = folder.run();
        ended_with(&output, 78, &["out.pcap", "overwritten"]);
        assert_eq!(std::fs::read(folder.path("in.pcap")).unwrap(), before);
    }
}

#[test]
fn unsuitable_interface_and_missing_rights_are_reported() {
    // The loopback has no Ethernet frames.
    let text = "[router]\nsocket = \"SOCKET\"\n[[port]]\nname = \"a\"\ninterface = \"lo\"\n";
    let folder = Folder::new(text);
    let output = folder.run();
    let message = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(78) => assert!(message.contains("lo is not an Ethernet"), "{message}"),
        Some(77) => assert!(message.contains("CAP_NET_ADMIN"), "{message}"),
        other => panic!("{other:?}: {message}"),
    }
}

/// Root without capabilities, as in a container: the missing one is named, with the remedy.
#[test]
fn missing_capabilities_end_with_77() {
    if !rustix::process::geteuid().is_root() {
        wattline_needs::rights("root, to give up its rights");
        return;
    }
    let text = "[router]\nsocket = \"SOCKET\"\n[[port]]\nname = \"a\"\ninterface = \"lo\"\n";
    let folder = Folder::new(text);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", wattline_needs::program(), "run"]);
    let output = command.arg(folder.path("router.toml")).output().unwrap();
    ended_with(&output, 77, &["CAP_BPF", "CAP_NET_ADMIN", "CAP_NET_RAW", "setcap"]);
}

#[test]
fn the_file_of_routes_is_used() {
    let config = format!("routes_file = \"routes.txt\"\n{CONFIG}");
    let folder = Folder::new(&config);
    std::fs::write(folder.path("routes.txt"), "203.0.113.0/25 prohibit\n").unwrap();
    let frames = [frame([203, 0, 113, 1], 64), frame([203, 0, 113, 200], 64)];
    write_capture(&folder.path("in.pcap"), &frames);
    let output = folder.run();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(account(&output)["dropped"]["prohibited"], 1, "{}", account(&output));
    std::fs::write(folder.path("routes.txt"), "nonsense\n").unwrap();
    assert_eq!(folder.run().status.code(), Some(78));
}

/// The whole loop on the emulated server: forwarded packets, and the energy that they took.
#[test]
fn a_governor_drives_an_emulated_server_between_captures() {
    let power = "[power]\nplatform = \"scale\"\nscale = 100\npolicy = \"napi\"\n[[port]]\n";
    let config = CONFIG.replacen("[[port]]\n", power, 1);
    let folder = Folder::new(&config.replace("[router]\n", "[router]\nworkers = 3\n"));
    let frames: Vec<_> = (0..300_u16).map(|n| frame([203, 0, 113, n as u8], 64)).collect();
    write_capture(&folder.path("in.pcap"), &frames);
    let output = folder.run();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let account = account(&output);
    assert_eq!(account["forwarded"], 300, "{account}");
    assert_eq!(read_capture(&folder.path("out.pcap")).len(), 300);
    let power = &account["power"];
    assert_eq!((&power["platform"], &power["policy"]), (&"scale".into(), &"napi".into()));
    assert_eq!((&power["source"], &power["accuracy"]), (&"emulated".into(), &"static".into()));
    assert_eq!((&power["forwarded_packets"], &power["dropped_packets"]), (&300.into(), &0.into()));
    assert_eq!((&power["cores"], &power["cores_active"]), (&3.into(), &3.into()));
    let watts = power["power_watts"].as_f64().unwrap();
    let parts = power["power_by_component_watts"].as_object().unwrap().values();
    let sum: f64 = parts.map(|part| part.as_f64().unwrap()).sum();
    let rest = power["power_rest_watts"].as_f64().unwrap();
    assert!(watts > 100.0 && (sum + rest - watts).abs() < 1e-6, "{power}");
    assert!(power["model_seconds"].as_f64().unwrap() > 0.0, "{power}");
    assert_eq!(power["frequency_hertz"].as_array().map(Vec::len), Some(3), "{power}");

    let no_model = config.replace("scale = 100", "scale = 100\nserver = \"nowhere.toml\"");
    let output = Folder::new(&no_model).run();
    ended_with(&output, 66, &["nowhere.toml"]);
}
