//! A router whose log is not read, and the rights of the threads that serve its clients.

use crate::faults::reaches;
use crate::harness::{ADAPTIVE, Bench, binary, quiet};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;
use wattline_needs::until;
use wattline_testbed::command;
use wattline_testbed::forwarder::{Mode, configuration};
use wattline_testbed::topology::{Options, SINK, Topology};

const LIMIT: Duration = Duration::from_secs(60);

/// A full pipe, whose writer waits.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&writer, &[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

/// Links go up and down, which the router logs. Meanwhile it answers, follows the kernel and ends.
fn lives_with(stderr: OwnedFd) {
    let topology = Topology::build(Options::default()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let file = folder.path().join("router.toml");
    let text = configuration(Mode::Adaptive, 1, &socket) + "[log]\nlevel = \"trace\"\n";
    std::fs::write(&file, text).unwrap();
    let mut router = topology.router.command(&binary().to_string_lossy());
    router.arg("run").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
    let mut router = router.spawn().unwrap();
    let answers = || {
        let mut stats = Command::new(binary());
        command::run(stats.args(["stats", "--json", "--socket"]).arg(&socket), LIMIT).is_ok()
    };
    until("it answers", answers);
    for _ in 0..5 {
        topology.router.ip("link set left down").unwrap();
        std::thread::sleep(Duration::from_millis(100));
        topology.router.ip("link set left up").unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(router.try_wait().unwrap(), None, "it lives");
    assert!(answers());
    until("it forwards", || reaches(&topology, &SINK.v4.to_string()));
    kill_process(Pid::from_child(&router), Signal::TERM).unwrap();
    let ended = command::wait(&mut router, Duration::from_secs(20)).unwrap();
    if ended.is_none() {
        router.kill().unwrap();
        router.wait().unwrap();
    }
    assert_eq!(ended.and_then(|it| it.code()), Some(0));
}

#[test]
fn stalled_reader_of_the_log_blocks_no_router() {
    quiet("stalled_reader_of_the_log_blocks_no_router", || {
        let (reader, writer) = full_pipe();
        lives_with(writer);
        drop(reader);
    });
}

#[test]
fn vanished_reader_of_the_log_ends_no_router() {
    quiet("vanished_reader_of_the_log_ends_no_router", || {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(reader);
        lives_with(writer);
    });
}

#[test]
fn full_disk_of_the_log_ends_no_router() {
    quiet("full_disk_of_the_log_ends_no_router", || {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        lives_with(full.into());
    });
}

/// The thread that follows the kernel keeps the capabilities that it needs; threads that parse
/// input of clients have none.
#[test]
fn threads_that_serve_clients_of_a_router_have_no_capabilities() {
    quiet("threads_that_serve_clients_of_a_router_have_no_capabilities", || {
        let topology = Topology::build(Options::default()).unwrap();
        topology.router.ip("link set lo up").unwrap();
        let more = "[metrics]\nlisten = \"127.0.0.1:9417\"\n";
        let bench = Bench::start_in(topology, ADAPTIVE, more);
        let router = bench.router();
        let connect = || TcpStream::connect("127.0.0.1:9417").unwrap();
        let mut client = bench.topology.router.enter(connect).unwrap();
        client.write_all(b"GET ").unwrap();
        let control = UnixStream::connect(router.socket()).unwrap();
        (&control).write_all(b"{\"request\":\"stats\"}\n").unwrap();
        (&control).read_exact(&mut [0; 8]).unwrap();
        let mut served = [0; 3];
        for task in std::fs::read_dir(format!("/proc/{}/task", router.pid())).unwrap() {
            let status = task.unwrap().path().join("status");
            let Ok(status) = std::fs::read_to_string(status) else { continue };
            let value = |field: &str| {
                let line = status.lines().find_map(|it| it.strip_prefix(&format!("{field}:\t")));
                line.unwrap().to_owned()
            };
            let Some(kind) =
                ["metrics", "control", "log"].iter().position(|it| value("Name") == *it)
            else {
                continue;
            };
            served[kind] += 1;
            for field in ["CapEff", "CapPrm", "CapInh"] {
                assert_eq!(value(field), "0000000000000000", "{status}");
            }
            assert_eq!(value("NoNewPrivs"), "1", "{status}");
        }
        assert!(served.iter().all(|count| *count > 0), "{served:?}");
        // A client whose request is incomplete would delay the end.
        drop((client, control));
        assert!(reaches(&bench.topology, &SINK.v4.to_string()));
        bench.finish();
    });
}
