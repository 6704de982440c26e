//! `ipsec`: every packet enters an ESP tunnel (`ipsec-send`) or leaves one (`ipsec-receive`). The
//! measurement covers everything from lookup to transmission.
//!
//! Lengths are those of the inner packets in both directions. The cryptography alone is measured in
//! the same run, between the repeats: [`super::crypto`].

use super::application::Application;
use super::args::{Args, Direction};
use super::crypto::{Peer, Raw};
use super::report::Cost;
use super::sealed::{HERE, SPI, Sealed, THERE};
use super::traffic::{OWN4, OWN6};
use crate::memory_router::Error;
use crate::memory_router::Traffic;
use crate::sample::median;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use wattline_dataplane::feature::Feature;
use wattline_ipsec::esp;
use wattline_ipsec::esp::algorithm::Algorithm;
use wattline_ipsec::esp::association::{Common, DontFragment, Dscp, Inbound, Limits, Outbound};
use wattline_ipsec::esp::database::{Contents, Publisher};
use wattline_ipsec::esp::key::KeyMaterial;
use wattline_ipsec::esp::policy::{Decision, Policy, Prefixes};
use wattline_ipsec::esp::replay::ReplayWindow;
use wattline_ipsec::esp::sequence::Sequence;
use wattline_ipsec::esp::transform::Transform;

/// Size of the replay window in packets, the default of configurations.
const WINDOW: u32 = 1024;

struct Ipsec {
    publisher: Publisher,
    association: Association,
    /// The far gateway's transform, to produce the received packets; taken on first use.
    far: Option<Transform>,
    raw: Raw,
    peer: Option<Peer>,
}

enum Association {
    Out(Arc<Outbound>),
    In(Arc<Inbound>),
}

impl Association {
    fn common(&self) -> &Common {
        match self {
            Self::Out(association) => &association.common,
            Self::In(association) => &association.common,
        }
    }
}

fn refused(error: &dyn std::fmt::Display) -> Error {
    Error::Table(error.to_string())
}

pub(super) fn make(args: &Args) -> Result<Vec<Box<dyn Application>>, Error> {
    let algorithm = Algorithm::named(&args.algorithm).ok_or_else(|| Error::Unknown {
        name: args.algorithm.clone(),
        known: Algorithm::ALL.map(Algorithm::name).join(", "),
    })?;
    let make = |direction: &Direction| {
        let application = Ipsec::new(algorithm, *direction, args.peer.as_deref())?;
        Ok(Box::new(application) as Box<dyn Application>)
    };
    args.directions.iter().map(make).collect()
}

fn transform(algorithm: Algorithm) -> Result<Transform, Error> {
    let key = KeyMaterial::new(algorithm, vec![0x5a; algorithm.key_material()])
        .map_err(|error| refused(&error))?;
    Transform::new(algorithm, &key).map_err(|error| refused(&error))
}

impl Ipsec {
    fn new(algorithm: Algorithm, direction: Direction, peer: Option<&Path>) -> Result<Self, Error> {
        // All packets of a workload have their sources in these prefixes (see `traffic`). A policy
        // for all sources would also apply to received packets and refuse them.
        let one_way = [(OWN4, IpNet::from(Ipv4Net::default())), (OWN6, Ipv6Net::default().into())]
            .map(|(source, destination)| Prefixes { source, destination });
        let ends: (IpAddr, IpAddr) = (HERE.into(), THERE.into());
        let limits = Limits::default();
        let common =
            Common::new("bench".into(), SPI, transform(algorithm)?, true, ends, None, limits);
        let publisher = Publisher::new();
        let association = match direction {
            Direction::Send => {
                let sequence = Sequence::new(0, true);
                sequence.reserve(u64::MAX);
                let outbound = Arc::new(Outbound {
                    common,
                    sequence,
                    iv_offset: 0,
                    dscp: Dscp::Copy,
                    dont_fragment: DontFragment::Copy,
                    mtu: u16::MAX,
                });
                let decision = Decision::Protect(0);
                let policy = |prefixes| Policy { prefixes, decision };
                publisher.publish(Contents {
                    outbound: vec![Some(outbound.clone())],
                    policies: one_way.map(policy).to_vec(),
                    ..Contents::default()
                });
                Association::Out(outbound)
            }
            Direction::Receive => {
                let window = ReplayWindow::new(WINDOW, 0);
                let (common, window) = (Arc::new(common), Arc::new(window));
                let inbound = Arc::new(Inbound { common, window, selectors: one_way.to_vec() });
                let contents = Contents { inbound: vec![inbound.clone()], ..Contents::default() };
                publisher.publish(contents);
                Association::In(inbound)
            }
        };
        let far = Some(transform(algorithm)?);
        let raw = Raw::new(transform(algorithm)?, direction);
        let peer = peer.map(|program| Peer::start(program, algorithm, direction)).transpose()?;
        Ok(Self { publisher, association, far, raw, peer })
    }
}

impl Application for Ipsec {
    fn name(&self) -> &'static str {
        match self.association {
            Association::Out(_) => "ipsec-send",
            Association::In(_) => "ipsec-receive",
        }
    }

    fn features(&mut self) -> Vec<Feature> {
        esp::features(&self.publisher, 1000, 50)
    }

    fn traffic(&mut self, packets: Box<dyn Traffic>) -> Box<dyn Traffic> {
        match (&self.association, self.far.take()) {
            (Association::In(_), Some(far)) => Box::new(Sealed::new(packets, far)),
            _ => packets,
        }
    }

    fn settle(&mut self) -> Result<(), Error> {
        let counters = &self.association.common().counters;
        let bytes = (counters.bytes() / counters.packets().max(1)) as usize;
        self.raw.time(bytes);
        self.peer.as_mut().map_or(Ok(()), |peer| peer.time(bytes))
    }

    fn counted(&self, cost: &Cost) -> serde_json::Value {
        let common = self.association.common();
        let counters = &common.counters;
        let dropped: u64 = counters.dropped().map(|(_, count)| count).sum();
        let raw = median(&mut self.raw.nanoseconds.clone());
        let mut counted = serde_json::json!({
            "algorithm": common.transform.algorithm().name(),
            "cryptography": esp::crypt::library(),
            "packets": counters.packets(),
            "bytes": counters.bytes(),
            "dropped": dropped,
            "cryptography_alone_nanoseconds_per_packet": raw,
        });
        if let Some(peer) = &self.peer {
            counted["peer"] = peer.version.clone().into();
            let nanoseconds = Some(median(&mut peer.nanoseconds.clone())).filter(|it| *it > 0.0);
            counted["peer_cryptography_alone_nanoseconds_per_packet"] = nanoseconds.into();
            // Our rate, relative to the rate of the peer's cryptography alone.
            let of_peer = |ours: f64| nanoseconds.filter(|_| ours > 0.0).map(|it| it / ours);
            counted["cryptography_alone_to_peer_ratio"] = of_peer(raw).into();
            counted["gateway_to_peer_cryptography_ratio"] =
                of_peer(cost.nanoseconds_per_packet).into();
        }
        counted
    }
}
