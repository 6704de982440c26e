//! The data path allocates nothing. The whole router runs with flow records, redundancy elimination
//! and both kinds of ESP at either end; the traffic includes plain, expired, oversized,
//! undeliverable and damaged packets. Once warm, it must not call the allocator once.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use wattline_dataplane::feature::{Feature, Place};
use wattline_dataplane::frame::FramePool;
use wattline_dataplane::next_hop::NextHop;
use wattline_dataplane::nodes::RouterParts;
use wattline_dataplane::port::{PortId, Waiter};
use wattline_dataplane::punt::Discard;
use wattline_dataplane::routes::Routes;
use wattline_dataplane::testing::{self, MAC_A, fix_checksum, net};
use wattline_dataplane::worker::{Worker, WorkerParts};
use wattline_filter::acl::rule::{Action, Rule};
use wattline_flow_records::nodes as flow_records;
use wattline_governor::ledger::Knob;
use wattline_governor::machine::Taken;
use wattline_governor::pace::{Budget, Pace};
use wattline_governor::step::Step;
use wattline_governor::transition::{Actuator, Transition};
use wattline_ipsec::esp;
use wattline_ipsec::esp::algorithm::Algorithm;
use wattline_ipsec::esp::association::{Common, DontFragment, Dscp, Inbound, Limits, Outbound};
use wattline_ipsec::esp::database::{Contents, Publisher};
use wattline_ipsec::esp::key::KeyMaterial;
use wattline_ipsec::esp::policy::{Decision, Policy, Prefixes};
use wattline_ipsec::esp::replay::ReplayWindow;
use wattline_ipsec::esp::sequence::Sequence;
use wattline_ipsec::esp::transform::Transform;
use wattline_packet::Family;
use wattline_packet::redundancy::Key;
use wattline_policy::OperatingPoint;
use wattline_ports::memory::{WireEnd, wire};
use wattline_ports::waiter::PollWaiter;
use wattline_redundancy::nodes::select::Selection;
use wattline_redundancy::nodes::{
    DecodeNode, DecodeSection, Decoder, DecoderCache, EncodeNode, EncodeSection, EncodeSettings,
    Encoder, EncoderCache, Rules,
};
use wattline_units::{Span, Time};

thread_local! {
    /// Calls of the allocator by this thread.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        // SAFETY: the caller's promise about `layout` holds for it too.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        CALLS.with(|calls| calls.set(calls.get() + 1));
        // SAFETY: `memory` came from the system's allocator, with this layout.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn routes() -> Routes {
    let mut routes = testing::routes();
    let forward = |port| testing::Bench::forward_mtu(port, 1400);
    for (prefix, way) in [
        ("192.0.2.0/24", forward(0)),
        ("2001:db8:1::/64", forward(0)),
        ("198.51.100.0/24", forward(1)),
        ("203.0.113.0/24", forward(1)),
        ("10.0.0.0/8", forward(1)),
        ("2001:db8:3::/48", forward(1)),
        (
            "172.16.0.0/12",
            NextHop::Resolve { port: PortId(1), gateway: None, source: None, vlan: None },
        ),
        ("172.31.0.0/16", NextHop::Blackhole),
    ] {
        routes.route(net(prefix), &way).unwrap();
    }
    routes.publish().unwrap();
    routes
}

/// Tunnels from 198.51.100.1 to 198.51.100.2, each algorithm with its own SPI.
const TUNNELS: [(u16, &str, Algorithm); 2] =
    [(0, "10.1.0.0/16", Algorithm::Aes128Gcm), (1, "10.2.0.0/16", Algorithm::Aes256CbcSha256)];

fn common(number: u16, algorithm: Algorithm, [local, remote]: [&str; 2]) -> Common {
    let key = KeyMaterial::new(algorithm, vec![0x42; algorithm.key_material()]).unwrap();
    let transform = Transform::new(algorithm, &key).unwrap();
    let ends = (local.parse().unwrap(), remote.parse().unwrap());
    let (name, spi) = (algorithm.name().to_owned(), 0x1000 + u32::from(number));
    Common::new(name, spi, transform, true, ends, None, Limits::default())
}

fn prefixes(destination: &str) -> Prefixes {
    Prefixes { source: net("192.0.2.0/24"), destination: net(destination) }
}

fn encrypting() -> Vec<Feature> {
    let outbound = |(number, _, algorithm): (u16, &str, Algorithm)| {
        let sequence = Sequence::new(0, true);
        sequence.reserve(u64::MAX);
        Some(Arc::new(Outbound {
            common: common(number, algorithm, ["198.51.100.1", "198.51.100.2"]),
            sequence,
            iv_offset: 0,
            dscp: Dscp::Copy,
            dont_fragment: DontFragment::Copy,
            mtu: u16::MAX,
        }))
    };
    let policy = |(number, destination, _): (u16, &str, Algorithm)| Policy {
        prefixes: prefixes(destination),
        decision: Decision::Protect(number),
    };
    let publisher = Publisher::new();
    publisher.publish(Contents {
        outbound: TUNNELS.map(outbound).into(),
        policies: TUNNELS.map(policy).into(),
        ..Contents::default()
    });
    esp::features(&publisher, 1_000_000, 1000)
}

fn decrypting() -> Vec<Feature> {
    let inbound = |(number, destination, algorithm): (u16, &str, Algorithm)| {
        Arc::new(Inbound {
            common: Arc::new(common(number, algorithm, ["198.51.100.2", "198.51.100.1"])),
            window: Arc::new(ReplayWindow::new(1024, 0)),
            selectors: vec![prefixes(destination)],
        })
    };
    let publisher = Publisher::new();
    publisher.publish(Contents { inbound: TUNNELS.map(inbound).into(), ..Contents::default() });
    esp::features(&publisher, 1_000_000, 1000)
}

fn rules(port: u16) -> Rules {
    Rules {
        port: Some(PortId(port)),
        prefixes: Vec::new(),
        except: Vec::new(),
        protocol: 253,
        bypass_ports: Vec::new(),
    }
}

fn encoder() -> Feature {
    let settings = EncodeSettings {
        cache_bytes: 1 << 20,
        selection: Selection::SampleByte,
        period: 32,
        stream: 0,
        key: Key::from_secret(""),
        bypass_entropy: true,
    };
    let shared = Arc::new(EncoderCache::new(&settings));
    shared.decoder_is_alive(1 << 20, 1, true);
    let nodes = Family::ALL.map(|family| {
        let encoder = Encoder::new(&settings, shared.clone());
        let section = EncodeSection { rules: rules(1), encoder, counters: Arc::default() };
        Box::new(EncodeNode::new(family, vec![section])) as _
    });
    let [ipv4, ipv6] = Family::ALL.map(|family| Some(EncodeNode::name_of(family)));
    Feature { place: Place::Routed, ipv4, ipv6, nodes: nodes.into() }
}

fn decoder() -> Feature {
    let shared = Arc::new(DecoderCache::new(1 << 20, 1));
    let nodes = Family::ALL.map(|family| {
        let decoder = Decoder::new(0, Key::from_secret(""), shared.clone());
        let section = DecodeSection { rules: rules(0), decoder, counters: Arc::default() };
        Box::new(DecodeNode::new(family, vec![section])) as _
    });
    let [ipv4, ipv6] = Family::ALL.map(|family| Some(DecodeNode::name_of(family)));
    Feature { place: Place::Arrived, ipv4, ipv6, nodes: nodes.into() }
}

/// Returns a UDP packet over IPv4 that varies a little with its number.
fn frame4(destination: [u8; 4], ttl: u8, length: usize, number: u16, flags: u8) -> Vec<u8> {
    let ports = [&number.to_be_bytes()[..], &[0; 6]].concat();
    let payload = (0..length).map(|place| (place / 7) as u8);
    let mut frame =
        testing::frame4(MAC_A, ttl, &ports.into_iter().chain(payload).collect::<Vec<_>>());
    frame[20] = flags;
    frame[30..34].copy_from_slice(&destination);
    fix_checksum(&mut frame);
    frame
}

fn frame6(hop_limit: u8, length: usize) -> Vec<u8> {
    testing::frame6(MAC_A, hop_limit, &vec![7; length])
}

fn traffic(round: u16) -> Vec<Vec<u8>> {
    let mut frames = vec![
        frame4([203, 0, 113, 5], 64, 1000, round, 0),
        frame4([203, 0, 113, 6], 64, 1000, 7, 0),
        frame4([203, 0, 113, 5], 1, 100, round, 0),
        frame4([203, 0, 113, 5], 64, 1400, round, 0),
        frame4([203, 0, 113, 5], 64, 1400, round, 0x40),
        frame4([10, 1, 0, 5], 64, 900, round, 0),
        frame4([10, 2, 0, 5], 64, 900, round, 0),
        frame4([10, 2, 0, 5], 64, 1340, round, 0),
        frame4([10, 1, 0, 5], 64, 1370, round, 0x40),
        frame4([172, 16, round as u8, 5], 64, 100, round, 0),
        frame4([172, 31, 0, 5], 64, 100, round, 0),
        frame4([8, 8, 8, 8], 64, 100, round, 0),
        frame6(64, 1000),
        frame6(1, 100),
        frame6(64, 1361),
    ];
    let mut damaged = frame4([203, 0, 113, 5], 64, 100, round, 0);
    damaged[30] ^= 1;
    frames.push(damaged);
    frames.push(frame4([203, 0, 113, 5], 64, 100, round, 0)[..30].to_vec());
    frames
}

struct Bench {
    worker: Worker,
    far: [WireEnd; 2],
    now: Time,
    /// Allocator calls of the worker since the last query.
    calls: u64,
}

impl Bench {
    fn new(features: Vec<Feature>) -> Self {
        let (neighbours, _) = sync_channel(8);
        let (icmp_rate, icmp_burst) = (1_000_000, 1000);
        let router = RouterParts { punt: Box::new(Discard), neighbours, icmp_rate, icmp_burst };
        let [(near_a, far_a), (near_b, far_b)] = [wire(512, 2048), wire(512, 2048)];
        let parts = WorkerParts {
            ports: vec![
                Box::new(near_a.into_queue(PortId(0))),
                Box::new(near_b.into_queue(PortId(1))),
            ],
            pool: FramePool::zeroed(2048, 2048, 256),
            routes: routes().reader(),
            router,
        };
        let worker = Worker::with_features(parts, features).unwrap();
        Self { worker, far: [far_a, far_b], now: Time::ZERO, calls: 0 }
    }

    /// Sends frames through the router; returns the frames that left by the second port, for the
    /// first port of another router.
    fn round(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        for frame in frames {
            assert!(self.far[0].send(frame));
        }
        let before = CALLS.get();
        for _ in 0..4 {
            // Long enough that waiting for neighbours times out within some rounds.
            self.now += Span::from_millis(100);
            self.worker.step(self.now);
        }
        self.calls += CALLS.get() - before;
        while self.far[0].receive_with(|_| ()).is_some() {}
        let mut left = Vec::new();
        while let Some(mut frame) = self.far[1].receive() {
            frame[..6].copy_from_slice(&MAC_A);
            left.push(frame);
        }
        left
    }

    /// Checks that packets took these paths and none was lost.
    fn check(&self, reasons: &[&str], nodes: &[&str]) {
        let counted = self.worker.counters().snapshot();
        assert!(counted.is_conserved(), "{counted:?}");
        for reason in reasons {
            assert!(counted.dropped.get(reason).is_some_and(|count| *count >= 64), "{counted:?}");
        }
        for name in nodes {
            let node = counted.nodes.iter().find(|node| node.name == *name).unwrap();
            assert!(node.frames > 1000, "{node:?}");
        }
    }
}

/// Returns an access list that permits everything at its end.
fn filtering() -> Vec<Feature> {
    let last = Rule {
        name: String::new(),
        on: Vec::new(),
        action: Action::Permit,
        sources: Vec::new(),
        destinations: Vec::new(),
        protocols: Vec::new(),
        source_ports: Vec::new(),
        destination_ports: Vec::new(),
    };
    let denied = Rule { action: Action::Deny, protocols: vec![255], ..last.clone() };
    wattline_filter::acl::worker(&[vec![denied; 100], vec![last]].concat(), 2).0
}

#[test]
fn warm_workers_never_call_the_allocator() {
    // Few flows and a small ring: includes evictions and records without room.
    let settings = flow_records::Settings { flows: 16, ring: 64, ..Default::default() };
    let [(near_flows, mut records), (far_flows, _far_records)] =
        [(); 2].map(|()| flow_records::worker(&settings));
    let near_features = [filtering(), vec![near_flows, encoder()], encrypting()];
    let mut near = Bench::new(near_features.into_iter().flatten().collect());
    let mut far = Bench::new(decrypting().into_iter().chain([decoder(), far_flows]).collect());
    let rounds: Vec<_> = (0..64).map(traffic).collect();
    let mut run = |times| {
        for frames in (0..times).flat_map(|_| &rounds) {
            let left = near.round(frames);
            far.round(&left);
        }
        (std::mem::take(&mut near.calls), std::mem::take(&mut far.calls))
    };
    run(20);
    assert_eq!(run(1), (0, 0));
    let reasons =
        ["ttl-expired", "too-big", "no-route", "blackhole", "bad-checksum", "neighbour-timeout"];
    near.check(
        &reasons,
        &["acl4", "acl6", "esp4-encrypt", "redundancy4-encode", "ip6-flow-records", "ip4-fragment"],
    );
    far.check(&[], &["esp4-decrypt", "redundancy4-decode", "ip6-flow-records"]);
    let decoded = far.worker.counters().snapshot();
    assert!(decoded.forwarded > 5000, "{decoded:?}");
    assert!(records.take(usize::MAX, |_| ()) > 0);
}

#[test]
fn waits_do_not_allocate() {
    let mut waiter = PollWaiter::new([]).unwrap();
    let before = CALLS.get();
    assert!(before > 0, "it counts");
    waiter.wait(std::time::Duration::ZERO);
    assert_eq!(CALLS.get(), before);
}

/// A machine that applies everything at once.
struct Willing(wattline_policy::Platform);

impl Actuator for Willing {
    fn platform(&self) -> &wattline_policy::Platform {
        &self.0
    }
    fn take(&mut self, _: Time, _: &Step) -> Taken {
        Taken::Done
    }
}

#[test]
fn warm_transitions_without_failures_do_not_allocate() {
    let file = wattline_server::ServerFile::load("westmere-2010").unwrap();
    let platform = wattline_cores::platform_of(file.model().unwrap());
    let full = OperatingPoint::full(&platform);
    let budget = Budget { writes_per_second: 1e7, burst_writes: 20.0 };
    let mut pace = Pace { budget: Some(budget), ..Pace::FREE };
    pace.dwell[Knob::Batch as usize] = Span::from_micros(3);
    let mut transition = Transition::new(&platform, full.clone(), pace);
    let (mut machine, mut wanted) = (Willing(platform), full);
    let mut taken = 0;
    for turn in 0..2_000_u64 {
        wanted.set_active(1 + turn as usize % 12, turn as usize % 3, 2);
        wanted.set_frequency(turn as usize * 5 % 14);
        wanted.weights[0] = 1 + (turn % 4) as u8;
        wanted.moderation.fill(Span::from_micros(turn % 7));
        wanted.batch = 1 + turn as u32 % 64;
        let now = Time::ZERO + Span::from_micros(turn);
        let before = CALLS.get();
        transition.go(now, &mut machine, &mut wanted);
        let calls = CALLS.get() - before;
        assert!(turn < 100 || calls == 0, "{calls} calls of the allocator in turn {turn}");
        taken = transition.ledger().sums().0;
    }
    assert!(taken > 10_000, "{taken} steps");
}
