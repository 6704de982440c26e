//! Access lists and the reverse-path check of a router between veth interfaces, compared with the
//! kernel.

use crate::harness::{binary, has, quiet, quiet_with};
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattline_daemon::socket::{Request, Topic, ask};
use wattline_needs::StopOnDrop;
use wattline_testbed::forwarder::{Mode, Wattline, configuration};
use wattline_testbed::namespace::Namespace;
use wattline_testbed::topology::{self, LEFT, Options, Topology};

const LIMIT: Duration = Duration::from_secs(60);
const SINK: Ipv4Addr = topology::SINK.v4;
const OWN: Ipv4Addr = topology::SOURCE.v4;
const BEHIND_SOURCE: Ipv4Addr = Ipv4Addr::new(10, 61, 0, 1);
const BEHIND_SINK: Ipv4Addr = Ipv4Addr::new(10, 62, 0, 1);
const NOWHERE: Ipv4Addr = Ipv4Addr::new(10, 63, 0, 1);
const SOURCES: [Ipv4Addr; 4] = [OWN, BEHIND_SOURCE, BEHIND_SINK, NOWHERE];

/// A topology with addresses at the source that differ in their routes: its own, one that the
/// router has a route to by `left`, one by `right`, and one without a route.
struct Lab {
    source: Namespace,
    router: Namespace,
    sink: Namespace,
}

impl Lab {
    fn build() -> Self {
        let topology = Topology::build(Options::default()).unwrap();
        let Topology { source, router, sink, .. } = topology;
        for space in [&source, &router, &sink] {
            let off = ["all", "default"].map(|of| format!("ipv4/conf/{of}/rp_filter"));
            space.sysctl(&off.each_ref().map(|key| (key.as_str(), "0"))).unwrap();
        }
        for end in [&source, &sink] {
            // A veth takes frames of XDP programs only where it polls for them.
            end.run("ethtool", &["-K", "uplink", "gro", "on"], LIMIT).unwrap();
        }
        for other in &SOURCES[1..] {
            source.ip(&format!("addr add {other}/32 dev lo")).unwrap();
        }
        router
            .ip(&format!(
                "route del default via {SINK}\nroute add 10.61.0.0/16 via {OWN}\n\
                 route add 10.62.0.0/16 via {SINK}"
            ))
            .unwrap();
        Self { source, router, sink }
    }

    fn listen(&self, port: u16) -> UdpSocket {
        let bind = || UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port)).unwrap();
        let socket = self.sink.enter(bind).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        socket
    }

    fn send(&self, from: Ipv4Addr, port: u16) {
        let send = || {
            let socket = UdpSocket::bind(SocketAddrV4::new(from, 0)).unwrap();
            socket.send_to(b"x", SocketAddrV4::new(SINK, port)).unwrap();
        };
        self.source.enter(send).unwrap();
    }

    /// Returns true if a packet from this address arrives. The last of three packets counts: the
    /// first may wait for a neighbour.
    fn passes(&self, sink: &UdpSocket, from: Ipv4Addr) -> bool {
        let port = sink.local_addr().unwrap().port();
        let mut buffer = [0; 64];
        sink.set_nonblocking(true).unwrap();
        while sink.recv(&mut buffer).is_ok() {}
        sink.set_nonblocking(false).unwrap();
        for _ in 0..3 {
            self.send(from, port);
            if sink.recv_from(&mut buffer).is_ok_and(|(_, peer)| peer.ip() == from) {
                return true;
            }
        }
        false
    }
}

/// A router in the middle of a lab.
struct Running(Wattline);

fn text(keys: &str, more: &str, socket: &Path) -> String {
    let text = configuration(Mode::Adaptive, 1, socket);
    text.replace("xdp_forward = \"off\"\n", keys) + more
}

impl Running {
    fn start(lab: &Lab, more: &str) -> Self {
        Self::start_as(lab, "", more)
    }

    /// Starts it with keys of `[router]` and further sections.
    fn start_as(lab: &Lab, keys: &str, more: &str) -> Self {
        Self::try_start(lab, keys, more).unwrap_or_else(|error| panic!("{error}"))
    }

    fn try_start(lab: &Lab, keys: &str, more: &str) -> Result<Self, String> {
        let router = Wattline::start_in(&lab.router, binary(), |socket| text(keys, more, socket));
        router.map(Self).map_err(|error| error.to_string())
    }

    fn configure(&self, more: &str) {
        std::fs::write(self.0.config(), text("", more, &self.0.socket())).unwrap();
    }

    fn log(&self) -> String {
        self.0.log()
    }

    fn ask(&self, request: Request) -> Value {
        ask(&self.0.socket(), request).unwrap_or_else(|error| panic!("{error}: {}", self.log()))
    }

    /// Returns the first statistics that meet a condition.
    #[track_caller]
    fn until(&self, what: &str, met: impl Fn(&Value) -> bool) -> Value {
        let stats = || self.ask(Request::Stats);
        let reason = || format!("never: {what}: {} {}", stats(), self.log());
        wattline_needs::until_or(|| Some(stats()).filter(&met), reason)
    }

    fn show(&self, topic: Topic) -> Value {
        self.ask(Request::Show { topic, within: None, most: 100 })
    }
}

fn passing(lab: &Lab, sink: &UdpSocket) -> [bool; 4] {
    SOURCES.map(|source| lab.passes(sink, source))
}

#[test]
fn sources_are_checked_as_by_the_kernel() {
    quiet("sources_are_checked_as_by_the_kernel", || {
        let lab = Lab::build();
        let sink = lab.listen(7001);
        for (filter, section, expected) in [
            ("0", "", [true, true, true, true]),
            ("2", "[urpf]\nloose = [\"left\"]\n", [true, true, true, false]),
            ("1", "[urpf]\nstrict = [\"left\"]\n", [true, true, false, false]),
        ] {
            lab.router.sysctl(&[("ipv4/conf/left/rp_filter", filter)]).unwrap();
            assert_eq!(passing(&lab, &sink), expected, "the kernel, rp_filter = {filter}");
            // With the kernel's filter still set: it is honoured here, so that the port is not left.
            let router = Running::start(&lab, section);
            assert_eq!(passing(&lab, &sink), expected, "Wattline, {section}{}", router.log());
            let stats = router.ask(Request::Stats);
            assert_eq!(stats["ports"][0]["state"], "up", "{stats}");
            let dropped = expected.iter().filter(|passes| !**passes).count() as u64 * 3;
            let counted = stats["dropped"]["reverse-path"].as_u64().unwrap_or(0);
            assert_eq!(counted, dropped, "{stats}");
            if section.is_empty() {
                continue;
            }
            assert_eq!(stats["applications"]["urpf"]["ports"][0]["dropped_packets"], dropped);
            let mode = stats["ports"][0]["mode"].as_str().unwrap();
            assert!(
                !mode.contains("native")
                    || mode.contains("workers forward received packets: [urpf]"),
                "{mode}"
            );
            let metrics = router.ask(Request::Metrics);
            let metrics = metrics.as_str().unwrap();
            assert!(
                metrics.contains("wattline_urpf_dropped_packets_total{port=\"left\""),
                "{metrics}"
            );
            assert!(metrics.contains("wattline_drops_total{reason=\"reverse-path\"}"), "{metrics}");
            let checks = router.show(Topic::Ports)["ports"][0]["checks"][0].clone();
            assert!(checks.as_str().unwrap().contains("source addresses"), "{checks}");
        }
    });
}

/// Packets received at a port without rules bypass the workers of another port's rules.
#[test]
fn xdp_programs_still_forward_packets_that_need_no_check() {
    quiet("xdp_programs_still_forward_packets_that_need_no_check", || {
        let lab = Lab::build();
        let none = "[[acl]]\non = [\"left\"]\naction = \"deny\"\n";
        let router = Running::start(&lab, none);
        let log = router.log();
        let stats = || router.ask(Request::Stats);
        let mode = stats()["ports"][1]["mode"].as_str().unwrap_or_default().to_owned();
        if !mode.contains("native") || log.contains("workers forward all packets") {
            wattline_needs::machine(format_args!("this machine has no XDP forwarding: {mode}"));
            return;
        }
        let back = || {
            let socket = UdpSocket::bind(SocketAddrV4::new(SINK, 0)).unwrap();
            socket.send_to(b"x", SocketAddrV4::new(OWN, 7003)).unwrap();
        };
        router.until("forwarded by XDP programs", |stats| {
            lab.sink.enter(back).unwrap();
            stats["xdp_forwarded"].as_u64() != Some(0)
        });
        let before = stats()["xdp_forwarded"].clone();
        let sink = lab.listen(7001);
        assert!(!lab.passes(&sink, OWN), "the rule holds beside it");
        assert_eq!(stats()["xdp_forwarded"], before);
    });
}

/// A stricter filter of the kernel is not bypassed silently.
#[test]
fn a_port_whose_checks_would_not_hold_is_refused() {
    quiet("a_port_whose_checks_would_not_hold_is_refused", || {
        let lab = Lab::build();
        lab.router.sysctl(&[("ipv4/conf/left/rp_filter", "1")]).unwrap();
        let acl = "[[acl]]\non = [\"left\"]\naction = \"permit\"\n";
        let log = Running::try_start(&lab, "", acl).err().expect("it started");
        for word in ["[[port]] left: [[acl]] would not hold", "rp_filter", "takeover"] {
            assert!(log.contains(word), "{word}: {log}");
        }
    });
}

#[test]
fn an_access_list_holds_changes_and_is_counted() {
    quiet_with(&["python3"], "an_access_list_holds_changes_and_is_counted", || {
        let lab = Lab::build();
        let (denied, permitted) = (lab.listen(7001), lab.listen(7002));
        let rules = |port: u16| {
            format!(
                "[[acl]]\nname = \"no\"\non = [\"left\"]\naction = \"deny\"\nprotocol = \"udp\"\n\
                 destination_ports = {port}\n[[acl]]\nname = \"own\"\non = [\"left\"]\n\
                 action = \"permit\"\nsource = \"198.18.0.0/24\"\n"
            )
        };
        let router = Running::start(&lab, &rules(7001));
        assert!(lab.passes(&permitted, OWN), "{}", router.log());
        assert!(!lab.passes(&denied, OWN));
        assert!(!lab.passes(&permitted, BEHIND_SOURCE), "unmatched packets are dropped");
        // With an option (no operation), which the kernel would forward by itself.
        let with_option = format!(
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
             s.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b'\\x01\\x01\\x01\\x01')\n\
             s.bind(('{OWN}', 0))\n\
             s.sendto(b'x', ('{SINK}', 7001)); s.sendto(b'x', ('{SINK}', 7002))"
        );
        lab.source.run("python3", &["-c", &with_option], LIMIT).unwrap();
        let mut buffer = [0; 64];
        assert!(permitted.recv(&mut buffer).is_ok(), "a permitted packet with an option");
        assert!(denied.recv(&mut buffer).is_err(), "a denied packet with an option");
        let answer = router.show(Topic::Acl);
        assert_eq!(
            (&answer["rules"][0]["name"], &answer["rules"][0]["packets"]),
            (&"no".into(), &4.into())
        );
        assert_eq!(answer["rules"][1]["packets"].as_u64(), Some(2), "{answer}");
        assert_eq!(answer["unmatched"][0]["packets"].as_u64(), Some(3), "{answer}");
        let stats = router.ask(Request::Stats);
        assert_eq!(stats["dropped"]["acl-denied"].as_u64(), Some(7), "{stats}");
        let mode =
            |port: usize| stats["ports"][port]["mode"].as_str().unwrap_or_default().to_owned();
        assert!(mode(0).contains("workers forward received packets: [[acl]]"), "{}", mode(0));
        assert!(!mode(1).contains("[[acl]]"), "{}", mode(1));
        let metrics = router.ask(Request::Metrics);
        let metrics = metrics.as_str().unwrap();
        for line in [
            "wattline_acl_packets_total{rule=\"no\",action=\"deny\"} 4",
            "wattline_acl_unmatched_packets_total{port=\"left\"} 3",
            "wattline_drops_total{reason=\"acl-denied\"} 7",
        ] {
            assert!(metrics.lines().any(|found| found == line), "{line}: {metrics}");
        }
        // Another list, while it runs; the counters of rules that stay go on.
        router.configure(&rules(7002));
        let report = router.ask(Request::Reload);
        assert_eq!(report["applied"], json!(["[[acl]]"]), "{report}");
        assert!(lab.passes(&denied, OWN) && !lab.passes(&permitted, OWN), "{}", router.log());
        assert_eq!(router.show(Topic::Acl)["rules"][1]["packets"].as_u64(), Some(3));
        // A change of its ports needs a restart.
        router.configure(&rules(7002).replace("left", "right"));
        let report = router.ask(Request::Reload);
        assert_eq!(report["needs_restart"], json!(["[[acl]]"]), "{report}");
    });
}

/// A list that denies one port of UDP and permits the rest.
const DENYING_7001: &str = "[[acl]]\non = [\"left\"]\naction = \"deny\"\nprotocol = \"udp\"\n\
                            destination_ports = 7001\n[[acl]]\non = [\"left\"]\naction = \"permit\"\n";

/// A port whose packets the kernel would have to filter is not left to the kernel, which does not
/// know the list. No denied packet passes, whatever comes and goes.
#[test]
fn a_list_holds_when_a_rule_of_the_kernel_appears() {
    quiet_with(&["ping"], "a_list_holds_when_a_rule_of_the_kernel_appears", || {
        let lab = Lab::build();
        let (denied, permitted) = (lab.listen(7001), lab.listen(7002));
        let router = Running::start(&lab, DENYING_7001);
        assert!(lab.passes(&permitted, OWN), "{}", router.log());
        let ends = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sends = scope.spawn(|| {
                let bind = || UdpSocket::bind(SocketAddrV4::new(OWN, 0)).unwrap();
                let sender = lab.source.enter(bind).unwrap();
                let mut sent = 0;
                while !ends.load(Ordering::Acquire) {
                    sent += u32::from(sender.send_to(b"x", SocketAddrV4::new(SINK, 7001)).is_ok());
                    std::thread::sleep(Duration::from_micros(200));
                }
                sent
            });
            let ended = StopOnDrop(&ends);
            let state =
                |wanted: &str| router.until(wanted, |stats| stats["ports"][0]["state"] == wanted);
            for _ in 0..2 {
                lab.router.ip("rule add fwmark 7 lookup main pref 10").unwrap();
                let stats = state("blocked");
                let reason = stats["ports"][0]["reason"].as_str().unwrap();
                assert!(
                    reason.contains("[[acl]] would not hold") && reason.contains("ip rule"),
                    "{reason}"
                );
                let alone = stats["ports"][1]["reason"].as_str().unwrap_or_default();
                assert!(alone.contains("ip rule"), "the other has no list: {stats}");
                assert_eq!(stats["ports"][1]["state"], "left", "{stats}");
                assert!(!lab.passes(&permitted, OWN), "it is blocked");
                // The router itself can still be reached.
                let ping = ["-n", "-c", "1", "-W", "5", &LEFT.v4.to_string()];
                lab.source.run("ping", &ping, LIMIT).unwrap();
                lab.router.ip("rule del pref 10").unwrap();
                state("up");
                assert!(lab.passes(&permitted, OWN), "{}", router.log());
            }
            // Its interface goes and comes back meanwhile.
            lab.router.ip("rule add fwmark 7 lookup main pref 10").unwrap();
            state("blocked");
            for link in ["down", "up"] {
                lab.router.ip(&format!("link set left {link}")).unwrap();
                std::thread::sleep(Duration::from_millis(100));
            }
            assert!(!lab.passes(&permitted, OWN), "it is blocked");
            // The configuration can have the rule bypassed.
            let text = std::fs::read_to_string(router.0.config()).unwrap();
            let forced = text.replace("[router]\n", "[router]\ntakeover = \"force\"\n");
            std::fs::write(router.0.config(), forced).unwrap();
            router.ask(Request::Reload);
            let stats = state("up");
            assert!(lab.passes(&permitted, OWN), "{}", router.log());
            let verdicts = &stats["ports"][0]["verdicts"];
            assert!(verdicts["no_worker_dropped"].as_u64().unwrap() > 0, "{stats}");
            drop(ended);
            assert!(sends.join().unwrap() > 100);
        });
        let mut buffer = [0; 64];
        assert!(denied.recv(&mut buffer).is_err(), "a denied packet passed");
    });
}

/// Packets that match a rule of policy routing or a policy of IPsec are left to the kernel; all
/// others are forwarded here.
#[test]
fn packets_of_a_prefix_alone_are_left_to_the_kernel() {
    quiet("packets_of_a_prefix_alone_are_left_to_the_kernel", || {
        let lab = Lab::build();
        let sink = lab.listen(7001);
        for forward in ["on", "off"] {
            let router = Running::start_as(&lab, &format!("xdp_forward = \"{forward}\"\n"), "");
            assert_eq!(passing(&lab, &sink), [true; 4], "{}", router.log());
            for (add, remove, banned) in [
                ("rule add from 10.61.0.0/16 prohibit pref 10", "rule del pref 10", 1_usize),
                (
                    "xfrm policy add dir fwd src 10.62.0.0/16 dst 198.0.0.0/8 action block",
                    "xfrm policy del dir fwd src 10.62.0.0/16 dst 198.0.0.0/8",
                    2,
                ),
            ] {
                lab.router.ip(add).unwrap();
                let alone = |wanted: bool| {
                    router.until(add, |stats| {
                        let reason = stats["ports"][0]["reason"].as_str().unwrap_or_default();
                        let is_reported = reason.contains("the kernel forwards packets from and")
                            && reason.contains(&format!("10.6{banned}.0.0/16"));
                        is_reported == wanted
                    })
                };
                let before = alone(true);
                let mut expected = [true; 4];
                expected[banned] = false;
                assert_eq!(passing(&lab, &sink), expected, "{add}: {}", router.log());
                let after = router.ask(Request::Stats);
                let count = |stats: &Value, what: &str| {
                    stats["ports"][0]["verdicts"][what].as_u64().unwrap()
                };
                let grown = |what: &str| count(&after, what) - count(&before, what);
                assert_eq!(grown("left"), 3, "only packets of that prefix: {after}");
                assert_eq!(grown("forwarded") + grown("redirected"), 3, "the others: {after}");
                assert_eq!(after["ports"][0]["state"], "up", "{after}");
                // The tables do not decide about such a packet, and `show fib` says so.
                let exceptions = |address: &str| {
                    let (topic, within) = (Topic::Fib, Some(address.parse().unwrap()));
                    router.ask(Request::Show { topic, within, most: 1 })["exceptions"].clone()
                };
                let answer = exceptions(&format!("10.6{banned}.0.2/32"));
                assert_eq!(answer.as_array().unwrap().len(), 2, "both ports: {answer}");
                assert!(
                    answer[0]["why"].as_str().unwrap().contains("packets from and to 10.6"),
                    "{answer}"
                );
                assert_eq!(exceptions(&format!("{SINK}/32")), json!([]), "not of that prefix");
                lab.router.ip(remove).unwrap();
                alone(false);
                assert_eq!(passing(&lab, &sink), [true; 4], "{}", router.log());
            }
        }
    });
}

/// On a port with a list, a kernel rule for one prefix stops the packets of that prefix; the list
/// still decides about all others.
#[test]
fn rule_of_a_prefix_stops_its_packets_alone_on_a_port_with_a_list() {
    let test = "rule_of_a_prefix_stops_its_packets_alone_on_a_port_with_a_list";
    quiet(test, || {
        let lab = Lab::build();
        let (denied, permitted) = (lab.listen(7001), lab.listen(7002));
        let router = Running::start(&lab, DENYING_7001);
        assert_eq!(passing(&lab, &permitted), [true; 4], "{}", router.log());
        let nft = |line: &str| {
            let arguments: Vec<&str> = line.split_whitespace().collect();
            lab.router.run("nft", &arguments, LIMIT).unwrap();
        };
        let ip = |line: &str| lab.router.ip(line).unwrap();
        type Line<'a> = (&'a dyn Fn(&str), &'a [&'a str]);
        let by_rule: [Line<'_>; 2] = [
            (&ip, &["rule add from 10.61.0.0/16 lookup main pref 10"]),
            (&ip, &["rule del pref 10"]),
        ];
        let filter = [
            "add table ip t",
            "add chain ip t c { type filter hook forward priority 0 ; }",
            "add rule ip t c iifname left ip saddr 10.61.0.0/16 drop",
            "add rule ip t c iifname elsewhere drop",
        ];
        let by_filter: [Line<'_>; 2] = [(&nft, &filter), (&nft, &["delete table ip t"])];
        let methods = if has("nft", test) { vec![by_rule, by_filter] } else { vec![by_rule] };
        for [(add, added), (remove, removed)] in methods {
            added.iter().for_each(|line| add(line));
            let stopped = |wanted: bool| {
                router.until(&format!("{added:?}"), |stats| {
                    let reason = stats["ports"][0]["reason"].as_str().unwrap_or_default();
                    let is_reported =
                        reason.contains("10.61.0.0/16") && reason.contains("are dropped");
                    is_reported == wanted
                })
            };
            assert_eq!(stopped(true)["ports"][0]["state"], "up", "{added:?}");
            let expected = SOURCES.map(|source| source != BEHIND_SOURCE);
            assert_eq!(passing(&lab, &permitted), expected, "{added:?}: {}", router.log());
            removed.iter().for_each(|line| remove(line));
            stopped(false);
            assert_eq!(passing(&lab, &permitted), [true; 4], "{}", router.log());
        }
        assert_eq!(passing(&lab, &denied), [false; 4], "{}", router.log());
    });
}

/// Frames longer than a page pass in several pieces, by XDP programs and by workers, also with a
/// list. Frames that are too long for workers are forwarded by XDP programs or by the kernel,
/// unless a list has to see them.
#[test]
fn jumbo_frames_are_forwarded_up_to_the_stated_limit() {
    quiet_with(&["ping"], "jumbo_frames_are_forwarded_up_to_the_stated_limit", || {
        let lab = Lab::build();
        let mtu = |bytes: u32| {
            for (space, link) in [
                (&lab.router, "left"),
                (&lab.router, "right"),
                (&lab.source, "uplink"),
                (&lab.sink, "uplink"),
            ] {
                space.ip(&format!("link set {link} mtu {bytes}")).unwrap();
            }
        };
        mtu(9000);
        let ping = |router: &Running, bytes: u32| {
            let (size, sink) = (bytes.to_string(), SINK.to_string());
            let often = ["-n", "-M", "do", "-c", "5", "-i", "0.02", "-W", "5", "-s", &size, &sink];
            let output = lab.source.run("ping", &often, LIMIT).unwrap();
            let stats = || router.ask(Request::Stats);
            let all = output.contains(" 0% packet loss");
            assert!(all, "{bytes} bytes: {output}\n{}\n{}", router.log(), stats());
        };
        // Counts of pings of this size: received, forwarded by XDP programs, too long for workers.
        let count = |router: &Running, bytes: u32| {
            let counted = |stats: &Value| {
                let too_long =
                    |port: usize| stats["ports"][port]["verdicts"]["too_long"].as_u64().unwrap();
                let sum = |key: &str| stats[key].as_u64().unwrap();
                [sum("received"), sum("xdp_forwarded"), too_long(0) + too_long(1)]
            };
            let before = counted(&router.ask(Request::Stats));
            ping(router, bytes);
            let after = counted(&router.ask(Request::Stats));
            std::array::from_fn::<u64, 3, _>(|place| after[place] - before[place])
        };
        // 28 bytes of headers each: the last that fits one piece, the first that does not, the longest.
        let list = "[[acl]]\non = [\"left\", \"right\"]\naction = \"permit\"\n";
        for (forward, more) in [("on", ""), ("off", ""), ("off", list)] {
            let router = Running::start_as(&lab, &format!("xdp_forward = \"{forward}\"\n"), more);
            ping(&router, 56);
            let by_programs = if forward == "on" { 10 } else { 0 };
            for bytes in [1400, 3794, 3795, 7000, 8972] {
                let counted = count(&router, bytes);
                assert_eq!(
                    counted,
                    [10, by_programs, 0],
                    "{bytes} bytes, {more}: {}",
                    router.log()
                );
            }
        }
        mtu(20_000);
        for forward in ["on", "off"] {
            let router = Running::start_as(&lab, &format!("xdp_forward = \"{forward}\"\n"), "");
            ping(&router, 56);
            let [by_programs, by_kernel] = if forward == "on" { [10, 0] } else { [0, 10] };
            assert_eq!(count(&router, 16_082), [10, by_programs, 0], "{}", router.log());
            assert_eq!(count(&router, 16_083), [by_programs, by_programs, by_kernel]);
            assert_eq!(count(&router, 19_972), [by_programs, by_programs, by_kernel]);
        }
        let router = Running::start(&lab, list);
        ping(&router, 56);
        assert_eq!(count(&router, 16_082), [10, 0, 0], "{}", router.log());
    });
}

/// A port with rules and a check of its own is added, filtered from its first packet on, and
/// removed, while another port with rules goes on. A change that would leave a port without its
/// rules is refused.
#[test]
fn ports_with_lists_and_checks_come_and_go() {
    quiet("ports_with_lists_and_checks_come_and_go", || {
        let lab = Lab::build();
        let (peer, side) = (lab.source.name(), Ipv4Addr::new(10, 3, 0, 2));
        lab.router.ip(&format!("link add r2 type veth peer name c0 netns {peer}")).unwrap();
        for (space, link, address) in
            [(&lab.router, "r2", "10.3.0.1"), (&lab.source, "c0", "10.3.0.2")]
        {
            space.ip(&format!("addr add {address}/24 dev {link}")).unwrap();
            space.ip(&format!("link set {link} up")).unwrap();
        }
        lab.source.run("ethtool", &["-K", "c0", "tx", "off", "gro", "on"], LIMIT).unwrap();
        // Packets to that network leave by that interface.
        lab.source.ip("rule add from 10.3.0.0/24 lookup 7").unwrap();
        lab.source.ip("rule add from 10.99.0.0/24 lookup 7").unwrap();
        lab.source.ip("route add default via 10.3.0.1 table 7").unwrap();
        let forged = Ipv4Addr::new(10, 99, 0, 1);
        lab.source.ip("addr add 10.99.0.1/32 dev lo").unwrap();
        let rule = |on: &str, action: &str, more: &str| {
            format!(
                "[[acl]]\nname = \"{on}-{action}\"\non = [\"{on}\"]\naction = \"{action}\"\n{more}"
            )
        };
        let of_left = rule("left", "deny", "protocol = \"udp\"\ndestination_ports = 7001\n")
            + &rule("left", "permit", "");
        let more = "[[port]]\nname = \"side\"\ninterface = \"r2\"\n";
        let of_side = rule("side", "deny", "protocol = \"udp\"\ndestination_ports = 7002\n")
            + &rule("side", "permit", "");
        let checks = "[urpf]\nloose = [\"left\"]\n";
        let checks_too = "[urpf]\nloose = [\"left\"]\nstrict = [\"side\"]\n";
        let (first, second) = (lab.listen(7001), lab.listen(7002));
        let router = Running::start(&lab, &format!("{of_left}{checks}"));
        let left = || (lab.passes(&first, OWN), lab.passes(&second, OWN));
        assert_eq!(left(), (false, true), "{}", router.log());
        // No port yet: the kernel forwards.
        assert!(
            lab.passes(&first, side) && lab.passes(&second, side) && lab.passes(&first, forged)
        );
        for _ in 0..3 {
            router.configure(&format!("{more}{of_left}{of_side}{checks_too}"));
            let report = router.ask(Request::Reload);
            for section in ["[[port]]", "[[acl]]", "[urpf]"] {
                assert!(
                    report["applied"].as_array().unwrap().contains(&section.into()),
                    "{report}"
                );
            }
            let passes = |sink, from| lab.passes(sink, from);
            assert_eq!((passes(&first, side), passes(&second, side)), (true, false), "{report}");
            assert!(!passes(&first, forged), "no route leads back");
            assert_eq!(left(), (false, true), "the other port goes on");
            let stats = router.ask(Request::Stats);
            let port = &stats["ports"][2];
            assert_eq!((&port["name"], &port["state"]), (&"side".into(), &"up".into()), "{stats}");
            let dropped = &stats["applications"]["urpf"]["ports"][1];
            assert_eq!(dropped, &json!({"port": "side", "check": "strict", "dropped_packets": 3}));
            let rules = router.show(Topic::Acl);
            assert_eq!(rules["rules"][2]["packets"], 3, "{rules}");
            // It goes, and the kernel forwards.
            router.configure(&format!("{of_left}{checks}"));
            let report = router.ask(Request::Reload);
            assert!(report["needs_restart"].as_array().unwrap().is_empty(), "{report}");
            assert!(passes(&first, side) && passes(&second, side));
            assert_eq!(left(), (false, true));
        }
        // Not applied: it would leave a port without its rules.
        lab.router.sysctl(&[("ipv4/conf/r2/rp_filter", "1")]).unwrap();
        let refused = |text: String, words: &[&str]| {
            router.configure(&text);
            let answer = match ask(&router.0.socket(), Request::Reload) {
                Ok(report) => report.to_string(),
                Err(error) => error.to_string(),
            };
            for word in words {
                assert!(answer.contains(word), "{word}: {answer}");
            }
            assert_eq!(router.ask(Request::Stats)["ports"].as_array().unwrap().len(), 2);
            assert_eq!(left(), (false, true), "{answer}");
        };
        let only_rules = format!("{more}{of_left}{of_side}{checks}");
        refused(only_rules, &["side: [[acl]] would not hold", "rp_filter"]);
        let first_rule = format!("{more}{of_left}{}{checks}", rule("right", "permit", ""));
        refused(first_rule, &["[[port]]", "adds the first rule of an existing port"]);
        let other_check = format!("{more}{of_left}[urpf]\nstrict = [\"left\"]\n");
        refused(other_check, &["[[port]]", "changes the check of an existing port"]);
        refused(format!("{more}{checks}"), &["[[port]]", "[[acl]] was removed"]);
        drop(router);
        // Nor is a port added beside a first section, which is not in force before a restart.
        let router = Running::start(&lab, "");
        router.configure(&format!("{more}{of_side}"));
        let report = router.ask(Request::Reload);
        assert_eq!(report["needs_restart"], json!(["[[port]]", "[[acl]]"]), "{report}");
        assert_eq!(router.ask(Request::Stats)["ports"].as_array().unwrap().len(), 2);
    });
}
