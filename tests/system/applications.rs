//! All applications in a chain, between two routers, with iperf3 and captures through it and workers that
//! come and go all the while: every packet arrives as it was sent, and the records of its flows add up.

use crate::harness::{captures, privileged_with};
use crate::ipsec::{KIND, keys, tunnel_end};
use crate::recorded::{Collector, PORT, flows};
use crate::redundancy::{Chain, HOST4, HOST6, elimination};
use crate::throughput::{Client, Server, stalls};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wattline_linux::namespace::interface_index;
use wattline_packet::FromBytes;
use wattline_packet::ipv4::{Ipv4Header, Ipv4Packet};
use wattline_testbed::command;
use wattline_testbed::raw::Sniffer;
use wattline_testbed::replay::{fingerprint, is_transit, load, send};
use wattline_testbed::topology::{Options, RIGHT, SOURCE};
use wattline_xdp::steer::{Steering, TABLE_ENTRIES, balance};

const LIMIT: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(30);
/// Slow enough that no ring on the way ever fills up, beside iperf3.
const RATE_PPS: f64 = 4_000.0;
/// Smaller than usual, to leave room for the tunnel's headers: no packet has to be fragmented.
const TUNNEL_MTU: u16 = 1600;
/// Networks on the first router's side and on the second's: networks of source and host, and
/// networks to which addresses in captures are moved. Every packet belongs to one direction.
const NETWORKS: [[&str; 2]; 6] = [
    ["198.18.0.0/24", "198.19.8.0/24"],
    ["11.0.0.0/8", "12.0.0.0/8"],
    ["198.18.0.0/24", "12.0.0.0/8"],
    ["11.0.0.0/8", "198.19.8.0/24"],
    ["2001:2:0:1::/64", "2001:2:0:8::/64"],
    ["2a01::/16", "2a02::/16"],
];

#[test]
fn chain_of_three_forwards_while_workers_come_and_go() {
    let test = "chain_of_three_forwards_while_workers_come_and_go";
    let frames = frames(test);
    if !frames.is_empty() {
        privileged_with(&["iperf3", "nfcapd"], test, || pass_through(&frames));
    }
}

fn pass_through(frames: &[Vec<u8>]) {
    let folder = tempfile::tempdir().unwrap();
    keys(folder.path(), KIND);
    let records = format!(
        "[flow_records]\ncollectors = [\"ipfix://127.0.0.1:{PORT}\"]\ntemplate_interval = \"1s\"\n"
    );
    let sections = [0, 1].map(|end| {
        elimination()[end].clone() + &records + &tunnel_end(folder.path(), KIND, end, &NETWORKS)
    });
    let options = Options { queues: 2, sink_mtu: TUNNEL_MTU, ..Options::default() };
    let chain = Chain::start_routers(sections, options);
    chain.wait_for_reports(0);
    to_the_host(&chain);
    let collectors = [&chain.topology.router, &chain.topology.sink].map(Collector::start);

    let at_host = Sniffer::start(&chain.host, "uplink", captured).unwrap();
    let rounds = busy(&chain, || {
        let sent = send(&chain.topology, frames, RATE_PPS).unwrap();
        assert!(sent.iter().all(Option::is_some), "a frame was too long for the link");
        // Lost packets are counted below.
        let end = Instant::now() + LIMIT;
        while at_host.count() < frames.len() && Instant::now() < end {
            std::thread::sleep(PAUSE);
        }
    });
    let arrived = at_host.finish();

    let [sent, received] = [
        counted(frames.iter().map(Vec::as_slice)),
        counted(arrived.iter().map(|received| received.frame.as_slice())),
    ];
    let [near, far] = [&chain.encoder, &chain.decoder].map(|router| router.stats().unwrap());
    // No packet was changed or duplicated.
    for (packet, times) in &received {
        let sent = sent.get(packet).copied().unwrap_or(0);
        let start = &packet[..packet.len().min(64)];
        assert!(*times <= sent, "came {times} times, sent {sent}: {start:02x?}");
    }
    // The encoder refers to nothing that the decoder has not confirmed.
    let missed = far["dropped"]["redundancy-missing"].as_u64().unwrap_or(0);
    let lost = (frames.len() - arrived.len()) as u64;
    assert!(lost == 0, "{lost} lost; near {}, far {}", near["dropped"], far["dropped"]);
    assert_eq!(missed, 0);
    println!("{} packets of captures; workers went and came {rounds} times", frames.len());
    assert!(chain.encoder("saved_bytes").as_u64().unwrap() > 0);
    assert_eq!(chain.decoder("integrity_failures"), 0);
    assert_eq!(chain.decoder("malformed_packets"), 0);
    let tunnel = &near["applications"]["ipsec"]["tunnels"][0];
    assert!(tunnel["outbound"]["packets"].as_u64().unwrap() > frames.len() as u64, "{tunnel}");
    assert_eq!(tunnel["outbound"]["dropped"], json!({}), "{tunnel}");
    // The last flows are exported when the routers end.
    let Chain { encoder, decoder, host: _host, topology: _topology } = chain;
    for totals in [encoder.stop().unwrap(), decoder.stop().unwrap()] {
        assert!(totals.balance(), "{totals:?}");
    }
    let through: Vec<_> = arrived.into_iter().map(|received| received.frame).collect();
    for (collector, frames) in collectors.into_iter().zip([frames, &through]) {
        let recorded = collector.stop();
        let expected = flows(frames);
        for (flow, counts) in &expected {
            assert_eq!(Some(counts), recorded.get(flow), "packets and bytes of {flow:?}");
        }
        println!("{} flows as sent, to the packet and the byte", expected.len());
    }
}

/// Routes all other destinations to the host behind the second router.
fn to_the_host(chain: &Chain) {
    let second = &chain.topology.sink;
    second
        .ip(&format!(
            "route replace default via {HOST4}\nroute replace default via {HOST6}\n\
             route add 198.18.0.0/24 via {}\nroute add 2001:2:0:1::/64 via {}",
            RIGHT.v4, RIGHT.v6
        ))
        .unwrap();
    // Neighbours are resolved first: few packets are held for an unresolved one.
    for address in [HOST4, HOST6] {
        let ping = ["-n", "-c", "5", "-i", "0.2", "-W", "5", address];
        let all_come_back = || {
            let mut command = chain.topology.source.command("ping");
            let said = command::run_to_end(command.args(ping), LIMIT, "").unwrap().stdout;
            String::from_utf8_lossy(&said).contains(" 0% packet loss")
        };
        assert!((0..20).any(|_| all_come_back()), "{address} does not answer");
    }
}

/// Frames of captures that any two routers forward, one after the other.
fn frames(test: &str) -> Vec<Vec<u8>> {
    let paths = captures(test);
    let all = paths.iter().flat_map(|path| load(path).unwrap_or_else(|error| panic!("{error}")));
    all.filter(|frame| passes(frame)).map(moved).collect()
}

/// From and to the networks of the tunnel. The checksum over payload and addresses is not
/// made right: no router looks at it.
fn moved(mut frame: Vec<u8>) -> Vec<u8> {
    if frame[14] >> 4 == 4 {
        frame[26] = 11;
        frame[30] = 12;
        let (header, _) = Ipv4Header::mut_from_prefix(&mut frame[14..]).unwrap();
        header.fill_checksum();
    } else {
        frame[22..24].copy_from_slice(&[0x2a, 0x01]);
        frame[38..40].copy_from_slice(&[0x2a, 0x02]);
    }
    frame
}

fn passes(frame: &[u8]) -> bool {
    let packet = frame.get(14..).unwrap_or_default();
    let whole = match packet.first().map(|byte| byte >> 4) {
        Some(4) => Ipv4Packet::parse(packet)
            .is_ok_and(|parsed| !parsed.header.is_fragment() && parsed.header.ttl > 2),
        Some(6) => {
            packet.len() >= 40
                && packet.len() >= 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]))
                && matches!(packet[6], 6 | 17 | 58)
                && packet[7] > 2
        }
        _ => false,
    };
    whole && frame.len() <= 1514 && is_transit(frame)
}

/// Returns true if a frame at the host comes from the captures.
fn captured(frame: &[u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x00]) => frame.get(26) == Some(&11),
        Some([0x86, 0xdd]) => frame.get(22..24) == Some(&[0x2a, 0x01]),
        _ => false,
    }
}

/// Counts the copies of each packet.
fn counted<'a>(frames: impl Iterator<Item = &'a [u8]>) -> BTreeMap<Vec<u8>, usize> {
    let mut counts = BTreeMap::new();
    for frame in frames {
        *counts.entry(fingerprint(frame)).or_default() += 1;
    }
    counts
}

/// Runs `work` while TCP flows and workers come and go at least a few times; returns how often they
/// did.
fn busy(chain: &Chain, work: impl FnOnce()) -> u32 {
    let only = balance(&[0; TABLE_ENTRIES], &[0]);
    let both = balance(&only, &[0, 1]);
    let source = &chain.topology.source;
    let steering = source
        .enter(|| Steering::attach(interface_index(SOURCE.interface).unwrap(), &both))
        .unwrap()
        .unwrap();
    let _server = Server::start_in(&chain.host);
    let client = Client::start(source, HOST4, &["-P", "4", "-b", "2M"]);

    let done = AtomicBool::new(false);
    let rounds = std::thread::scope(|scope| {
        let workers = scope.spawn(|| {
            let mut rounds = 0;
            while !done.load(Ordering::Relaxed) || rounds < 5 {
                steering.write(&only).unwrap();
                chain.active("1");
                std::thread::sleep(PAUSE);
                chain.active("2");
                steering.write(&both).unwrap();
                std::thread::sleep(PAUSE);
                rounds += 1;
            }
            rounds
        });
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        done.store(true, Ordering::Relaxed);
        let rounds = workers.join().unwrap();
        if let Err(panic) = worked {
            std::panic::resume_unwind(panic);
        }
        rounds
    });
    let report = client.interrupt();
    let sent = report["end"]["sum_sent"]["bytes"].as_u64().unwrap();
    assert!(sent > 1_000_000, "{report}");
    assert!(!stalls(&report), "{report}");
    rounds
}
