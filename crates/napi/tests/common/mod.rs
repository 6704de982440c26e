//! A router whose kernel forwards through an nftables masquerade, between a generator and a sink.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wattline_linux::namespace::{Namespace, interface_index};
use wattline_xdp::{CountingSink, LiveGenerator};

pub const PATIENCE: Duration = Duration::from_secs(20);
const ROUTER: [u8; 6] = [2, 0, 0, 0, 0, 0xb0];

/// `a0 — r0 router r1 — b0`, by veth pairs; `r0` runs NAPI since GRO is on.
pub struct Scene {
    pub router: Namespace,
    source: Namespace,
    _sink: Namespace,
    sunk: CountingSink,
}

impl Scene {
    /// Builds it; prints a note and returns `None` without privileges or nftables.
    pub fn build() -> Option<Self> {
        if std::process::Command::new("nft").arg("--version").output().is_err() {
            wattline_needs::tool("nft");
            return None;
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        let create =
            |role| Namespace::create(format!("wlo-{}-{serial}-{role}", std::process::id()));
        let (source, router, sink) = match (create("a"), create("r"), create("b")) {
            (Ok(source), Ok(router), Ok(sink)) => (source, router, sink),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                wattline_needs::rights(&error);
                return None;
            }
        };
        for (end, name, peer, mac) in
            [(&source, "r0", "a0", "02:00:00:00:00:b0"), (&sink, "r1", "b0", "02:00:00:00:00:b1")]
        {
            let line = format!(
                "link add {name} address {mac} type veth peer name {peer} netns {}",
                end.name()
            );
            router.ip(&line).unwrap();
            for (namespace, interface) in [(&router, name), (end, peer)] {
                // No packets of the kernel's own among the counted ones.
                let key = format!("net.ipv6.conf.{interface}.disable_ipv6");
                namespace.sysctl(&key, "1").unwrap();
                namespace.ip(&format!("link set {interface} up")).unwrap();
            }
        }
        router.ip("addr add 10.1.0.1/24 dev r0").unwrap();
        router.ip("addr add 10.2.0.1/24 dev r1").unwrap();
        router.ip("neigh add 10.2.0.2 lladdr 02:00:00:00:00:c0 dev r1").unwrap();
        router.sysctl("net.ipv4.ip_forward", "1").unwrap();
        router.run("ethtool", &["-K", "r0", "gro", "on"]).unwrap();
        let rules = "table ip nat { chain post { type nat hook postrouting priority 100; \
                     oifname r1 masquerade; }; }";
        router.run("nft", &[rules]).unwrap();
        let attach = || CountingSink::attach(interface_index("b0").unwrap());
        let sunk = match sink.enter(attach).unwrap() {
            Ok(sunk) => sunk,
            Err(error) => {
                wattline_needs::rights(error);
                return None;
            }
        };
        Some(Self { router, source, _sink: sink, sunk })
    }

    /// Sends `times` rounds of `count` UDP packets of one flow through the router, as fast as
    /// possible. Returns the processor time of each round in nanoseconds, which includes soft
    /// interrupts.
    pub fn send(&self, count: u32, times: u32) -> Vec<f64> {
        let send = || {
            let out = interface_index("a0").unwrap();
            let generator = LiveGenerator::new(out, &frame(), None).unwrap();
            let once = |_| {
                let before = thread_nanos();
                generator.send(count).unwrap();
                thread_nanos() - before
            };
            (0..times).map(once).collect()
        };
        self.source.enter(send).unwrap()
    }

    /// Returns a counter of an interface of the router.
    pub fn counter(&self, interface: &str, name: &str) -> u64 {
        let path = format!("/sys/class/net/{interface}/statistics/{name}");
        // sysfs shows the namespace in which it was mounted; `ip netns exec` mounts it.
        self.router.run("cat", &[&path]).unwrap().trim().parse().unwrap()
    }

    /// Waits until this many frames have reached the sink.
    pub fn wait(&self, frames: u64) {
        let end = Instant::now() + PATIENCE;
        while self.sunk.frames().unwrap() < frames {
            assert!(Instant::now() < end, "{} of {frames}", self.sunk.frames().unwrap());
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Returns a frame from 10.1.0.2 to 10.2.0.2, UDP without checksum.
fn frame() -> [u8; 60] {
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&ROUTER);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 0xa0]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..34]
        .copy_from_slice(&[0x45, 0, 0, 46, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 1, 0, 2, 10, 2, 0, 2]);
    let sum: u32 =
        frame[14..34].chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes());
    frame[34..40].copy_from_slice(&[0x13, 0x88, 0, 9, 0, 26]);
    frame
}

fn thread_nanos() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
}
