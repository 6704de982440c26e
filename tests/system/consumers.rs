//! Consumers of frames other than forwarding get them from a router as from the kernel alone: programs that
//! read frames themselves (packet(7)), neighbour proxies, DHCP clients, senders of redirects, forwarding out
//! of interfaces that are no ports, hosts that leave checksums to hardware.

use crate::crafted::{FAR_V4, FAR_V6, set_checksum, udp4, udp6};
use crate::harness::{ADAPTIVE, Bench, KERNEL, XDP, privileged, quiet, quiet_with};
use etherparse::PacketBuilder;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};
use wattline_needs::KillOnDrop;
use wattline_testbed::command;
use wattline_testbed::forwarder::Forwarder;
use wattline_testbed::namespace::Namespace;
use wattline_testbed::raw::{RawSocket, Sniffer};
use wattline_testbed::topology::{LEFT, Options, RIGHT, SINK, SOURCE, Station, Topology, mac_text};

const LIMIT: Duration = Duration::from_secs(60);
/// A list that lets everything pass: its ports are guarded.
const GUARD: &str = "\n[[acl]]\nname = \"all\"\non = [\"left\", \"right\"]\naction = \"permit\"\n";
/// The kernel, workers and XDP programs, and workers with a guard.
const ALL: [(Forwarder, &str); 4] = [(KERNEL, ""), (ADAPTIVE, ""), (XDP, ""), (ADAPTIVE, GUARD)];
/// An address that no machine has, behind the sink.
const OFFERED: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 50);
/// The address for which the router answers at `left`.
const PROXIED: Ipv6Addr = SINK.v6;

fn topology() -> Topology {
    Topology::build(Options { static_neighbours: true, ..Options::default() }).unwrap()
}

fn stop(bench: Bench) {
    if let Some(totals) = bench.running.stop().unwrap() {
        assert!(totals.balance(), "{totals:?}");
    }
}

/// A frame of the source's to a station.
fn frame(to: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&to[..], &SOURCE.mac, &kind.to_be_bytes(), payload].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// A reply of DHCP (`operation` 2) to a client with a hardware address.
fn dhcp(to: [u8; 6], client: [u8; 6], destination: Ipv4Addr) -> Vec<u8> {
    let mut reply = [0; 240];
    reply[..4].copy_from_slice(&[2, 1, 6, 0]);
    reply[28..34].copy_from_slice(&client);
    let builder = PacketBuilder::ethernet2(SOURCE.mac, to)
        .ipv4(SOURCE.v4.octets(), destination.octets(), 64)
        .udp(67, 68);
    let mut frame = Vec::new();
    builder.write(&mut frame, &reply).unwrap();
    frame
}

/// An IPv4 packet to a group or address, with a protocol and options.
fn ip4(to: [u8; 6], destination: [u8; 4], protocol: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = 20 + options.len() + payload.len();
    let mut ip = vec![0x45 + options.len() as u8 / 4, 0, (length >> 8) as u8, length as u8];
    ip.extend([0, 0, 0, 0, 1, protocol, 0, 0]);
    ip.extend(SOURCE.v4.octets());
    ip.extend(destination);
    ip.extend(options);
    set_checksum(&mut ip);
    ip.extend(payload);
    frame(to, 0x0800, &ip)
}

/// A message of neighbour discovery to an address: of this type, about `target`.
fn discovery(kind: u8, destination: Ipv6Addr, target: Ipv6Addr) -> Vec<u8> {
    let mut message = vec![0; 4];
    message.extend(target.octets());
    message.extend([1, 1]);
    message.extend(SOURCE.mac);
    let builder = PacketBuilder::ethernet2(SOURCE.mac, LEFT.mac)
        .ipv6(SOURCE.v6.octets(), destination.octets(), 255)
        .icmpv6_raw(kind, 0, [0; 4]);
    let mut frame = Vec::new();
    builder.write(&mut frame, &message[4..]).unwrap();
    frame
}

/// Frames that programs read at an interface, by protocol; true if a guard passes them to the
/// kernel, too.
fn frames_for_readers() -> Vec<(&'static str, Vec<u8>, bool)> {
    let group4 = |last: u8| [1, 0, 0x5e, 0, 0, last];
    let of_link = |last: u8| [1, 0x80, 0xc2, 0, 0, last];
    let all = [0xff; 6];
    let alert = [0x94, 4, 0, 0];
    let to_us = |protocol, payload: &[u8]| ip4(LEFT.mac, LEFT.v4.octets(), protocol, &[], payload);
    let bfd = [&[0xc0, 0, 0x0e, 0xc8, 0, 32, 0, 0][..], &[0x20; 24]].concat();
    let mld = {
        let mut ip = vec![0x60, 0, 0, 0, 0, 32, 0, 1];
        ip.extend(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9).octets());
        ip.extend(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).octets());
        ip.extend([58, 0, 5, 2, 0, 0, 1, 0, 130, 0, 0, 0]);
        ip.resize(40 + 32, 0);
        frame([0x33, 0x33, 0, 0, 0, 1], 0x86dd, &ip)
    };
    vec![
        ("DHCP offer", dhcp(LEFT.mac, LEFT.mac, OFFERED), true),
        ("DHCP offer without a client", dhcp(LEFT.mac, [0; 6], OFFERED), true),
        ("DHCP offer to all stations", dhcp(all, LEFT.mac, OFFERED), true),
        ("DHCP offer to all", dhcp(all, LEFT.mac, Ipv4Addr::BROADCAST), true),
        ("DHCP reply to a client behind us", dhcp(LEFT.mac, [6; 6], OFFERED), false),
        ("solicitation", discovery(135, PROXIED, PROXIED), true),
        ("solicitation for another", discovery(135, FAR_V6, FAR_V6), false),
        ("advertisement", discovery(136, FAR_V6, FAR_V6), false),
        ("router solicitation", discovery(133, FAR_V6, FAR_V6), false),
        ("router advertisement", discovery(134, FAR_V6, FAR_V6), false),
        ("redirect", discovery(137, FAR_V6, FAR_V6), false),
        (
            "IGMP query",
            ip4(group4(1), [224, 0, 0, 1], 2, &alert, &[0x11, 0, 0, 0, 0, 0, 0, 0]),
            true,
        ),
        ("MLD query", mld, true),
        ("PIM hello", ip4(group4(13), [224, 0, 0, 13], 103, &[], &[0x20; 8]), true),
        ("RSVP path", ip4(LEFT.mac, FAR_V4.octets(), 46, &alert, &[0x10; 8]), false),
        ("VRRP", ip4(group4(18), [224, 0, 0, 18], 112, &[], &[0x31; 12]), true),
        ("VRRP by unicast", to_us(112, &[0x31; 12]), true),
        ("OSPF", ip4(group4(5), [224, 0, 0, 5], 89, &[], &[2; 24]), true),
        ("BFD", to_us(17, &bfd), true),
        (
            "PTP over UDP",
            ip4(group4(0x81), [224, 0, 1, 129], 17, &[], &[1, 63, 1, 63, 0, 8, 0, 0]),
            true,
        ),
        ("ARP", frame(LEFT.mac, 0x0806, &[0; 28]), true),
        ("RARP", frame(LEFT.mac, 0x8035, &[0; 28]), true),
        ("PPPoE discovery", frame(LEFT.mac, 0x8863, &[0x11, 7, 0, 0, 0, 0]), true),
        ("PPPoE session", frame(LEFT.mac, 0x8864, &[0x11, 0, 0, 1, 0, 4, 0, 0x21]), false),
        ("LLDP", frame(of_link(14), 0x88cc, &[0; 28]), true),
        ("EAPOL", frame(of_link(3), 0x888e, &[1, 1, 0, 0]), true),
        ("EAPOL to us", frame(LEFT.mac, 0x888e, &[1, 1, 0, 0]), true),
        ("EAPOL before roaming", frame(LEFT.mac, 0x88c7, &[1, 1, 0, 0]), true),
        ("LACP", frame(of_link(2), 0x8809, &[1; 28]), true),
        ("MVRP", frame(of_link(0x21), 0x88f5, &[0; 28]), true),
        ("MMRP", frame(of_link(0x20), 0x88f6, &[0; 28]), true),
        ("MSRP", frame(of_link(14), 0x22ea, &[0; 28]), true),
        ("IEEE 1905.1", frame(LEFT.mac, 0x893a, &[0; 28]), true),
        ("PTP", frame(of_link(14), 0x88f7, &[0; 44]), true),
        ("spanning tree", frame(of_link(0), 38, &[0x42; 38]), true),
        ("IS-IS", frame(of_link(0x14), 40, &[0xfe; 40]), true),
    ]
}

fn answer_for_the_sink(router: &Namespace) {
    router.sysctl(&[("ipv6/conf/all/proxy_ndp", "1"), ("ipv6/conf/left/proxy_ndp", "1")]).unwrap();
    router.ip(&format!("neighbour add proxy {PROXIED} dev left")).unwrap();
}

#[test]
fn readers_of_frames_get_them() {
    quiet("readers_of_frames_get_them", || {
        for (forwarder, more) in ALL {
            let topology = topology();
            answer_for_the_sink(&topology.router);
            let bench = Bench::start_in(topology, forwarder, more);
            let reader = RawSocket::open(&bench.topology.router, LEFT.interface).unwrap();
            let sender = RawSocket::open(&bench.topology.source, SOURCE.interface).unwrap();
            let mut missing = String::new();
            for (name, frame, guarded) in frames_for_readers() {
                let mut buffer = [0; 2048];
                assert!(sender.send(&frame).unwrap());
                let end = Instant::now() + Duration::from_millis(300);
                let mut is_read = false;
                while !is_read && Instant::now() < end {
                    let Some(length) = reader.receive(&mut buffer, 50) else { continue };
                    // Behind the Ethernet addresses.
                    is_read = buffer[12..length] == frame[12..];
                }
                if is_read != (more.is_empty() || guarded) {
                    let _ = writeln!(missing, "{name}: read: {is_read}");
                }
            }
            assert_eq!(missing, "", "{forwarder:?} {more}");
            stop(bench);
        }
    });
}

/// Packets that a guard stops and a reader gets are forwarded neither by Wattline nor by the
/// kernel.
#[test]
fn frames_for_readers_are_not_forwarded_past_a_guard() {
    quiet("frames_for_readers_are_not_forwarded_past_a_guard", || {
        let deny = GUARD.replace("permit", "deny");
        for forwarder in [ADAPTIVE, XDP] {
            let topology = topology();
            answer_for_the_sink(&topology.router);
            let bench = Bench::start_in(topology, forwarder, &deny);
            let sniffer = Sniffer::start(&bench.topology.sink, SINK.interface, |frame| {
                frame[6..12] == RIGHT.mac && frame[12..14] != [0x08, 0x06]
                    // Discovery and reports of groups that the router itself sends.
                    && frame.get(21) != Some(&255)
                    && frame[..6] != [0x33, 0x33, 0, 0, 0, 0x16]
            })
            .unwrap();
            let sender = RawSocket::open(&bench.topology.source, SOURCE.interface).unwrap();
            for (_, frame, _) in frames_for_readers() {
                assert!(sender.send(&frame).unwrap());
            }
            std::thread::sleep(Duration::from_millis(500));
            let passed: Vec<_> = sniffer.finish().into_iter().map(|it| it.frame).collect();
            assert_eq!(passed, [[0; 0]; 0], "{forwarder:?}");
            stop(bench);
        }
    });
}

#[test]
fn proxied_addresses_are_answered_for() {
    quiet("proxied_addresses_are_answered_for", || {
        for (forwarder, more) in ALL {
            let topology = topology();
            answer_for_the_sink(&topology.router);
            let bench = Bench::start_in(topology, forwarder, more);
            let is_answer = |frame: &[u8]| {
                frame.get(54) == Some(&136) && frame.get(62..78) == Some(&PROXIED.octets()[..])
            };
            let sniffer =
                Sniffer::start(&bench.topology.source, SOURCE.interface, is_answer).unwrap();
            let sender = RawSocket::open(&bench.topology.source, SOURCE.interface).unwrap();
            for _ in 0..3 {
                assert!(sender.send(&discovery(135, PROXIED, PROXIED)).unwrap());
                std::thread::sleep(Duration::from_millis(300));
            }
            assert!(sniffer.finish().len() >= 3, "{forwarder:?} {more}");
            stop(bench);
        }
    });
}

/// Forwarded packets and redirects seen by a host that sends packets for a machine on its own link
/// to the router.
fn redirected(bench: &Bench) -> [(usize, bool); 2] {
    let topology = &bench.topology;
    let sender = RawSocket::open(&topology.source, SOURCE.interface).unwrap();
    let sniffer = Sniffer::start(&topology.source, SOURCE.interface, |_| true).unwrap();
    for _ in 0..3 {
        assert!(sender.send(&udp4(SOURCE.v4, FAR_V4, 64, 30)).unwrap());
        assert!(sender.send(&udp6(SOURCE.v6, FAR_V6, 64, 30)).unwrap());
        std::thread::sleep(Duration::from_millis(1100));
    }
    let frames: Vec<_> = sniffer.finish().into_iter().map(|it| it.frame).collect();
    let count = |kind: [u8; 2], at: usize, protocol: u8| {
        let is = |it: &&Vec<u8>| it.get(12..14) == Some(&kind[..]) && it.get(at) == Some(&protocol);
        frames.iter().filter(is).collect::<Vec<_>>()
    };
    let has =
        |frames: Vec<&Vec<u8>>, at: usize, kind| frames.iter().any(|it| it.get(at) == Some(&kind));
    [
        (count([8, 0], 23, 17).len(), has(count([8, 0], 23, 1), 34, 5)),
        (count([0x86, 0xdd], 20, 17).len(), has(count([0x86, 0xdd], 20, 58), 54, 137)),
    ]
}

#[test]
fn senders_are_redirected_as_by_the_kernel() {
    quiet("senders_are_redirected_as_by_the_kernel", || {
        for (all, own) in [("1", "1"), ("0", "1"), ("0", "0")] {
            for forwarder in [KERNEL, ADAPTIVE, XDP] {
                let topology = topology();
                let router = &topology.router;
                let mac = mac_text(SOURCE.mac);
                router
                    .ip(&format!(
                        "neighbour add 198.18.0.3 lladdr {mac} nud permanent dev left\n\
                         neighbour add fe80::99 lladdr {mac} nud permanent dev left\n\
                         route add 203.0.113.0/24 via 198.18.0.3\n\
                         route add 2001:db8:7::/48 via fe80::99 dev left"
                    ))
                    .unwrap();
                let settings =
                    [("ipv4/conf/all/send_redirects", all), ("ipv4/conf/left/send_redirects", own)];
                router.sysctl(&settings).unwrap();
                let bench = Bench::start_in(topology, forwarder, "");
                let seen = redirected(&bench);
                let sends = all == "1" || own == "1";
                assert_eq!(seen, [(3, sends), (3, true)], "{forwarder:?}, {all} {own}");
                stop(bench);
            }
        }
    });
}

/// Frames that the sink receives of `sent` ones.
fn received_of(bench: &Bench, sent: u32, rate: f64) -> u64 {
    let topology = &bench.topology;
    let counter = "/sys/class/net/uplink/statistics/rx_packets";
    let received =
        || topology.sink.run("cat", &[counter], LIMIT).unwrap().trim().parse::<u64>().unwrap();
    let sender = RawSocket::open(&topology.source, SOURCE.interface).unwrap();
    let frame = udp4(SOURCE.v4, FAR_V4, 64, 30);
    let before = received();
    let begin = Instant::now();
    let mut count = 0;
    while count < sent {
        let due = (begin.elapsed().as_secs_f64() * rate) as u32;
        while count < due.min(sent) {
            sender.send(&frame).unwrap();
            count += 1;
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    std::thread::sleep(Duration::from_millis(500));
    received() - before
}

/// The egress interface is no port, or a port that is left to the kernel because it is shaped: as
/// many packets arrive as with the kernel alone.
#[test]
fn egress_interface_that_is_no_port_gets_what_the_kernel_forwards() {
    privileged("egress_interface_that_is_no_port_gets_what_the_kernel_forwards", || {
        const SENT: u32 = 50_000;
        for shaped in [false, true] {
            let mut reference = 0;
            for forwarder in [KERNEL, ADAPTIVE, XDP] {
                let topology = topology();
                if shaped {
                    let shape =
                        ["qdisc", "add", "dev", "right", "root", "tbf", "rate", "5gbit", "burst"];
                    let shape = [&shape[..], &["2mb", "latency", "200ms"]].concat();
                    topology.router.run("tc", &shape, LIMIT).unwrap();
                } else {
                    topology
                        .router
                        .ip("link set right down\nlink set right name outer\nlink set outer up")
                        .unwrap();
                    topology
                        .router
                        .ip(&format!(
                            "neighbour replace {0} lladdr {1} nud permanent dev outer\nroute replace default via {0}",
                            SINK.v4,
                            mac_text(SINK.mac)
                        ))
                        .unwrap();
                }
                let bench = Bench::start_in(topology, forwarder, "");
                let received = received_of(&bench, SENT, 200_000.0);
                println!("{forwarder:?}, shaped {shaped}: {received} of {SENT} arrive");
                match forwarder {
                    KERNEL => reference = received,
                    _ => {
                        assert!(received * 100 >= reference * 99, "{received}, kernel {reference}")
                    }
                }
                if let Some(totals) = bench.running.stop().unwrap() {
                    assert!(totals.punted < 1000, "{totals:?}");
                }
            }
        }
    });
}

/// Hosts with the default settings of a veth leave checksums and segmentation to hardware.
#[test]
fn tcp_passes_between_hosts_that_leave_checksums_to_hardware() {
    quiet("tcp_passes_between_hosts_that_leave_checksums_to_hardware", || {
        for (forwarder, more) in ALL {
            let topology = topology();
            let ends = [(&topology.source, SOURCE), (&topology.router, LEFT)];
            for (namespace, Station { interface, .. }) in
                ends.into_iter().chain([(&topology.router, RIGHT), (&topology.sink, SINK)])
            {
                let on =
                    ["-K", interface, "rx", "on", "tx", "on", "sg", "on", "tso", "on", "gso", "on"];
                namespace.run("ethtool", &[&on[..], &["gro", "on"]].concat(), LIMIT).unwrap();
            }
            let bench = Bench::start_in(topology, forwarder, more);
            for address in [SINK.v4.to_string(), format!("[{}]", SINK.v6)] {
                let length = transferred(&bench.topology, &format!("{address}:5001"));
                assert_eq!(length, 2_000_000, "{forwarder:?} {more} {address}");
            }
            stop(bench);
        }
    });
}

/// Returns the bytes that arrive of two million sent by TCP.
fn transferred(topology: &Topology, address: &str) -> usize {
    let listener = topology.sink.enter(|| TcpListener::bind(address)).unwrap().unwrap();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(LIMIT / 4)).unwrap();
            let mut bytes = Vec::new();
            let _ = stream.read_to_end(&mut bytes);
            bytes.len()
        });
        let connect = || TcpStream::connect_timeout(&address.parse().unwrap(), LIMIT / 4);
        let mut stream = topology.source.enter(connect).unwrap().unwrap();
        stream.write_all(&[7; 2_000_000]).unwrap();
        drop(stream);
        receiver.join().unwrap()
    })
}

/// Starts a DHCP server in the sink's namespace, for one network.
fn dhcp_server(topology: &Topology, network: &str) -> KillOnDrop {
    let sink = &topology.sink;
    let _ = sink.ip("address flush dev uplink");
    sink.ip(&format!("address add {network}.1/24 dev uplink")).unwrap();
    let range = format!("--dhcp-range={network}.100,{network}.150,120");
    let mut server = sink.command("dnsmasq");
    server.args([
        "--no-daemon",
        "--conf-file=/dev/null",
        "--port=0",
        "--no-ping",
        "--leasefile-ro",
    ]);
    server.args(["--interface=uplink", "--dhcp-authoritative", "--user=root", &range]);
    server.stdout(Stdio::null()).stderr(Stdio::null());
    KillOnDrop(command::spawn(&mut server).unwrap())
}

/// Removes the IPv4 addresses of the router's uplink.
fn flush(topology: &Topology) {
    topology.router.run("ip", &["-4", "address", "flush", "dev", "right"], LIMIT).unwrap();
}

/// An uplink by DHCP: the first lease, its renewal, and another network after the modem was replaced.
#[test]
fn dhcp_client_of_a_port_gets_and_renews_its_address() {
    let test = "dhcp_client_of_a_port_gets_and_renews_its_address";
    quiet_with(&["dnsmasq", "udhcpc", "dhclient"], test, || {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("lease");
        let log = folder.path().join("events");
        let text = format!(
            "#!/bin/sh\necho $1$reason $ip$new_ip_address >> {}\ncase $1$reason in\n\
             deconfig) ip addr flush dev right ;;\n\
             bound|renew) ip addr replace $ip/24 dev right ;;\n\
             BOUND|RENEW|REBOOT) ip addr replace $new_ip_address/24 dev right ;;\nesac\n",
            log.display()
        );
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        for (forwarder, more) in ALL {
            let topology = topology();
            flush(&topology);
            let bench = Bench::start_in(topology, forwarder, more);
            let topology = &bench.topology;
            let server = dhcp_server(topology, "10.77.1");
            let _ = std::fs::remove_file(&log);
            let mut client = topology.router.command("udhcpc");
            client.args(["-f", "-i", "right", "-t", "20", "-T", "1", "-A", "1", "-s"]).arg(&script);
            client.stdout(Stdio::null()).stderr(Stdio::null());
            let client = KillOnDrop(command::spawn(&mut client).unwrap());
            let until = |event: &str| {
                let events = || std::fs::read_to_string(&log).unwrap_or_default();
                let reason = || format!("{event}, {forwarder:?} {more}: {}", events());
                let happened = || events().lines().any(|line| line.starts_with(event));
                wattline_needs::until_or(happened, reason);
            };
            let signal = |signal| crate::harness::terminate(&client.0, signal);
            until("bound 10.77.1.");
            signal(rustix::process::Signal::USR1);
            until("renew 10.77.1.");
            drop(server);
            let server = dhcp_server(topology, "10.77.2");
            signal(rustix::process::Signal::USR2);
            signal(rustix::process::Signal::USR1);
            until("bound 10.77.2.");
            drop(client);
            let _ = std::fs::remove_file(&log);
            flush(topology);
            let mut other = topology.router.command("dhclient");
            other.args(["-4", "-1", "-d", "-sf"]).arg(&script);
            other
                .arg("-lf")
                .arg(folder.path().join("leases"))
                .arg("-pf")
                .arg(folder.path().join("pid"));
            other.arg("right").stdout(Stdio::null()).stderr(Stdio::null());
            let other = KillOnDrop(command::spawn(&mut other).unwrap());
            until("BOUND 10.77.2.");
            drop((other, server));
            let _ = std::fs::remove_file(folder.path().join("leases"));
            stop(bench);
        }
    });
}
