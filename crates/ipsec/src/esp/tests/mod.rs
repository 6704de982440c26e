//! Whole gateways: packets into one come out of the other, and no others do.

mod batches;
mod hostile;
mod rules;

use super::algorithm::Algorithm;
use super::association::{Common, DontFragment, Dscp, Inbound, Limits, Outbound};
use super::database::{Contents, Publisher};
use super::key::KeyMaterial;
use super::policy::{Decision, Policy, Prefixes};
use super::replay::ReplayWindow;
use super::sequence::Sequence;
use super::transform::Transform;
use std::net::IpAddr;
use std::sync::Arc;
use wattline_dataplane::counters::Snapshot;
use wattline_dataplane::testing::{
    MAC_A, MAC_B, Router, fix_checksum, frame4, frame6, net, with_option,
};

/// A tunnel between 198.51.100.1 and .2, or between their IPv6 counterparts. Both ends belong to
/// the same machine here, so it may decrypt from one port what it encrypted on another.
#[derive(Clone, Copy, Debug)]
struct Options {
    algorithm: Algorithm,
    extended: bool,
    outer_ipv4: bool,
    udp: bool,
    window: u32,
    hard: Limits,
    dont_fragment: DontFragment,
    dscp: Dscp,
    mtu: u16,
    last: u64,
}

impl Options {
    const PLAIN: Self = Self {
        algorithm: Algorithm::Aes128Gcm,
        extended: false,
        outer_ipv4: true,
        udp: false,
        window: 64,
        hard: Limits { packets: u64::MAX, bytes: u64::MAX },
        dont_fragment: DontFragment::Copy,
        dscp: Dscp::Copy,
        mtu: 1500,
        last: 0,
    };

    fn ends(&self) -> (IpAddr, IpAddr) {
        let (here, there) = match self.outer_ipv4 {
            true => ("198.51.100.1", "198.51.100.2"),
            false => ("2001:db8:2::1", "2001:db8:2::2"),
        };
        (here.parse().unwrap(), there.parse().unwrap())
    }

    fn common(&self, name: &str, ends: (IpAddr, IpAddr)) -> Common {
        let key = vec![0x42; self.algorithm.key_material()];
        let key = KeyMaterial::new(self.algorithm, key).unwrap();
        let transform = Transform::new(self.algorithm, &key).unwrap();
        let udp = self.udp.then_some((4500, 4500));
        Common::new(name.into(), 0x1001, transform, self.extended, ends, udp, self.hard)
    }

    fn outbound(&self) -> Arc<Outbound> {
        let sequence = Sequence::new(self.last, self.extended);
        sequence.reserve(u64::MAX);
        Arc::new(Outbound {
            common: self.common("out", self.ends()),
            sequence,
            iv_offset: 0,
            dscp: self.dscp,
            dont_fragment: self.dont_fragment,
            mtu: self.mtu,
        })
    }

    fn inbound(&self) -> Arc<Inbound> {
        let (here, there) = self.ends();
        let prefixes =
            |source, destination| Prefixes { source: net(source), destination: net(destination) };
        Arc::new(Inbound {
            common: Arc::new(self.common("in", (there, here))),
            window: Arc::new(ReplayWindow::new(self.window, self.last)),
            selectors: vec![
                prefixes("192.0.2.0/24", "203.0.113.0/24"),
                prefixes("2001:db8:1::/64", "2001:db8:3::/48"),
            ],
        })
    }
}

fn policies(decision: Decision) -> Vec<Policy> {
    [("192.0.2.0/24", "203.0.113.0/24"), ("2001:db8:1::/64", "2001:db8:3::/48")]
        .map(|(source, destination)| Policy {
            prefixes: Prefixes { source: net(source), destination: net(destination) },
            decision,
        })
        .into()
}

/// Two gateways; port 1 of the first is connected to port 0 of the second.
struct Pair {
    near: Router,
    far: Router,
    outbound: Arc<Outbound>,
    inbound: Arc<Inbound>,
}

impl Pair {
    fn new(options: Options) -> Self {
        let (outbound, inbound) = (options.outbound(), options.inbound());
        let (near_side, far_side) = (Publisher::new(), Publisher::new());
        near_side.publish(Contents {
            outbound: vec![Some(outbound.clone())],
            policies: policies(Decision::Protect(0)),
            ..Contents::default()
        });
        far_side.publish(Contents { inbound: vec![inbound.clone()], ..Contents::default() });
        let [near, far] = [near_side, far_side]
            .map(|side| Router::with_features(crate::esp::features(&side, 1000, 50)));
        let mut pair = Self { near, far, outbound, inbound };
        for prefix in ["198.51.100.0/24", "2001:db8:2::/64"] {
            pair.near
                .routes
                .route(net(prefix), &wattline_dataplane::testing::Bench::forward(1))
                .unwrap();
        }
        pair.near.routes.publish().unwrap();
        pair
    }

    /// Frames that leave the first gateway.
    fn encrypt(&mut self, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        frames.iter().for_each(|frame| self.near.ports[0].send(frame));
        self.near.settle();
        self.near.ports[1].sent()
    }

    /// Frames that leave the second gateway after it received these from the first.
    fn decrypt(&mut self, frames: &[Vec<u8>]) -> (Vec<Vec<u8>>, Snapshot) {
        for frame in frames {
            let mut frame = frame.clone();
            if let Some(to) = frame.get_mut(..6) {
                to.copy_from_slice(&MAC_A);
            }
            self.far.ports[0].send(&frame);
        }
        let counted = self.far.settle();
        (self.far.ports[1].sent(), counted)
    }
}

/// Returns the frame after two routers.
fn hops_less(mut frame: Vec<u8>) -> Vec<u8> {
    frame[..6].copy_from_slice(&wattline_dataplane::testing::MAC_NEIGHBOUR);
    frame[6..12].copy_from_slice(&MAC_B);
    if frame[12..14] == [8, 0] {
        frame[22] -= 2;
        fix_checksum(&mut frame);
    } else {
        frame[21] -= 2;
    }
    frame
}

fn unfragmentable(mut frame: Vec<u8>) -> Vec<u8> {
    frame[20] = 0x40;
    fix_checksum(&mut frame);
    frame
}
