//! Encoders: they receive the reports of their decoders.

use super::common::{
    AT_ONCE, BUSY, IDLE, LONGEST, LogLimit, key, rules, warn_of_version, warn_without_secret,
};
use super::near::{Near, Outcome};
use crate::nodes::{
    EncodeCounters, EncodeNode, EncodeSection, EncodeSettings, Encoder, EncoderCache,
};
use crate::section::RedundancySettings;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Instant;
use wattline_daemon::metrics::{Exposition, Kind};
use wattline_dataplane::counters::Counter;
use wattline_dataplane::feature::{Feature, Place};
use wattline_dataplane::graph::Node;
use wattline_packet::Family;
use wattline_router::RouterError;
use wattline_router::application::Application;
use wattline_router::config::Config;
use wattline_status::applications::{ApplicationStats, EncodeCounts, EncoderStats};

pub(super) struct Encoders {
    sections: Vec<Section>,
    /// Sockets and their ports.
    sockets: Vec<(u16, UdpSocket)>,
    packets_before: u64,
}

struct Section {
    settings: RedundancySettings,
    encode: EncodeSettings,
    cache: Arc<EncoderCache>,
    counters: Vec<Arc<EncodeCounters>>,
    near: Near,
    of_version: LogLimit,
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
            // An IPv6 socket also accepts IPv4, but is unavailable if IPv6 is switched off.
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
                let peer = from.ip().to_canonical();
                let bytes = buffer.get(..length).unwrap_or_default();
                let mine = |section: &&mut Section| {
                    section.settings.feedback_port == *port && section.settings.peer == Some(peer)
                };
                let mine = self.sections.iter_mut().filter(mine);
                mine.for_each(|it| it.receive(bytes, from, socket, now));
            }
        }
    }

    fn offer(&mut self, now: Instant) {
        for section in self.sections.iter_mut().filter(|section| section.settings.feedback) {
            let port = section.settings.feedback_port;
            let Some((_, socket)) = self.sockets.iter().find(|(own, _)| *own == port) else {
                continue;
            };
            let Some((to, offers)) = section.near.offers(&section.cache, now) else { continue };
            for offer in offers {
                // A lost offer is harmless: packets do not refer to its payloads.
                let _ = socket.send_to(&offer, to);
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
        let cache = Arc::new(match settings.feedback {
            true => EncoderCache::confirmed(&encode),
            false => EncoderCache::new(&encode),
        });
        if !settings.feedback {
            cache.decoder_is_alive(u64::MAX, 0, true);
        }
        warn_without_secret(settings);
        Self {
            settings: settings.clone(),
            near: Near::new(settings.stream, encode.key),
            encode,
            cache,
            counters: Vec::new(),
            of_version: LogLimit::default(),
        }
    }

    fn receive(&mut self, bytes: &[u8], from: SocketAddr, socket: &UdpSocket, now: Instant) {
        match self.near.receive(bytes, from, &self.cache, now) {
            Outcome::Report | Outcome::Nothing => {}
            Outcome::Start => {
                let peer = self.peer();
                tracing::info!("redundancy: the decoder {peer} has started with an empty cache");
            }
            Outcome::Challenge(bytes) => {
                // If it is lost, the next report is answered by another.
                let _ = socket.send_to(&bytes, from);
            }
            Outcome::OtherVersion => {
                warn_of_version(self.settings.peer, &mut self.of_version, now);
            }
        }
    }

    fn peer(&self) -> String {
        self.settings.peer.map(|peer| peer.to_string()).unwrap_or_default()
    }

    fn stats(&self) -> EncoderStats {
        let counts = self.counters.iter().map(|counters| counters.map(Counter::get));
        let counts: EncodeCounts = counts.sum();
        EncoderStats {
            peer: self.settings.peer,
            stream: self.settings.stream,
            decoder_alive: self.cache.peer.is_usable(),
            authenticated: !self.settings.secret.is_empty(),
            memory_bytes: self.cache.memory_bytes(),
            saved_bytes: counts.in_bytes.saturating_sub(counts.out_bytes),
            counts,
            reports: self.near.counts,
        }
    }

    fn look_after(&mut self, now: Instant) {
        if self.near.falls_silent(&self.cache, now) {
            let peer = self.peer();
            tracing::warn!(
                "redundancy: the decoder {peer} sends no reports: packets are sent unencoded"
            );
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
        self.offer(now);
        self.sections.iter_mut().for_each(|section| section.look_after(now));
        let counters = self.sections.iter().flat_map(|section| &section.counters);
        let packets = counters.map(|counters| counters.packets.get()).sum();
        let busy = packets != self.packets_before;
        self.packets_before = packets;
        now + if busy { BUSY } else { IDLE }
    }

    fn stats(&self, to: &mut ApplicationStats) {
        to.redundancy_encode = Some(self.sections.iter().map(Section::stats).collect());
    }

    fn metrics(&self, to: &mut Exposition) {
        let help = "Reports to an encoder of redundancy elimination that had no effect.";
        to.family("wattline_redundancy_refused_reports_total", Kind::Counter, help);
        for section in &self.sections {
            let (peer, stream) = (section.peer(), section.settings.stream.to_string());
            let counts = &section.near.counts;
            for (reason, count) in [
                ("refused", counts.refused_reports),
                ("replayed", counts.replayed_reports),
                ("unproven", counts.unproven_reports),
            ] {
                let labels = [("peer", peer.as_str()), ("stream", &stream), ("reason", reason)];
                to.sample(&labels, count as f64);
            }
        }
    }

    fn refuses_ports(&self, _: &Config) -> Option<String> {
        None
    }

    fn finish(&mut self, _: bool) {
        self.sockets.clear();
    }
}
