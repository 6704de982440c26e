//! An encoder and a decoder of redundancy elimination in two routers, with TCP through both.
//!
//! The sink of the usual topology becomes the second router, and a host is put behind it.

use crate::harness::{binary, privileged, privileged_with};
use crate::throughput::{Client, Server, stalls};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};
use wattline_linux::namespace::interface_index;
use wattline_testbed::forwarder::Wattline;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Topology};
use wattline_xdp::steer::{Steering, TABLE_ENTRIES, balance};

const LIMIT: Duration = Duration::from_secs(60);
pub const HOST4: &str = "198.19.8.2";
pub const HOST6: &str = "2001:2:0:8::2";
/// Towards the host, in the second router.
const BEHIND: &str = "behind";

/// Source, encoder, decoder, host: two routers in a row; the first may encode and the second
/// decode.
pub struct Chain {
    pub encoder: Wattline,
    pub decoder: Wattline,
    pub host: Namespace,
    pub topology: Topology,
}

fn config(ports: [&str; 2], sections: &str, socket: &Path) -> String {
    let mut text = format!("[router]\nworkers = 2\nsocket = \"{}\"\n", socket.display());
    for port in ports {
        text += &format!("[[port]]\nname = \"{port}\"\ninterface = \"{port}\"\n");
    }
    text + sections
}

/// Returns the sections that make the first router an encoder and the second a decoder.
pub fn elimination() -> [String; 2] {
    let ends = [("encode", RIGHT.interface, SINK.v4), ("decode", SINK.interface, RIGHT.v4)];
    ends.map(|(role, port, peer)| {
        format!(
            "[[redundancy]]\nsecret = \"s\"\nbypass_entropy = false\n\
             role = \"{role}\"\nport = \"{port}\"\npeer = \"{peer}\"\n"
        )
    })
}

fn start_second(topology: &Topology, sections: &str) -> Wattline {
    let text = |socket: &Path| config([SINK.interface, BEHIND], sections, socket);
    Wattline::start_in(&topology.sink, binary(), text).unwrap()
}

impl Chain {
    fn start() -> Self {
        Self::start_with("", "")
    }

    /// Builds it with additions to the configurations of both routers.
    pub fn start_with(near: &str, far: &str) -> Self {
        let [encode, decode] = elimination();
        let options = Options { queues: 2, ..Options::default() };
        let chain = Self::start_routers([encode + near, decode + far], options);
        chain.wait_for_reports(0);
        chain
    }

    /// Two routers with nothing but these sections and their ports in the configurations.
    pub fn start_routers(sections: [String; 2], options: Options) -> Self {
        let topology = Topology::build(options).unwrap();
        let host = Namespace::create("host").unwrap();
        let (second, limit) = (&topology.sink, Duration::from_secs(10));
        second
            .ip(&format!(
                "link add {BEHIND} numtxqueues 2 numrxqueues 2 type veth \
                 peer name uplink numtxqueues 2 numrxqueues 2 netns {}",
                host.name()
            ))
            .unwrap();
        for (namespace, device, number) in [(second, BEHIND, 1), (&host, "uplink", 2)] {
            let off = ["-K", device, "tx", "off", "rx", "off", "sg", "off", "gro", "off"];
            namespace.run("ethtool", &off, limit).unwrap();
            namespace
                .ip(&format!(
                    "address add 198.19.8.{number}/24 dev {device}\n\
                     address add 2001:2:0:8::{number}/64 dev {device} nodad\nlink set {device} up"
                ))
                .unwrap();
        }
        host.ip("route add default via 198.19.8.1\nroute add default via 2001:2:0:8::1").unwrap();
        let forward = [("ipv4/ip_forward", "1"), ("ipv6/conf/all/forwarding", "1")];
        second.sysctl(&forward).unwrap();
        let [near, far] = sections;
        let decoder = start_second(&topology, &far);
        let text = |socket: &Path| config([LEFT.interface, RIGHT.interface], &near, socket);
        let encoder = Wattline::start_with(&topology, binary(), text).unwrap();
        Self { encoder, decoder, host, topology }
    }

    pub fn encoder(&self, name: &str) -> Value {
        self.encoder.stats().unwrap()["applications"]["redundancy_encode"][0][name].clone()
    }

    pub fn decoder(&self, name: &str) -> u64 {
        let stats = self.decoder.stats().unwrap();
        stats["applications"]["redundancy_decode"][0][name].as_u64().unwrap()
    }

    /// Waits until the encoder has restarted more than this many times.
    pub fn wait_for_reports(&self, resets: u64) {
        wattline_needs::until("the encoder never heard of its decoder", || {
            self.encoder("resets").as_u64().unwrap() > resets
        });
    }

    /// Waits until the decoder has confirmed received packets: the encoder refers to no others.
    pub fn wait_for_confirmations(&self) {
        let (deadline, mut before) = (Instant::now() + LIMIT, Value::Null);
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let confirmed = self.encoder("confirmed_packets");
            if confirmed == before {
                return;
            }
            assert!(Instant::now() < deadline, "confirmations do not end: {confirmed}");
            before = confirmed;
        }
    }

    /// Sends bytes from the source to the host over TCP; they must be the same there.
    pub fn transfer(&self, address: &str, content: &[u8]) {
        let address: SocketAddr = format!("[{address}]:0")
            .parse()
            .unwrap_or_else(|_| format!("{address}:0").parse().unwrap());
        let listener = self.host.enter(|| TcpListener::bind(address)).unwrap().unwrap();
        let to = listener.local_addr().unwrap();
        std::thread::scope(|scope| {
            let receiver = scope.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                let mut received = Vec::new();
                stream.read_to_end(&mut received).unwrap();
                received
            });
            let mut stream = self
                .topology
                .source
                .enter(|| TcpStream::connect_timeout(&to, LIMIT))
                .unwrap()
                .unwrap();
            stream.set_write_timeout(Some(LIMIT)).unwrap();
            stream.write_all(content).unwrap();
            drop(stream);
            let received = receiver.join().unwrap();
            assert!(received == content, "{} of {} bytes", received.len(), content.len());
        });
    }

    pub fn active(&self, workers: &str) {
        for router in [&self.encoder, &self.decoder] {
            router.ask(&["active", workers]).unwrap();
        }
    }

    pub fn finish(self) {
        for totals in [self.encoder.stop().unwrap(), self.decoder.stop().unwrap()] {
            assert!(totals.balance(), "{totals:?}");
        }
    }
}

/// Bytes that hold nothing twice.
pub fn noise(length: usize) -> Vec<u8> {
    let mut state = 7u64;
    let mut byte = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..length).map(|_| byte()).collect()
}

#[test]
fn files_arrive_whole_and_the_second_time_for_less() {
    let test = "files_arrive_whole_and_the_second_time_for_less";
    privileged(test, || {
        let mut chain = Chain::start();
        let file = noise(4 << 20);
        for address in [HOST4, HOST6] {
            let before = chain.encoder("saved_bytes").as_u64().unwrap();
            chain.transfer(address, &file);
            let first = chain.encoder("saved_bytes").as_u64().unwrap() - before;
            chain.wait_for_confirmations();
            chain.transfer(address, &file);
            let second = chain.encoder("saved_bytes").as_u64().unwrap() - before - first;
            println!("{address}: {first} bytes saved at first, then {second} of {}", file.len());
            assert!(second as usize > file.len() * 7 / 10, "{second} of {}", file.len());
        }
        for zero in ["integrity_failures", "malformed_packets", "missed_packets", "forged_packets"]
        {
            assert_eq!(chain.decoder(zero), 0, "{zero}");
        }
        assert_eq!(chain.encoder("authenticated"), Value::Bool(true));

        // After a restart the decoder's cache is empty: the encoder notices and starts again.
        let resets = chain.encoder("resets").as_u64().unwrap();
        let restarted = start_decoder_again(chain, resets);
        chain = restarted;
        chain.transfer(HOST4, &file);
        chain.transfer(HOST4, &file);

        // Without a decoder encoded packets are lost until the encoder notices.
        chain.decoder.kill();
        wattline_needs::until("the encoder goes on for a decoder that is dead", || {
            chain.encoder("decoder_alive") != Value::Bool(true)
        });
        chain.transfer(HOST4, &file);
        assert!(chain.encoder.stop().unwrap().balance());
    });
}

fn start_decoder_again(chain: Chain, resets: u64) -> Chain {
    let Chain { encoder, decoder, host, topology } = chain;
    assert!(decoder.stop().unwrap().balance());
    let [_, decode] = elimination();
    let decoder = start_second(&topology, &decode);
    let chain = Chain { encoder, decoder, host, topology };
    chain.wait_for_reports(resets);
    chain
}

#[test]
fn flows_move_and_workers_come_and_go_while_content_repeats() {
    let test = "flows_move_and_workers_come_and_go_while_content_repeats";
    privileged_with(&["iperf3"], test, || {
        let chain = Chain::start();
        let only = |queue| balance(&[0; TABLE_ENTRIES], &[queue]);
        let steering = chain
            .topology
            .source
            .enter(|| Steering::attach(interface_index(SOURCE.interface).unwrap(), &only(0)))
            .unwrap()
            .unwrap();
        let _server = Server::start_in(&chain.host);
        let client = Client::start(&chain.topology.source, HOST4, &["-P", "4", "-b", "5M"]);
        let file = noise(1 << 20);
        for (round, workers) in ["1", "2", "1", "2"].into_iter().enumerate() {
            chain.active(workers);
            let table = match round % 2 {
                0 => only(1),
                _ => balance(&only(0), &[0, 1]),
            };
            steering.write(&table).unwrap();
            chain.transfer(HOST4, &file);
        }
        let report = client.interrupt();
        assert!(!stalls(&report), "{report}");
        let saved = chain.encoder("saved_bytes").as_u64().unwrap();
        let (missed, failures) =
            (chain.decoder("missed_packets"), chain.decoder("integrity_failures"));
        println!("{saved} bytes saved");
        assert!(saved as usize > file.len(), "{saved}");
        assert_eq!((failures, missed), (0, 0), "only confirmed packets are referred to");
        chain.finish();
    });
}
