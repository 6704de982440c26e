//! Decoders: they report to their encoders that they are alive and which packets they miss.

use super::common::{
    AT_ONCE, BUSY, IDLE, LONGEST, LogLimit, key, rules, warn_of_version, warn_without_secret,
};
use super::far::{Far, Outcome};
use crate::nodes::{DecodeCounters, DecodeNode, DecodeSection, Decoder, DecoderCache};
use crate::section::RedundancySettings;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
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
use wattline_status::applications::{ApplicationStats, DecoderStats};

pub(super) struct Decoders {
    sections: Vec<Section>,
    packets_before: u64,
}

struct Section {
    settings: RedundancySettings,
    cache: Arc<DecoderCache>,
    counters: Vec<Arc<DecodeCounters>>,
    far: Far,
    of_version: LogLimit,
    /// Destination of the reports; `None` without feedback.
    report_to: Option<(UdpSocket, IpAddr)>,
    lost_reports: u64,
    /// Number of packets from encoders with another version.
    other_version: u64,
}

impl Decoders {
    pub fn new(sections: &[&RedundancySettings]) -> Result<Self, RouterError> {
        let sections = sections.iter().map(|settings| Section::new(settings));
        Ok(Self { sections: sections.collect::<Result<_, _>>()?, packets_before: 0 })
    }
}

impl Section {
    fn new(settings: &RedundancySettings) -> Result<Self, RouterError> {
        let far = Far::new(settings.stream, key(settings));
        warn_without_secret(settings);
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
            cache: Arc::new(match settings.feedback {
                true => DecoderCache::confirmed(settings.cache_bytes, far.generation()),
                false => DecoderCache::new(settings.cache_bytes, far.generation()),
            }),
            counters: Vec::new(),
            far,
            of_version: LogLimit::default(),
            report_to: peer.map(open).transpose().map_err(failed)?,
            lost_reports: 0,
            other_version: 0,
        })
    }

    fn stats(&self) -> DecoderStats {
        DecoderStats {
            peer: self.settings.peer,
            stream: self.settings.stream,
            authenticated: !self.settings.secret.is_empty(),
            memory_bytes: self.cache.memory_bytes(),
            lost_reports: self.lost_reports,
            counts: self.counters.iter().map(|counters| counters.map(Counter::get)).sum(),
            offers: self.far.counts,
        }
    }

    fn look_after(&mut self, now: Instant) {
        let Self { settings, cache, far, of_version, report_to, lost_reports, .. } = self;
        let counters = self.counters.iter().map(|it| it.other_version_packets.get());
        let other_version = counters.sum();
        if other_version != self.other_version {
            self.other_version = other_version;
            warn_of_version(settings.peer, of_version, now);
        }
        let Some((socket, peer)) = report_to else { return };
        let to = (*peer, settings.feedback_port);
        let mut send = |report: Vec<u8>| {
            // A lost report is harmless: packets do not refer to what it would have confirmed.
            *lost_reports += u64::from(socket.send_to(&report, to).is_err());
        };
        let mut buffer = [0; LONGEST];
        for _ in 0..AT_ONCE {
            // An error of the socket is no reason to stop forwarding.
            let Ok((length, _)) = socket.recv_from(&mut buffer) else { break };
            match far.receive(buffer.get(..length).unwrap_or_default(), cache, now) {
                Outcome::Report(report) => send(report),
                Outcome::Nothing => {}
                Outcome::OtherVersion => warn_of_version(Some(*peer), of_version, now),
            }
        }
        if let Some(report) = far.due(cache, now) {
            send(report);
        }
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

    fn stats(&self, to: &mut ApplicationStats) {
        to.redundancy_decode = Some(self.sections.iter().map(Section::stats).collect());
    }

    fn metrics(&self, to: &mut Exposition) {
        let help = "Messages to a decoder of redundancy elimination that had no effect.";
        to.family("wattline_redundancy_refused_offers_total", Kind::Counter, help);
        for section in &self.sections {
            let settings = &section.settings;
            let peer = settings.peer.map(|peer| peer.to_string()).unwrap_or_default();
            let stream = settings.stream.to_string();
            let counts = &section.far.counts;
            for (reason, count) in
                [("refused", counts.refused_offers), ("replayed", counts.replayed_offers)]
            {
                let labels = [("peer", peer.as_str()), ("stream", &stream), ("reason", reason)];
                to.sample(&labels, count as f64);
            }
        }
    }

    fn refuses_ports(&self, _: &Config) -> Option<String> {
        None
    }

    fn finish(&mut self, _: bool) {}
}
