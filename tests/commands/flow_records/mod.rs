//! Flow records from end to end: `wattline run` on captures, real collectors, and other
//! exporters on the same captures as reference. Needs no root.

mod collectors;
mod router;
mod tools;

use collectors::{TcpCollector, UdpCollector};
use router::Folder;
use std::net::UdpSocket;
use tools::{Flows, Nfcapd, dissect, is_there, nfpcapd, softflowd, version};
use wattline_testbed::replay;

/// Captures of tens of flows to hundreds, IPv4 and IPv6, TCP, UDP and ICMP.
const CAPTURES: [&str; 5] =
    ["1kxun.pcap", "bittorrent.pcap", "gnutella.pcap", "teams.pcap", "whatsappfiles.pcap"];

fn captures() -> Vec<std::path::PathBuf> {
    let data = std::env::var("WATTLINE_DATA").map_or_else(
        |_| std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        std::path::PathBuf::from,
    );
    let files = CAPTURES.map(|name| data.join("captures").join(name));
    files.into_iter().filter(|file| file.exists()).collect()
}

fn missing(programs: &[&str]) -> bool {
    let missing: Vec<_> = programs.iter().filter(|program| !is_there(program)).collect();
    if !missing.is_empty() {
        wattline_needs::tool(format_args!("{missing:?}"));
    }
    !missing.is_empty()
}

#[test]
fn real_collectors_have_the_flows_that_other_exporters_have() {
    if missing(&["nfcapd", "nfdump", "softflowd", "nfpcapd"]) {
        return;
    }
    println!("{}; {}", version("nfdump", "-V"), version("softflowd", "-h"));
    let captures = captures();
    if captures.is_empty() {
        wattline_needs::data("captures");
    }
    for capture in captures {
        let frames = replay::load(&capture).unwrap();
        let frames = frames.into_iter().filter(|frame| router::is_forwarded(frame));
        let folder = Folder::new(frames.map(router::without_padding));
        let (ipfix, netflow9) = (Nfcapd::start(), Nfcapd::start());
        let account = folder.run(&format!(
            "collectors = [\"ipfix://{}\", \"netflow9://{}\"]",
            ipfix.address, netflow9.address
        ));
        let (by_ipfix, by_netflow9) = (ipfix.stop(), netflow9.stop());
        let other = Nfcapd::start();
        softflowd(&folder.path("in.pcap"), &other.address);
        let by_softflowd = other.stop_lenient();
        let by_nfpcapd = nfpcapd(&folder.path("in.pcap"));
        let name = capture.file_name().unwrap().to_string_lossy().into_owned();
        let (packets, bytes) = by_ipfix.sums();
        println!("{name}: {} flows, {packets} packets, {bytes} bytes", by_ipfix.len());
        assert!(packets > 0);
        assert_eq!(packets, account["forwarded"].as_u64().unwrap(), "{name}");
        by_ipfix.assert_equal(&by_netflow9, &format!("{name}: NetFlow 9"));
        by_ipfix.assert_equal(&by_softflowd, &format!("{name}: softflowd"));
        by_ipfix.assert_equal(&by_nfpcapd, &format!("{name}: nfpcapd"));
        let records = &account["applications"]["flow_records"];
        for collector in records["collectors"].as_array().unwrap() {
            assert_eq!(collector["flow_packets"], packets, "{collector}");
            assert_eq!(collector["flow_bytes"], bytes, "{collector}");
            assert_eq!(collector["lost_records"], 0, "{collector}");
        }
        assert_eq!(records["tables"]["packets"], packets);
        assert_eq!(records["tables"]["flows_live"], 0);
    }
}

/// UDP flows between many hosts, IPv4 and IPv6.
fn synthetic() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for number in 0..600_u16 {
        let [high, low] = number.to_be_bytes();
        let builder = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], router::MAC);
        let mut frame = Vec::new();
        if number % 3 == 0 {
            let mut to = [0x20, 1, 0xd, 0xb8, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            to[15] = low;
            let mut from = to;
            from[5] = 9;
            builder.ipv6(from, to, 64).tcp(number, 443, 1, 1).ack(1).write(&mut frame, b"six")
        } else {
            builder
                .ipv4([192, 0, 2, 9], [203, 0, 113, high], 64)
                .udp(number, 53)
                .write(&mut frame, &[low; 20])
        }
        .unwrap();
        frames.push(frame);
    }
    frames
}

#[test]
fn tshark_dissects_everything_without_a_complaint() {
    if missing(&["tshark"]) {
        return;
    }
    println!("{}", version("tshark", "--version"));
    for extra in ["", "sampling = 2", "sampling = 2\nsampling_mode = \"random\""] {
        let (udp, netflow9) = (UdpCollector::start(), UdpCollector::start());
        let tcp = TcpCollector::start();
        let folder = Folder::new(synthetic());
        let account = folder.run(&format!(
            "collectors = [\"ipfix://{}\", \"netflow9://{}\", \"ipfix+tcp://{}\"]\n{extra}",
            udp.address, netflow9.address, tcp.address
        ));
        let tables = &account["applications"]["flow_records"]["tables"];
        let packets = tables["packets"].as_u64().unwrap();
        assert_eq!(packets, if extra.is_empty() { 600 } else { 300 });
        for (name, messages, port) in [
            ("ipfix", udp.stop(), 4739),
            ("netflow9", netflow9.stop(), 2055),
            ("tcp", tcp.stop(), 4739),
        ] {
            let seen = dissect(&folder.path(name), &messages, port, name == "tcp");
            assert_eq!(seen.complaints, "", "{name}");
            assert_eq!(seen.packets, packets, "{name}");
            assert_eq!(seen.bytes, tables["bytes"].as_u64().unwrap(), "{name}");
            assert_eq!(seen.frames, messages.len(), "{name}");
        }
    }
}

#[test]
fn a_collector_that_is_down_costs_its_own_records_only() {
    // Closed again, so that the kernel refuses messages.
    let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let up = UdpCollector::start();
    let folder = Folder::new(synthetic());
    let (account, log) = folder.run_with_log(&format!(
        "collectors = [\"ipfix://{closed}\", \"ipfix+tcp://{closed}\", \"ipfix://{}\"]",
        up.address
    ));
    assert_eq!(account["forwarded"], 600, "packets do not care");
    let collectors = account["applications"]["flow_records"]["collectors"].as_array().unwrap();
    for down in &collectors[..2] {
        let name = down["collector"].as_str().unwrap();
        assert_eq!((&down["records"], &down["lost_records"]), (&0.into(), &600.into()), "{down}");
        assert_eq!(down["lost_packets"], 600, "{down}");
        assert!(down["errors"].as_u64().unwrap() > 0, "{down}");
        assert_eq!(log.matches(&format!("{name} cannot be reached")).count(), 1, "{log}");
    }
    assert_eq!(collectors[2]["records"], 600);
    assert!(up.stop().len() > 10);
}

#[test]
fn prefixes_gateways_and_interfaces_are_exported() {
    if missing(&["nfcapd", "nfdump"]) {
        return;
    }
    let collector = Nfcapd::start();
    let folder = Folder::new(synthetic());
    folder.run(&format!("collectors = [\"ipfix://{}\"]", collector.address));
    let lines = collector.stop_with("fmt:%da|%sa|%in|%out|%nh|%smk|%dmk");
    let find = |needle: &str| {
        let line =
            lines.lines().find(|line| line.contains(needle)).unwrap_or_else(|| panic!("{lines}"));
        line.split('|').map(|word| word.trim().to_owned()).collect::<Vec<_>>()
    };
    let expected = ["203.0.113.1", "192.0.2.9", "1", "2", "198.51.100.2", "24", "25"];
    assert_eq!(find("203.0.113.1"), expected);
    assert_eq!(find("2001:db8:3")[2..4], ["1", "2"]);
}

#[test]
fn types_and_codes_of_icmp_reach_collectors() {
    if missing(&["nfcapd", "nfdump"]) {
        return;
    }
    let four = |icmp| {
        let mut frame = Vec::new();
        let ip = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], router::MAC);
        let ip = ip.ipv4([192, 0, 2, 9], [203, 0, 113, 1], 64).icmpv4(icmp);
        ip.write(&mut frame, &[0; 28]).unwrap();
        frame
    };
    let six = |icmp| {
        let mut frame = Vec::new();
        let to = [0x20, 1, 0xd, 0xb8, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let from = [0x20, 1, 0xd, 0xb8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        let ip = etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], router::MAC);
        ip.ipv6(from, to, 64).icmpv6(icmp).write(&mut frame, &[0; 28]).unwrap();
        frame
    };
    use etherparse::{IcmpEchoHeader, Icmpv4Type, Icmpv6Type, icmpv4, icmpv6};
    let echo = IcmpEchoHeader { id: 1, seq: 1 };
    let (ipfix, netflow9) = (Nfcapd::start(), Nfcapd::start());
    let folder = Folder::new([
        four(Icmpv4Type::EchoRequest(echo)),
        four(Icmpv4Type::DestinationUnreachable(icmpv4::DestUnreachableHeader::Port)),
        six(Icmpv6Type::EchoRequest(echo)),
        six(Icmpv6Type::DestinationUnreachable(icmpv6::DestUnreachableCode::Port)),
    ]);
    folder.run(&format!(
        "collectors = [\"ipfix://{}\", \"netflow9://{}\"]",
        ipfix.address, netflow9.address
    ));
    for (name, collector) in [("ipfix", ipfix), ("netflow9", netflow9)] {
        let text = collector.stop_with("fmt:%pr %dp");
        let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let seen: std::collections::BTreeSet<_> = words.filter(|line| !line.is_empty()).collect();
        assert_eq!(Vec::from_iter(seen), ["1 3.3", "1 8.0", "58 1.4", "58 128.0"], "{name}");
    }
}

#[test]
fn unrouted_packets_are_recorded_at_reception() {
    let mut frames = synthetic();
    // The router has no route to it.
    frames.truncate(10);
    frames[1][30..34].copy_from_slice(&[100, 64, 0, 1]);
    let frames: Vec<_> = frames.into_iter().map(router::with_checksum).collect();
    for (observe, packets) in [("routed", 9), ("received", 10)] {
        let up = UdpCollector::start();
        let folder = Folder::new(frames.clone());
        let account = folder
            .run(&format!("collectors = [\"ipfix://{}\"]\nobserve = \"{observe}\"", up.address));
        let tables = &account["applications"]["flow_records"]["tables"];
        assert_eq!(tables["packets"], packets, "{observe}: {account}");
        up.stop();
    }
}

#[test]
fn flows_of_both_tables_are_equal_only_where_they_should_be() {
    // The comparison itself can fail.
    let mut one = Flows::default();
    one.add("UDP,192.0.2.1,1,192.0.2.2,2,3,300");
    let mut other = Flows::default();
    other.add("UDP,192.0.2.1,1,192.0.2.2,2,3,301");
    assert!(std::panic::catch_unwind(|| one.assert_equal(&other, "test")).is_err());
}
