//! Encoders: they receive the reports of their decoders.

use super::both::{BUSY, DEAD, IDLE, key, rules, sum};
use crate::nodes::{
    EncodeCounters, EncodeNode, EncodeSection, EncodeSettings, Encoder, EncoderCache,
};
use crate::section::RedundancySettings;
use serde_json::{Value, json};
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

/// Largest number of reports read at once.
const AT_ONCE: usize = 64;
/// Buffer size in bytes; more than any report has.
const LONGEST: usize = 2048;

pub(super) struct Encoders {
    sections: Vec<Section>,
    /// Sockets by port.
    sockets: Vec<(u16, UdpSocket)>,
    packets_before: u64,
}

struct Section {
    settings: RedundancySettings,
    encode: EncodeSettings,
    cache: Arc<EncoderCache>,
    counters: Vec<Arc<EncodeCounters>>,
    /// Epoch of the decoder, and time of its last report.
    heard: Option<(u64, Instant)>,
    reports: u64,
    refused_reports: u64,
    reported_missing: u64,
    resets: u64,
}

impl Encoders {
    pub fn new(sections: &[&RedundancySettings]) -> Result<Self, RouterError> {
        let mut sockets: Vec<(u16, UdpSocket)> = Vec::new();
        for settings in sections.iter().filter(|settings| settings.feedback) {
            let port = settings.feedback_port;
            if sockets.iter().any(|(other, _)| *other == port) {
                continue;
            }
            let sharing = sections.iter().filter(|other| other.feedback_port == port);
            // A socket of IPv6 takes IPv4 too, but is not available where IPv6 is switched off.
            let six = sharing.filter_map(|other| other.peer).any(|peer| peer.is_ipv6());
            let any: IpAddr = match six {
                true => Ipv6Addr::UNSPECIFIED.into(),
                false => Ipv4Addr::UNSPECIFIED.into(),
            };
            let socket = UdpSocket::bind((any, port)).and_then(|socket| {
                socket.set_nonblocking(true)?;
                Ok(socket)
            });
            let failed = |source| {
                let what = format!("[[redundancy]] feedback_port = {port}: opening UDP port");
                RouterError::system(what, source)
            };
            sockets.push((port, socket.map_err(failed)?));
        }
        let sections = sections.iter().map(|settings| Section::new(settings)).collect();
        Ok(Self { sections, sockets, packets_before: 0 })
    }

    fn receive(&mut self, now: Instant) {
        let mut buffer = [0; LONGEST];
        for (port, socket) in &self.sockets {
            for _ in 0..AT_ONCE {
                // An error of the socket is no reason to stop forwarding.
                let Ok((length, from)) = socket.recv_from(&mut buffer) else { break };
                let from = from.ip().to_canonical();
                let bytes = buffer.get(..length).unwrap_or_default();
                let mine = |section: &&mut Section| {
                    section.settings.feedback_port == *port && section.settings.peer == Some(from)
                };
                self.sections.iter_mut().filter(mine).for_each(|it| it.hear(bytes, now));
            }
        }
    }
}

impl Section {
    fn new(settings: &RedundancySettings) -> Self {
        let encode = EncodeSettings {
            cache_bytes: settings.cache_bytes,
            selection: settings.selection,
            period: settings.period,
            stream: settings.stream,
            key: key(settings),
            bypass_entropy: settings.bypass_entropy,
        };
        let cache = Arc::new(EncoderCache::new(&encode));
        if !settings.feedback {
            cache.decoder_is_alive(u64::MAX, 0, true);
        }
        Self {
            settings: settings.clone(),
            encode,
            cache,
            counters: Vec::new(),
            heard: None,
            reports: 0,
            refused_reports: 0,
            reported_missing: 0,
            resets: 0,
        }
    }

    fn hear(&mut self, bytes: &[u8], now: Instant) {
        let feedback = match Feedback::parse(bytes, &self.encode.key) {
            Ok(feedback) if feedback.stream == self.settings.stream => feedback,
            Ok(_) => return,
            Err(_) => {
                self.refused_reports += 1;
                return;
            }
        };
        let is_new = self.heard.is_none_or(|(epoch, _)| epoch != feedback.epoch);
        if is_new {
            self.resets += 1;
            let peer = self.settings.peer.map(|peer| peer.to_string()).unwrap_or_default();
            tracing::info!("redundancy: the decoder {peer} has started with an empty cache");
        }
        self.reports += 1;
        self.reported_missing += feedback.missing.len() as u64;
        self.cache.decoder_is_alive(feedback.capacity, feedback.epoch as u16, is_new);
        feedback.missing.iter().for_each(|name| self.cache.decoder_misses(*name));
        self.heard = Some((feedback.epoch, now));
    }

    fn look_after(&mut self, now: Instant) {
        let silent = self.heard.is_some_and(|(_, at)| now.saturating_duration_since(at) > DEAD);
        if silent && self.cache.peer.is_usable() {
            let peer = self.settings.peer.map(|peer| peer.to_string()).unwrap_or_default();
            tracing::warn!(
                "redundancy: the decoder {peer} sends no reports: packets are sent unencoded"
            );
            self.cache.peer.is_gone();
        }
    }
}

impl Application for Encoders {
    fn name(&self) -> &'static str {
        "redundancy_encode"
    }

    fn features(&mut self, _worker: u16) -> Vec<Feature> {
        let nodes = Family::ALL.map(|family| {
            let sections = self.sections.iter_mut().map(|section| {
                let counters = Arc::<EncodeCounters>::default();
                section.counters.push(counters.clone());
                let encoder = Encoder::new(&section.encode, section.cache.clone());
                EncodeSection { rules: rules(&section.settings), encoder, counters }
            });
            Box::new(EncodeNode::new(family, sections.collect())) as Box<dyn Node>
        });
        let [ipv4, ipv6] = Family::ALL.map(|family| Some(EncodeNode::name_of(family)));
        vec![Feature { place: Place::Routed, ipv4, ipv6, nodes: nodes.into() }]
    }

    fn tick(&mut self, now: Instant) -> Instant {
        self.receive(now);
        self.sections.iter_mut().for_each(|section| section.look_after(now));
        let counters = self.sections.iter().flat_map(|section| &section.counters);
        let packets = counters.map(|counters| counters.packets.get()).sum();
        let busy = packets != self.packets_before;
        self.packets_before = packets;
        now + if busy { BUSY } else { IDLE }
    }

    fn stats(&self) -> Value {
        let of = |section: &Section| {
            let mut map = sum(section.counters.iter().map(|counters| counters.list()));
            let number = |name: &str| map.get(name).and_then(Value::as_u64).unwrap_or(0);
            let saved = number("in_bytes").saturating_sub(number("out_bytes"));
            map.insert("saved_bytes".to_owned(), json!(saved));
            map.insert("peer".to_owned(), json!(section.settings.peer));
            map.insert("stream".to_owned(), json!(section.settings.stream));
            map.insert("decoder_alive".to_owned(), json!(section.cache.peer.is_usable()));
            map.insert("memory_bytes".to_owned(), json!(section.cache.memory_bytes()));
            map.insert("reports".to_owned(), json!(section.reports));
            map.insert("refused_reports".to_owned(), json!(section.refused_reports));
            map.insert("reported_missing_packets".to_owned(), json!(section.reported_missing));
            map.insert("resets".to_owned(), json!(section.resets));
            Value::Object(map)
        };
        Value::Array(self.sections.iter().map(of).collect())
    }

    fn refuses_ports(&self, _: &Config) -> Option<String> {
        None
    }

    fn finish(&mut self, _: bool) {
        self.sockets.clear();
    }
}
