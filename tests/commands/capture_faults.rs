//! Captures that fail: at the start, on the way, and when the router is to end.

use crate::program::ended_with;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wattline_daemon::socket::{Request, ask};
use wattline_traffic::capture::{LinkType, Resolution, Writer};

const PATIENCE: Duration = Duration::from_secs(60);

/// A router from READ to WRITE.
fn configuration(folder: &Path, read: &str, second: &str) -> Command {
    let text = format!(
        "[router]\nsocket = \"{}\"\n\
         [[port]]\nname = \"a\"\ncapture = {{ read = \"{read}\" }}\naddresses = [\"192.0.2.1/24\"]\n\
         [[port]]\nname = \"b\"\ncapture = {{ {second} }}\naddresses = [\"198.51.100.1/24\"]\n\
         [[neighbour]]\naddress = \"198.51.100.2\"\nmac = \"02:00:00:00:00:12\"\n",
        folder.join("socket").display()
    );
    std::fs::write(folder.join("router.toml"), text).unwrap();
    let mut command = Command::new(wattline_needs::program());
    command.args(["run", "--json"]).arg(folder.join("router.toml"));
    command
}

fn capture(path: &Path, packets: usize) {
    let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1])
        .ipv4([192, 0, 2, 9], [198, 51, 100, 2], 64)
        .udp(1000, 2000);
    let mut frame = Vec::new();
    builder.write(&mut frame, &[7; 1000]).unwrap();
    let mut writer = Writer::create(path, LinkType::ETHERNET, Resolution::Nanos).unwrap();
    (0..packets).for_each(|_| writer.write(Duration::ZERO, &frame).unwrap());
    writer.finish().unwrap();
}

#[test]
fn captures_that_cannot_be_read_are_all_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("empty.pcap"), b"").unwrap();
    let second = "read = \"none.pcap\"";
    let output = configuration(folder.path(), "empty.pcap", second).output().unwrap();
    ended_with(&output, 65, &["empty.pcap: byte 0", "none.pcap: cannot be opened"]);
}

#[test]
fn packets_that_a_full_disk_did_not_take_are_not_forwarded() {
    let folder = tempfile::tempdir().unwrap();
    capture(&folder.path().join("in.pcap"), 300);
    let second = "write = \"/dev/full\"";
    let output = configuration(folder.path(), "in.pcap", second).output().unwrap();
    assert_eq!(output.status.code(), Some(74));
    let counted: Value = serde_json::from_slice(&output.stdout).unwrap();
    let refused = counted["dropped"]["transmit-ring-full"].as_u64().unwrap();
    // A few were taken into the buffer before the disk was asked.
    assert!(refused > 280, "{counted}");
    assert_eq!(counted["forwarded"].as_u64().unwrap() + refused, 300, "{counted}");
}

#[test]
fn a_reader_who_has_gone_hides_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    capture(&folder.path().join("whole.pcap"), 3);
    let mut bytes = std::fs::read(folder.path().join("whole.pcap")).unwrap();
    bytes.truncate(bytes.len() - 1);
    std::fs::write(folder.path().join("in.pcap"), bytes).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = configuration(folder.path(), "in.pcap", "write = \"out.pcap\"");
    let status = command.stdout(writer).stderr(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(65));
}

/// As when a capture is piped in and its writer lives on.
#[test]
fn a_pipe_that_gives_nothing_keeps_nobody_from_ending() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("in.pcap");
    capture(&whole, 1);
    let second = "write = \"out.pcap\"";
    let mut router = configuration(folder.path(), "/dev/stdin", second)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pipe = router.stdin.take().unwrap();
    pipe.write_all(&std::fs::read(&whole).unwrap()).unwrap();
    let end = Instant::now() + PATIENCE;
    // When it answers, it is also ready for signals.
    while ask(&folder.path().join("socket"), Request::Stats).is_err() {
        assert!(Instant::now() < end, "it did not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    let pid = Pid::from_child(&router);
    kill_process(pid, Signal::TERM).unwrap();
    let ended = loop {
        match router.try_wait().unwrap() {
            Some(status) => break Some(status),
            None if Instant::now() > end => break None,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if ended.is_none() {
        router.kill().unwrap();
        router.wait().unwrap();
    }
    assert!(ended.is_some(), "it waits for the pipe");
    drop(pipe);
}
