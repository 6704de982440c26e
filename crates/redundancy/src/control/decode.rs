//! Decoders: they report to their encoders that they are alive and which packets they miss.

use super::both::{BUSY, HELLO, IDLE, key, rules, sum};
use crate::nodes::{DecodeCounters, DecodeNode, DecodeSection, Decoder, DecoderCache};
use crate::section::RedundancySettings;
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;
use wattline_dataplane::feature::{Feature, Place};
use wattline_dataplane::graph::Node;
use wattline_packet::Family;
use wattline_packet::redundancy::Feedback;
use wattline_router::RouterError;
use wattline_router::application::Application;
use wattline_router::config::Config;

pub(super) struct Decoders {
    sections: Vec<Section>,
    packets_before: u64,
}

struct Section {
    settings: RedundancySettings,
    cache: Arc<DecoderCache>,
    counters: Vec<Arc<DecodeCounters>>,
    /// Random number of this run of the decoder.
    epoch: u64,
    /// Destination of the reports; `None` without feedback.
    report_to: Option<(UdpSocket, IpAddr)>,
    reported: Option<Instant>,
    reports: u64,
    lost_reports: u64,
}

impl Decoders {
    pub fn new(sections: &[&RedundancySettings]) -> Result<Self, RouterError> {
        let sections = sections.iter().map(|settings| Section::new(settings));
        Ok(Self { sections: sections.collect::<Result<_, _>>()?, packets_before: 0 })
    }
}

impl Section {
    fn new(settings: &RedundancySettings) -> Result<Self, RouterError> {
        // Seeded by the operating system, so it differs from the run before.
        let epoch = RandomState::new().hash_one(std::process::id());
        let open = |peer: IpAddr| {
            let any: IpAddr = match peer {
                IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let socket = UdpSocket::bind((any, 0))?;
            socket.set_nonblocking(true)?;
            Ok::<_, std::io::Error>((socket, peer))
        };
        let failed =
            |source| RouterError::system("[[redundancy]]: opening a socket for reports", source);
        let peer = settings.peer.filter(|_| settings.feedback);
        Ok(Self {
            settings: settings.clone(),
            cache: Arc::new(DecoderCache::new(settings.cache_bytes, epoch as u16)),
            counters: Vec::new(),
            epoch,
            report_to: peer.map(open).transpose().map_err(failed)?,
            reported: None,
            reports: 0,
            lost_reports: 0,
        })
    }

    fn look_after(&mut self, now: Instant) {
        let Some((socket, peer)) = &self.report_to else { return };
        let missing = self.cache.misses.fetch();
        let due = self.reported.is_none_or(|at| now.saturating_duration_since(at) >= HELLO);
        // At most one report per tick of 10 ms.
        if !due && missing.is_empty() && !self.cache.take_unknown() {
            return;
        }
        let feedback = Feedback {
            stream: self.settings.stream,
            epoch: self.epoch,
            capacity: self.cache.capacity_bytes(),
            missing,
        };
        let to = (*peer, self.settings.feedback_port);
        match socket.send_to(&feedback.write(&key(&self.settings)), to) {
            Ok(_) => self.reports += 1,
            // A lost report is harmless: the same packets will be missed again.
            Err(_) => self.lost_reports += 1,
        }
        self.reported = Some(now);
    }
}

impl Application for Decoders {
    fn name(&self) -> &'static str {
        "redundancy_decode"
    }

    fn features(&mut self, _worker: u16) -> Vec<Feature> {
        let nodes = Family::ALL.map(|family| {
            let sections = self.sections.iter_mut().map(|section| {
                let counters = Arc::<DecodeCounters>::default();
                section.counters.push(counters.clone());
                let settings = &section.settings;
                let decoder = Decoder::new(settings.stream, key(settings), section.cache.clone());
                DecodeSection { rules: rules(settings), decoder, counters }
            });
            Box::new(DecodeNode::new(family, sections.collect())) as Box<dyn Node>
        });
        let [ipv4, ipv6] = Family::ALL.map(|family| Some(DecodeNode::name_of(family)));
        vec![Feature { place: Place::Arrived, ipv4, ipv6, nodes: nodes.into() }]
    }

    fn tick(&mut self, now: Instant) -> Instant {
        self.sections.iter_mut().for_each(|section| section.look_after(now));
        let counters = self.sections.iter().flat_map(|section| &section.counters);
        let packets = counters.map(|it| it.packets.get() + it.remembered_packets.get()).sum();
        let busy = packets != self.packets_before;
        self.packets_before = packets;
        now + if busy { BUSY } else { IDLE }
    }

    fn stats(&self) -> Value {
        let of = |section: &Section| {
            let mut map = sum(section.counters.iter().map(|counters| counters.list()));
            map.insert("peer".to_owned(), json!(section.settings.peer));
            map.insert("stream".to_owned(), json!(section.settings.stream));
            map.insert("memory_bytes".to_owned(), json!(section.cache.memory_bytes()));
            map.insert("reports".to_owned(), json!(section.reports));
            map.insert("lost_reports".to_owned(), json!(section.lost_reports));
            Value::Object(map)
        };
        Value::Array(self.sections.iter().map(of).collect())
    }

    fn refuses_ports(&self, _: &Config) -> Option<String> {
        None
    }

    fn finish(&mut self, _: bool) {}
}
