//! iperf3 through the router: TCP both ways and UDP.

use crate::harness::{Bench, has, load_time, terminate};
use rustix::process::Signal;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;
use wattline_needs::KillOnDrop;
use wattline_testbed::command;
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::probe::receive_buffer_errors;
use wattline_testbed::topology::{Options, SINK, Topology};

/// Port of iperf3 by default.
pub const PORT: u16 = 5201;
const PATIENCE: Duration = Duration::from_secs(60);

mod iperf3_tcp_and_udp_get_through {
    tests_with! {
        iperf3_tcp_and_udp_get_through, privileged:
        kernel: KERNEL, poll: POLL, interrupt: INTERRUPT, adaptive: ADAPTIVE, xdp: XDP
    }
}

fn iperf3_tcp_and_udp_get_through(forwarder: Forwarder) {
    if !has("iperf3", "iperf3_tcp_and_udp_get_through") {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    for address in addresses() {
        tcp(&bench.topology, &address, PORT, load_time());
    }
    udp(&bench.topology, load_time());
    bench.finish();
}

fn addresses() -> [String; 2] {
    [SINK.v4.to_string(), SINK.v6.to_string()]
}

/// TCP from source to sink for a while: bytes arrive in every second of it.
pub fn tcp(topology: &Topology, address: &str, port: u16, time: Duration) {
    let report = iperf3(topology, address, port, time, &[]);
    let intervals = report["intervals"].as_array().unwrap();
    assert!(!intervals.is_empty(), "{report}");
    for interval in intervals {
        assert!(interval["sum"]["bytes"].as_u64().unwrap() > 0, "stalled: {interval}");
    }
    assert!(report["end"]["sum_received"]["bytes"].as_u64().unwrap() > 0, "{report}");
}

/// UDP of both families at a rate that any machine carries: the router may not lose a packet. A
/// receiver that does not run overflows its socket buffer; the kernel counts these drops, in one
/// number for both families.
fn udp(topology: &Topology, time: Duration) {
    let before = full_socket_buffers(topology);
    let more = ["-u", "-b", "20M", "-l", "1200"];
    let sums = std::thread::scope(|scope| {
        let flow = |(address, port): (String, u16)| {
            scope.spawn(move || iperf3(topology, &address, port, time, &more)["end"]["sum"].clone())
        };
        let [v4, v6] = addresses();
        [(v4, PORT), (v6, PORT + 1)].map(flow).map(|flow| flow.join().unwrap())
    });
    let at_the_receiver = full_socket_buffers(topology) - before;
    assert!(sums.iter().all(|sum| sum["packets"].as_u64().unwrap() > 0), "{sums:?}");
    let lost: u64 = sums.iter().map(|sum| sum["lost_packets"].as_u64().unwrap()).sum();
    assert_eq!(lost.saturating_sub(at_the_receiver), 0, "{at_the_receiver} of those: {sums:?}");
}

/// Datagrams that the sink dropped since its birth because a socket's buffer was full.
fn full_socket_buffers(topology: &Topology) -> u64 {
    let files = ["/proc/net/snmp", "/proc/net/snmp6"];
    let text = topology.sink.run("cat", &files, PATIENCE).unwrap();
    receive_buffer_errors(&text)
}

fn iperf3(topology: &Topology, address: &str, port: u16, time: Duration, more: &[&str]) -> Value {
    let _server = Server::start_at(&topology.sink, port);
    let (seconds, port) = (time.as_secs().max(1).to_string(), port.to_string());
    let mut command = topology.source.command("iperf3");
    command.args(["-J", "-c", address, "-p", &port, "-t", &seconds]).args(more);
    let text = command::run(&mut command, time + PATIENCE).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// Returns true if no bytes were sent in two intervals of a report in a row. A busy machine may hold a stream up for
/// one, and the last one ends with an interruption.
pub fn stalls(report: &Value) -> bool {
    let silent = |interval: &Value| interval["sum"]["bytes"].as_u64() == Some(0);
    report["intervals"].as_array().unwrap().windows(2).any(|two| two.iter().all(silent))
}

/// An iperf3 client that sends until it is interrupted; killed with the value.
pub struct Client(KillOnDrop);

impl Client {
    /// Starts it, for ten minutes at most.
    pub fn start(namespace: &Namespace, address: &str, more: &[&str]) -> Self {
        let mut client = namespace.command("iperf3");
        client.args(["-J", "-c", address, "-t", "600"]).args(more);
        client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        Self(KillOnDrop(command::spawn(&mut client).unwrap()))
    }

    /// Ends it early, and returns its report so far.
    pub fn interrupt(mut self) -> Value {
        terminate(&self.0, Signal::INT);
        let mut text = String::new();
        std::io::Read::read_to_string(self.0.stdout.as_mut().unwrap(), &mut text).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }
}

/// An iperf3 server in the sink, for one test; stopped when dropped.
pub struct Server(KillOnDrop);

impl Server {
    /// Starts it at the sink and waits until it listens.
    pub fn start(topology: &Topology) -> Self {
        Self::start_in(&topology.sink)
    }

    /// The same in any namespace.
    pub fn start_in(namespace: &Namespace) -> Self {
        Self::start_at(namespace, PORT)
    }

    /// The same at any port.
    pub fn start_at(namespace: &Namespace, port: u16) -> Self {
        let mut command = namespace.command("iperf3");
        command.args(["-s", "-p", &port.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(KillOnDrop(command::spawn(&mut command).unwrap()));
        wattline_needs::until("iperf3 does not listen", || {
            namespace.run("ss", &["-Hltn"], PATIENCE).unwrap().contains(&format!(":{port} "))
        });
        server
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}
