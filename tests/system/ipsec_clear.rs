//! No packet that a policy protects crosses the gateway in clear, whatever its headers: neither
//! from the network behind it to the far one nor, from outside, in the other direction.
//!
//! Each frame carries a mark that no encryption leaves readable. A machine on the other side of
//! the gateway looks for it in all that arrives.

use crate::crafted::set_checksum;
use crate::harness::{binary, quiet};
use crate::ipsec::{KIND, configuration, keys};
use serde_json::Value;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;
use wattline_testbed::forwarder::Wattline;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::raw::{RawSocket, Received, Sniffer};
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Station, Topology};

/// Time limit of every wait.
const LIMIT: Duration = Duration::from_secs(60);
const MARK: &[u8] = b"must not be read outside";
const BRANCH4: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 9);
const BRANCH6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0x77, 0, 0, 0, 9);
/// Beyond the sink, and of no policy.
const OTHER4: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 7);
const OTHER6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 7, 0, 0, 0, 0, 7);

/// Sender and receiver: Ethernet stations, then addresses.
#[derive(Clone, Copy)]
pub struct Way {
    pub stations: (Station, Station),
    v4: (Ipv4Addr, Ipv4Addr),
    v6: (Ipv6Addr, Ipv6Addr),
}

pub const OUT: Way =
    Way { stations: (SOURCE, LEFT), v4: (SOURCE.v4, BRANCH4), v6: (SOURCE.v6, BRANCH6) };
pub const BACK: Way =
    Way { stations: (SINK, RIGHT), v4: (BRANCH4, SOURCE.v4), v6: (BRANCH6, SOURCE.v6) };
pub const ELSEWHERE: Way =
    Way { stations: (SOURCE, LEFT), v4: (SOURCE.v4, OTHER4), v6: (SOURCE.v6, OTHER6) };

impl Way {
    fn ethernet(&self, kind: u16) -> Vec<u8> {
        let (from, to) = self.stations;
        [&to.mac[..], &from.mac, &kind.to_be_bytes()].concat()
    }

    /// A UDP packet with these options, the fragment field as given.
    pub fn ipv4(&self, options: &[u8], fragment: u16, length: usize) -> Vec<u8> {
        let payload = marked(length);
        let header_length = 20 + options.len();
        let mut header = vec![0x40 | (header_length / 4) as u8, 0];
        header.extend(((header_length + payload.len()) as u16).to_be_bytes());
        header.extend([0x12, 0x34]);
        header.extend(fragment.to_be_bytes());
        header.extend([64, 17, 0, 0]);
        header.extend(self.v4.0.octets());
        header.extend(self.v4.1.octets());
        header.extend(options);
        set_checksum(&mut header);
        [self.ethernet(0x0800), header, payload].concat()
    }

    /// The same with these extension headers, beginning with the kind `next`.
    pub fn ipv6(&self, next: u8, extensions: &[u8], length: usize) -> Vec<u8> {
        let payload = [extensions, &marked(length)].concat();
        let mut header = vec![0x60, 0, 0, 0];
        header.extend((payload.len() as u16).to_be_bytes());
        header.extend([next, 64]);
        header.extend(self.v6.0.octets());
        header.extend(self.v6.1.octets());
        [self.ethernet(0x86dd), header, payload].concat()
    }

    /// Returns, by kind, the packets that the gateway encrypts, or a router forwards.
    pub fn forwarded(&self) -> Vec<(&'static str, Vec<u8>)> {
        vec![
            ("plain", self.ipv4(&[], 0, 60)),
            ("plain IPv6", self.ipv6(17, &[], 60)),
            ("no-operation", self.ipv4(&[1, 1, 1, 1], 0, 60)),
            ("end of options", self.ipv4(&[0, 0, 0, 0], 0, 60)),
            ("record route", self.ipv4(&[7, 7, 4, 0, 0, 0, 0, 0], 0, 60)),
            ("router alert", self.ipv4(&[148, 4, 0, 0], 0, 60)),
            ("as many options as there can be", self.ipv4(&[1; 40], 0, 60)),
            ("a first fragment", self.ipv4(&[], 0x2000, 64)),
            ("a later fragment", self.ipv4(&[], 20, 60)),
            ("a first fragment with options", self.ipv4(&[1, 1, 1, 1], 0x2000, 64)),
            ("a later fragment with options", self.ipv4(&[1, 1, 1, 1], 20, 60)),
            ("hop-by-hop options", self.ipv6(0, &[17, 0, 1, 4, 0, 0, 0, 0], 60)),
            ("IPv6 router alert", self.ipv6(0, &[17, 0, 5, 2, 0, 0, 1, 0], 60)),
            ("an IPv6 fragment", self.ipv6(44, &[17, 0, 0, 1, 0, 0, 0, 9], 60)),
        ]
    }

    /// Returns the packets that must not pass in clear, but need not pass at all.
    fn odd(&self) -> Vec<(&'static str, Vec<u8>)> {
        let tagged = |mut frame: Vec<u8>, kinds: &[u16]| {
            for kind in kinds {
                frame.splice(12..12, [kind.to_be_bytes(), [0x60, 0]].concat());
            }
            frame
        };
        let plain = || self.ipv4(&[], 0, 60);
        vec![
            ("a priority tag", tagged(plain(), &[0x8100])),
            ("a priority tag, IPv6", tagged(self.ipv6(17, &[], 60), &[0x8100])),
            ("a priority tag of 802.1ad", tagged(plain(), &[0x88a8])),
            ("two priority tags", tagged(plain(), &[0x8100, 0x8100])),
            ("wrong options", self.ipv4(&[7, 200, 4, 0], 0, 60)),
            ("a source route", self.ipv4(&[131, 7, 4, 203, 0, 113, 7, 0], 0, 60)),
        ]
    }
}

fn marked(length: usize) -> Vec<u8> {
    let mut payload = vec![0x0f, 0xa0, 0x0f, 0xa1];
    payload.extend((length as u16).to_be_bytes());
    payload.extend([0, 0]);
    payload.extend(MARK);
    payload.resize(length, 0x2e);
    payload
}

pub fn holds_mark(frame: &[u8]) -> bool {
    frame.windows(MARK.len()).any(|window| window == MARK)
}

pub fn is_esp(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&50)
}

/// A gateway, and the kernel alone at the far end.
struct Gateway {
    // First: it is stopped before its namespace goes.
    wattline: Option<Wattline>,
    topology: Topology,
    folder: tempfile::TempDir,
}

impl Gateway {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        keys(folder.path(), KIND);
        let options = Options { static_neighbours: true, ..Options::default() };
        let topology = Topology::build(options).unwrap();
        let mut gateway = Self { wattline: None, topology, folder };
        gateway.start("");
        gateway
    }

    /// A gateway whose kernel passes everything, so that only the router stops packets.
    fn alone() -> Self {
        let gateway = Self::new();
        for any in ["0.0.0.0/0", "::/0"] {
            for direction in ["in", "out", "fwd"] {
                let policy = format!("src {any} dst {any} dir {direction} priority 1");
                // A kernel without XFRM blocks nothing anyway.
                let _ = gateway.topology.router.ip(&format!("xfrm policy add {policy}"));
            }
        }
        gateway
    }

    /// Waits until the states of both ports are as wanted.
    fn await_states(&self, wanted: impl Fn([&str; 2]) -> bool) {
        let reached = || {
            let stats = self.stats();
            let state = |port: usize| stats["ports"][port]["state"].as_str().unwrap_or_default();
            wanted([state(0), state(1)])
        };
        wattline_needs::until_or(reached, || format!("{:#}", self.stats()["ports"]));
    }

    fn start(&mut self, more: &str) {
        let folder = self.folder.path();
        let config = |socket: &Path| {
            let text = configuration(folder, true, KIND, socket);
            text.replace("[ipsec]\n", &format!("[ipsec]\n{more}\n"))
        };
        let started = Wattline::start_with(&self.topology, binary(), config);
        self.wattline = Some(started.unwrap_or_else(|error| panic!("{error}")));
    }

    fn stats(&self) -> Value {
        self.wattline.as_ref().unwrap().stats().unwrap()
    }

    /// Sends frames. Returns the arrivals at the other side: with a mark, or as ESP packets.
    fn send(&self, way: Way, frames: &[Vec<u8>]) -> Vec<Received> {
        let (namespace, far, far_end) = self.sides(way);
        let wanted = |frame: &[u8]| holds_mark(frame) || is_esp(frame);
        let sniffer = Sniffer::start(far, far_end, wanted).unwrap();
        let socket = RawSocket::open(namespace, way.stations.0.interface).unwrap();
        for frame in frames {
            assert!(socket.send(frame).unwrap(), "longer than the MTU");
        }
        self.settle();
        sniffer.finish()
    }

    /// Policies of the kernel, one line each.
    fn policies(&self) -> Vec<String> {
        let policies = self.topology.router.run("ip", &["xfrm", "policy"], LIMIT).unwrap();
        policies.lines().filter(|line| line.starts_with("src")).map(str::to_owned).collect()
    }

    fn sides(&self, way: Way) -> (&Namespace, &Namespace, &'static str) {
        let Topology { source, sink, .. } = &self.topology;
        if way.stations.0 == SINK {
            (sink, source, SOURCE.interface)
        } else {
            (source, sink, SINK.interface)
        }
    }

    /// Waits until the router's counters include all sent packets; the kernel needs no longer for
    /// its part of them.
    fn settle(&self) {
        let look = || {
            std::thread::sleep(Duration::from_millis(150));
            self.wattline.as_ref().map(|wattline| {
                let stats = wattline.stats().unwrap();
                [&stats["received"], &stats["punted"], &stats["forwarded"], &stats["dropped"]]
                    .map(Value::to_string)
            })
        };
        let mut last = look();
        loop {
            let now = look();
            if now == last {
                return;
            }
            last = now;
        }
    }

    /// Sends each packet by itself, so that a failure names it.
    fn none_in_clear(&self, way: Way, frames: &[(&str, Vec<u8>)]) {
        let all: Vec<Vec<u8>> = frames.iter().map(|(_, frame)| frame.clone()).collect();
        if !self.send(way, &all).iter().any(|received| holds_mark(&received.frame)) {
            return;
        }
        let passed: Vec<&str> = frames
            .iter()
            .filter(|(_, frame)| {
                let received = self.send(way, std::slice::from_ref(frame));
                received.iter().any(|received| holds_mark(&received.frame))
            })
            .map(|(name, _)| *name)
            .collect();
        panic!("in clear: {passed:?}");
    }
}

pub fn plain(frames: Vec<(&'static str, Vec<u8>)>) -> Vec<Vec<u8>> {
    frames.into_iter().map(|(_, frame)| frame).collect()
}

#[test]
fn protected_packets_leave_encrypted_whatever_their_options() {
    let test = "protected_packets_leave_encrypted_whatever_their_options";
    quiet(test, || {
        let mut gateway = Gateway::alone();
        gateway.none_in_clear(OUT, &OUT.forwarded());
        gateway.none_in_clear(OUT, &OUT.odd());
        // No packet that can be forwarded is lost.
        let frames = plain(OUT.forwarded());
        let received = gateway.send(OUT, &frames);
        assert!(received.iter().all(|received| is_esp(&received.frame)));
        assert_eq!(received.len(), frames.len(), "{:#}", gateway.stats());
        // Too long for the tunnel, not for the way: cut, options and all.
        let long = [OUT.ipv4(&[148, 4, 0, 0, 1, 1, 1, 1], 0, 1460)];
        let received = gateway.send(OUT, &long);
        assert!(received.iter().all(|received| is_esp(&received.frame)));
        assert_eq!(received.len(), 2);
        // Unprotected packets are forwarded as before.
        let frames = plain(ELSEWHERE.forwarded());
        let received = gateway.send(ELSEWHERE, &frames);
        assert!(received.iter().all(|received| holds_mark(&received.frame)));
        assert_eq!(received.len(), frames.len(), "{:#}", gateway.stats());
        let totals = gateway.wattline.take().unwrap().stop().unwrap();
        assert!(totals.balance(), "{totals:?}");
    });
}

#[test]
fn tunnelled_traffic_does_not_arrive_in_clear() {
    quiet("tunnelled_traffic_does_not_arrive_in_clear", || {
        let mut gateway = Gateway::alone();
        gateway.none_in_clear(BACK, &BACK.forwarded());
        gateway.none_in_clear(BACK, &BACK.odd());
        let totals = gateway.wattline.take().unwrap().stop().unwrap();
        assert!(totals.dropped["ipsec-policy"] >= BACK.forwarded().len() as u64, "{totals:?}");
        assert!(totals.balance(), "{totals:?}");
    });
}

/// MTUs are raised while the gateway runs, but its sockets take no longer packets.
#[test]
fn packets_that_no_socket_takes_do_not_pass_in_clear() {
    quiet("packets_that_no_socket_takes_do_not_pass_in_clear", || {
        let gateway = Gateway::alone();
        let Topology { source, router, sink, .. } = &gateway.topology;
        for (namespace, interface) in [
            (router, LEFT.interface),
            (router, RIGHT.interface),
            (source, SOURCE.interface),
            (sink, SINK.interface),
        ] {
            let raised = namespace.ip(&format!("link set {interface} mtu 3400"));
            raised.unwrap_or_else(|error| panic!("{interface}: {error}"));
        }
        gateway.settle();
        for way in [OUT, BACK] {
            let long = [
                ("long", way.ipv4(&[], 0, 3300)),
                ("long, not to be cut", way.ipv4(&[], 0x4000, 3300)),
                ("long with options", way.ipv4(&[1, 1, 1, 1], 0, 3300)),
                ("long IPv6", way.ipv6(17, &[], 3300)),
                ("long with hop-by-hop options", way.ipv6(0, &[17, 0, 1, 4, 0, 0, 0, 0], 3300)),
            ];
            gateway.none_in_clear(way, &long);
        }
        let stats = gateway.stats();
        let dropped = &stats["ports"][0]["verdicts"]["too_long_dropped"];
        assert!(dropped.as_u64().is_some_and(|dropped| dropped > 0), "{stats:#}");
    });
}

/// A port with IPsec is blocked, never left, whatever the kernel would do besides routing: the
/// kernel would forward packets that arrive in clear.
#[test]
fn port_that_would_be_left_is_blocked() {
    quiet("port_that_would_be_left_is_blocked", || {
        let gateway = Gateway::alone();
        let router = &gateway.topology.router;
        let counter = "add table inet x; add chain inet x c { type filter hook forward priority 0; }; \
                       add rule inet x c counter";
        let set = "root tbf rate 1gbit burst 100kb latency 50ms";
        let tbf = format!("qdisc add dev {} {set}", RIGHT.interface);
        let no_tbf = format!("qdisc del dev {} root", RIGHT.interface);
        let rule = |change: &str| format!("rule {change} fwmark 7 lookup main pref 10");
        let (add, del) = (rule("add"), rule("del"));
        // The kernel then sends packets that a policy would stop.
        for interface in [LEFT.interface, RIGHT.interface] {
            let setting = format!("net.ipv4.conf.{interface}.disable_xfrm=1");
            router.run("sysctl", &["-qw", &setting], LIMIT).unwrap();
        }
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let reasons = [
            ("nft", vec![counter.to_owned()], vec!["delete table inet x".to_owned()]),
            ("tc", words(&tbf), words(&no_tbf)),
            ("ip", words(&add), words(&del)),
        ];
        for (program, begin, end) in reasons {
            let run = |arguments: &[String]| {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                router.run(program, &arguments, LIMIT).unwrap();
            };
            run(&begin);
            gateway.await_states(|states| states.contains(&"blocked"));
            gateway.await_states(|states| !states.contains(&"left"));
            gateway.none_in_clear(BACK, &BACK.forwarded());
            gateway.none_in_clear(OUT, &OUT.forwarded());
            // An interface that goes down and returns meanwhile.
            for link in ["down", "up"] {
                router.ip(&format!("link set {} {link}", RIGHT.interface)).unwrap();
            }
            gateway.none_in_clear(BACK, &BACK.forwarded());
            run(&end);
            gateway.await_states(|states| states == ["up"; 2]);
            gateway.none_in_clear(BACK, &BACK.forwarded());
        }
    });
}

/// An IKE daemon may flush all policies as it starts.
#[test]
fn flushed_policies_return_before_the_router_is_killed() {
    quiet("flushed_policies_return_before_the_router_is_killed", || {
        let mut gateway = Gateway::new();
        let policies = gateway.policies();
        if policies.is_empty() {
            return wattline_needs::machine("the kernel has no XFRM");
        }
        for restored in 1..=2 {
            gateway.topology.router.ip("xfrm policy flush").unwrap();
            wattline_needs::until_or(
                || gateway.policies().len() >= policies.len(),
                || format!("{:?}", gateway.policies()),
            );
            let ipsec = &gateway.stats()["applications"]["ipsec"];
            assert_eq!(ipsec["restored_in_kernel"], restored * policies.len(), "{ipsec}");
        }
        gateway.wattline.take().unwrap().kill();
        gateway.none_in_clear(OUT, &OUT.forwarded());
    });
}

/// Without `block_when_stopped` a router leaves its policies behind only if it is killed. Its
/// successor takes them over, and removes them at its end.
#[test]
fn a_router_that_is_killed_leaves_the_kernel_blocking() {
    quiet("a_router_that_is_killed_leaves_the_kernel_blocking", || {
        let mut gateway = Gateway::new();
        gateway.wattline.take().unwrap().stop().unwrap();
        gateway.start("block_when_stopped = false");
        let count = gateway.stats()["applications"]["ipsec"]["blocked_in_kernel"].clone();
        if count == 0 {
            return wattline_needs::machine("the kernel has no XFRM");
        }
        let policies = gateway.policies().len();
        assert_eq!(count, policies);
        // The kernel stops the gateway's own packets.
        let ping = ["-n", "-c", "1", "-W", "1", "-I", "198.18.0.1", "10.77.0.9"];
        assert!(gateway.topology.router.run("ping", &ping, LIMIT).is_err());
        gateway.wattline.take().unwrap().kill();
        assert_eq!(gateway.policies().len(), policies);
        gateway.none_in_clear(OUT, &OUT.forwarded());
        let frames = plain(ELSEWHERE.forwarded());
        assert_eq!(gateway.send(ELSEWHERE, &frames).len(), frames.len(), "no policy's");

        gateway.start("block_when_stopped = false");
        assert_eq!(gateway.policies().len(), policies, "taken over, not made twice");
        let frames = plain(OUT.forwarded());
        let received = gateway.send(OUT, &frames);
        assert!(received.iter().all(|received| is_esp(&received.frame)));
        assert_eq!(received.len(), frames.len());
        gateway.wattline.take().unwrap().stop().unwrap();
        assert_eq!(gateway.policies(), [""; 0]);
        // As the how-to says.
        assert_eq!(gateway.send(OUT, &frames).len(), frames.len(), "the kernel forwards on");
    });
}

/// The kernel forwards by an interface that is no port, but not packets that a policy protects.
#[test]
fn interface_that_is_no_port_does_not_bypass_the_tunnel() {
    quiet("interface_that_is_no_port_does_not_bypass_the_tunnel", || {
        let gateway = Gateway::alone();
        let Topology { router, sink, .. } = &gateway.topology;
        router
            .ip(&format!("link add aside type veth peer name aside netns {}", sink.name()))
            .unwrap();
        for (namespace, host) in [(router, 1), (sink, 2)] {
            namespace
                .ip(&format!("address add 10.78.0.{host}/24 dev aside\nlink set aside up"))
                .unwrap();
        }
        router.ip("route add 10.77.0.0/24 via 10.78.0.2").unwrap();
        router.ip("route add 203.0.113.0/24 via 10.78.0.2").unwrap();
        let aside = || Sniffer::start(sink, "aside", holds_mark).unwrap();
        // Unprotected packets take the new path: the router has seen the routes.
        wattline_needs::until("something came by the other way", || {
            let sniffer = aside();
            gateway.send(ELSEWHERE, &[ELSEWHERE.ipv4(&[], 0, 60)]);
            !sniffer.finish().is_empty()
        });
        let sniffer = aside();
        let frames = [OUT.ipv4(&[], 0, 60), OUT.ipv4(&[1, 1, 1, 1], 0, 60)];
        let received = gateway.send(OUT, &frames);
        assert!(sniffer.finish().is_empty());
        assert_eq!(received.iter().filter(|received| is_esp(&received.frame)).count(), 2);
    });
}
