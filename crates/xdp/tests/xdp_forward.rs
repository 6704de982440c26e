//! Forwarding in the XDP program between real interfaces: every sent frame is accounted for. Needs
//! root; without it, the tests print a note and pass.

mod common;

use common::{ROUTER_IN_MAC, ROUTER_OUT_MAC, SOURCE_MAC, Topology, index};
use wattline_linux::xdp_features::{Transmits, XdpFeatures};
use wattline_needs::until;
use wattline_packet::checksum::Sum;
use wattline_xdp::{
    Copies, CountingSink, LiveGenerator, Verdict, XdpForward, XdpModeChoice, XdpProgram,
};

const SLOT_IN: u32 = 0;
const SLOT_OUT: u32 = 1;

/// A router that forwards from `r0` to `r1` without any socket.
struct Router {
    forward: XdpForward,
    incoming: XdpProgram,
    _outgoing: XdpProgram,
    out: u32,
}

impl Router {
    /// Creates it in the namespace of this thread.
    fn new() -> Self {
        let forward = XdpForward::new(&Copies::new().unwrap().into()).unwrap();
        let load = |name, mac| {
            let choice = XdpModeChoice::Auto;
            XdpProgram::load_forwarding(index(name), mac, choice, Some(&forward)).unwrap()
        };
        let (incoming, outgoing) = (load("r0", ROUTER_IN_MAC), load("r1", ROUTER_OUT_MAC));
        let out = index("r1");
        forward.add(index("r0"), SLOT_IN).unwrap();
        forward.add(out, SLOT_OUT).unwrap();
        forward.open(out, true).unwrap();
        Self { forward, incoming, _outgoing: outgoing, out }
    }

    fn sent(&self) -> u64 {
        self.incoming.sent(SLOT_OUT).unwrap().packets
    }

    fn refused(&self) -> u64 {
        self.forward.refused(SLOT_OUT).unwrap()
    }
}

fn topology() -> Option<Topology> {
    let topology = Topology::build(1)?;
    let router = &topology.router;
    router.sysctl("net.ipv4.conf.all.forwarding", "1").unwrap();
    router.ip("addr add 10.1.0.1/24 dev r0").unwrap();
    router.ip("addr add 10.2.0.1/24 dev r1").unwrap();
    router.ip("neigh add 10.2.0.2 lladdr 02:00:00:00:00:c0 dev r1").unwrap();
    Some(topology)
}

/// Returns a frame from the source to the sink.
fn frame() -> Vec<u8> {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[3] = 46;
    (header[8], header[9]) = (64, 17);
    header[12..16].copy_from_slice(&[10, 1, 0, 2]);
    header[16..20].copy_from_slice(&[10, 2, 0, 2]);
    let checksum = Sum::new().bytes(&header).checksum();
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    let mut frame = [&ROUTER_IN_MAC[..], &SOURCE_MAC, &[8, 0], &header].concat();
    frame.resize(60, 0);
    frame
}

#[test]
fn each_frame_arrives_or_is_counted_as_refused() {
    let Some(topology) = topology() else { return };
    let Topology { source, router, sink } = &topology;
    let counter = sink.enter(|| CountingSink::attach(index("b0")).unwrap()).unwrap();
    let generator =
        source.enter(|| LiveGenerator::new(index("a0"), &frame(), None).unwrap()).unwrap();
    let arrived = || counter.frames().unwrap();
    let rounds = |count: u32| source.enter(|| generator.send(count).unwrap()).unwrap();
    router
        .enter(|| {
            let forwarder = Router::new();
            // Few at first, so that all fit.
            rounds(100);
            until("a hundred frames", || arrived() == 100);
            assert_eq!((forwarder.sent(), forwarder.refused()), (100, 0));
            assert_eq!(forwarder.incoming.sent(SLOT_OUT).unwrap().bytes, 6000);
            assert_eq!(forwarder.incoming.sent(SLOT_IN).unwrap().packets, 0);

            // More than the rings hold; frames for which `r0` has no room are lost before the
            // program.
            rounds(300_000);
            until("each frame", || forwarder.sent() == arrived() + forwarder.refused());
            assert!(forwarder.sent() > 1000);

            // The other machine's interface goes down: frames sent there are refused, or left to
            // the kernel, and in either case counted.
            sink.ip("link set b0 down").unwrap();
            let (passed, sent) =
                (|verdict| forwarder.incoming.counters().unwrap().get(verdict), forwarder.sent());
            let left = passed(Verdict::NoSocket);
            let made = generator.sent().unwrap();
            rounds(50);
            assert_eq!(generator.sent().unwrap(), made + 50);
            until("fifty frames", || {
                forwarder.sent() - sent + passed(Verdict::NoSocket) - left == 50
            });
            until("refused", || forwarder.sent() == arrived() + forwarder.refused());
            assert!(forwarder.refused() > 0 || passed(Verdict::NoSocket) > left);
        })
        .unwrap();
}

#[test]
fn interface_that_takes_no_frames_is_closed_by_the_first() {
    let Some(topology) = topology() else { return };
    let Topology { source, router, sink } = &topology;
    sink.run("ethtool", &["-K", "b0", "gro", "off"]).unwrap();
    let generator =
        source.enter(|| LiveGenerator::new(index("a0"), &frame(), None).unwrap()).unwrap();
    router
        .enter(|| {
            let forwarder = Router::new();
            let mut features = XdpFeatures::open().unwrap();
            assert_eq!(features.transmits(forwarder.out).unwrap(), Transmits::Nothing);
            assert!(forwarder.forward.is_open(forwarder.out).unwrap());
            source.enter(|| generator.send(200).unwrap()).unwrap();
            let verdicts = || forwarder.incoming.counters().unwrap();
            until("two hundred frames", || {
                let verdicts = verdicts();
                verdicts.get(Verdict::Forwarded) + verdicts.get(Verdict::NoSocket) == 200
            });
            // At most one per processor, if they check at the same time.
            let refused = forwarder.refused();
            assert!((1..=8).contains(&refused), "{refused}");
            assert_eq!(verdicts().get(Verdict::Forwarded), refused);
            assert!(!forwarder.forward.is_open(forwarder.out).unwrap());
        })
        .unwrap();
}

#[test]
fn one_armed_router_forwards_too() {
    let Some(topology) = topology() else { return };
    let Topology { source, router, .. } = &topology;
    router.ip("route add 10.2.0.2/32 via 10.1.0.2").unwrap();
    router.ip("neigh add 10.1.0.2 lladdr 02:00:00:00:00:a0 dev r0").unwrap();
    let counter = source.enter(|| CountingSink::attach(index("a0")).unwrap()).unwrap();
    let generator =
        source.enter(|| LiveGenerator::new(index("a0"), &frame(), None).unwrap()).unwrap();
    router
        .enter(|| {
            let forwarder = Router::new();
            forwarder.forward.open(index("r0"), true).unwrap();
            source.enter(|| generator.send(100).unwrap()).unwrap();
            until("a hundred frames back", || counter.frames().unwrap() == 100);
            assert_eq!(forwarder.incoming.sent(SLOT_IN).unwrap().packets, 100);
            assert_eq!(forwarder.sent(), 0);
        })
        .unwrap();
}

#[test]
fn counters_of_a_detached_program_can_still_be_read() {
    let Some(topology) = topology() else { return };
    let Topology { source, router, sink } = &topology;
    // So that it also takes generated frames without a program.
    router.run("ethtool", &["-K", "r0", "gro", "on"]).unwrap();
    let counter = sink.enter(|| CountingSink::attach(index("b0")).unwrap()).unwrap();
    let generator =
        source.enter(|| LiveGenerator::new(index("a0"), &frame(), None).unwrap()).unwrap();
    router
        .enter(|| {
            let mut forwarder = Router::new();
            source.enter(|| generator.send(10).unwrap()).unwrap();
            until("ten frames", || counter.frames().unwrap() == 10);
            forwarder.incoming.detach();
            assert_eq!(forwarder.sent(), 10);
            source.enter(|| generator.send(10).unwrap()).unwrap();
            // Now the kernel forwards.
            until("ten more", || counter.frames().unwrap() == 20);
            assert_eq!(forwarder.sent(), 10);
            assert_eq!(forwarder.incoming.counters().unwrap().get(Verdict::Forwarded), 10);
        })
        .unwrap();
}
