//! iperf3 through the router: TCP both ways and UDP.

use crate::harness::{Bench, has, load_time};
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::Duration;
use wattline_lab::command;
use wattline_lab::forwarder::Forwarder;
use wattline_lab::namespace::Namespace;
use wattline_lab::probe::receive_buffer_errors;
use wattline_lab::topology::{Options, SINK, Topology};

with_every_forwarder!(iperf3_tcp_and_udp_get_through);

fn iperf3_tcp_and_udp_get_through(forwarder: Forwarder) {
    if !has("iperf3", "iperf3_tcp_and_udp_get_through") {
        return;
    }
    let bench = Bench::start(Options::default(), forwarder);
    for address in [SINK.v4.to_string(), SINK.v6.to_string()] {
        tcp(&bench.topology, &address, load_time());
        udp(&bench.topology, &address, load_time());
    }
    bench.finish();
}

/// TCP from source to sink for a while: bytes arrive in every second of it.
pub fn tcp(topology: &Topology, address: &str, time: Duration) {
    let report = iperf3(topology, address, time, &[]);
    let intervals = report["intervals"].as_array().unwrap();
    assert!(!intervals.is_empty(), "{report}");
    for interval in intervals {
        assert!(interval["sum"]["bytes"].as_u64().unwrap() > 0, "stalled: {interval}");
    }
    assert!(report["end"]["sum_received"]["bytes"].as_u64().unwrap() > 0, "{report}");
}

/// UDP at a rate that any machine carries: what does not reach the receiver's socket is the
/// router's fault. What a receiver that gets no processor leaves in its full socket buffer is
/// not, and the kernel counts it.
fn udp(topology: &Topology, address: &str, time: Duration) {
    let before = full_socket_buffers(topology);
    let report = iperf3(topology, address, time, &["-u", "-b", "20M", "-l", "1200"]);
    let at_the_receiver = full_socket_buffers(topology) - before;
    let sum = &report["end"]["sum"];
    assert!(sum["packets"].as_u64().unwrap() > 0, "{sum}");
    let lost = sum["lost_packets"].as_u64().unwrap();
    assert_eq!(lost.saturating_sub(at_the_receiver), 0, "{at_the_receiver} of those lost: {sum}");
}

/// Datagrams that the sink dropped since its birth because a socket's buffer was full.
fn full_socket_buffers(topology: &Topology) -> u64 {
    let patience = Duration::from_secs(10);
    let files = ["/proc/net/snmp", "/proc/net/snmp6"];
    let text = topology.sink.run("cat", &files, patience).unwrap();
    receive_buffer_errors(&text)
}

fn iperf3(topology: &Topology, address: &str, time: Duration, more: &[&str]) -> Value {
    let _server = Server::start(topology);
    let seconds = time.as_secs().max(1).to_string();
    let mut command = topology.source.command("iperf3");
    command.args(["-J", "-c", address, "-t", &seconds]).args(more);
    let text = command::run(&mut command, time + Duration::from_secs(30)).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// An iperf3 server in the sink, for one test; stopped when dropped.
pub struct Server(Child);

impl Server {
    /// Starts it at the sink and waits until it listens.
    pub fn start(topology: &Topology) -> Self {
        Self::start_in(&topology.sink)
    }

    /// The same in any namespace.
    pub fn start_in(namespace: &Namespace) -> Self {
        let mut command = namespace.command("iperf3");
        command.args(["-s"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Self(command::spawn(&mut command).unwrap());
        for _ in 0..500 {
            let listening = namespace.run("ss", &["-Hltn"], Duration::from_secs(10)).unwrap();
            if listening.contains(":5201") {
                return server;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("iperf3 does not listen");
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
