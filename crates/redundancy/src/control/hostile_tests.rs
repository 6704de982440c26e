//! Encoder and decoder with attackers on the link, who record, replay, forge and flood.

use super::far::{self, Far};
use super::near::{self, Near};
use crate::nodes::select::{Selection, tests::noise};
use crate::nodes::{
    Decoded, Decoder, DecoderCache, EncodeSettings, Encoded, Encoder, EncoderCache,
};
use proptest::prelude::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wattline_packet::protocol::UDP;
use wattline_packet::redundancy::{
    HEADER, Header, Key, LONGEST_PAYLOAD, Offer, OfferKind, Present, Region, Report, VERSION,
};
use wattline_packet::{FromBytes, IntoBytes};

const CACHE: usize = 1 << 19;
const TICK: Duration = Duration::from_millis(5);

fn peer() -> SocketAddr {
    ([192, 0, 2, 2], 4000).into()
}

struct Ends {
    settings: EncodeSettings,
    now: Instant,
    near: Near,
    sent: Arc<EncoderCache>,
    encoder: Encoder,
    far: Far,
    received: Arc<DecoderCache>,
    decoder: Decoder,
    /// Epoch of the decoder that the encoder knows.
    started: bool,
    out: Vec<u8>,
    /// Messages that were delivered to the encoder and to the decoder, and encoded packets.
    reports: Vec<Vec<u8>>,
    offers: Vec<Vec<u8>>,
    packets: Vec<Vec<u8>>,
    encoded: usize,
    missing: usize,
}

impl Ends {
    fn new(secret: &str) -> Self {
        let settings = EncodeSettings {
            cache_bytes: CACHE,
            selection: Selection::Maxp,
            period: 32,
            stream: 5,
            key: Key::from_secret(secret),
            bypass_entropy: false,
        };
        let near = Near::new(5, settings.key);
        let sent = Arc::new(EncoderCache::confirmed(&settings));
        let far = Far::new(5, settings.key);
        let received = Arc::new(DecoderCache::confirmed(CACHE, far.generation()));
        Self {
            encoder: Encoder::new(&settings, sent.clone()),
            decoder: Decoder::new(5, settings.key, received.clone()),
            settings,
            now: Instant::now(),
            near,
            sent,
            far,
            received,
            started: false,
            out: vec![0; LONGEST_PAYLOAD],
            reports: Vec::new(),
            offers: Vec::new(),
            packets: Vec::new(),
            encoded: 0,
            missing: 0,
        }
    }

    fn restart_encoder(&mut self) {
        self.near = Near::new(5, self.settings.key);
        self.sent = Arc::new(EncoderCache::confirmed(&self.settings));
        self.encoder = Encoder::new(&self.settings, self.sent.clone());
    }

    fn restart_decoder(&mut self) {
        self.far = Far::new(5, self.settings.key);
        self.received = Arc::new(DecoderCache::confirmed(CACHE, self.far.generation()));
        self.decoder = Decoder::new(5, self.settings.key, self.received.clone());
        self.started = false;
    }

    fn deliver_report(&mut self, report: Vec<u8>) -> Option<Vec<u8>> {
        let outcome = self.near.receive(&report, peer(), &self.sent, self.now);
        self.reports.push(report);
        self.started |= outcome == near::Outcome::Start;
        match outcome {
            near::Outcome::Challenge(challenge) => Some(challenge),
            _ => None,
        }
    }

    fn deliver_offer(&mut self, offer: Vec<u8>) -> Option<Vec<u8>> {
        let outcome = self.far.receive(&offer, &self.received, self.now);
        self.offers.push(offer);
        match outcome {
            far::Outcome::Report(report) => Some(report),
            _ => None,
        }
    }

    /// Runs both control threads once; `lost` decides which messages are lost.
    fn tick(&mut self, mut lost: impl FnMut() -> bool) {
        self.now += TICK;
        let offers = self.near.offers(&self.sent, self.now).map(|(_, offers)| offers);
        let mut to_far = offers.unwrap_or_default();
        let mut to_near: Vec<_> = self.far.due(&self.received, self.now).into_iter().collect();
        while !to_far.is_empty() || !to_near.is_empty() {
            for report in std::mem::take(&mut to_near) {
                if !lost() {
                    to_far.extend(self.deliver_report(report));
                }
            }
            for offer in std::mem::take(&mut to_far) {
                if !lost() {
                    to_near.extend(self.deliver_offer(offer));
                }
            }
        }
        self.near.falls_silent(&self.sent, self.now);
    }

    fn ticks(&mut self, count: usize) {
        (0..count).for_each(|_| self.tick(|| false));
    }

    /// Sends a payload through both; returns true if it was encoded.
    fn pass(&mut self, payload: &[u8], is_lost: bool) -> bool {
        let encoded = self.encoder.encode(UDP, 0, payload, &mut self.out);
        let Encoded::Shorter { length, .. } = encoded else {
            if !is_lost {
                self.decoder.remember(UDP, payload);
            }
            return false;
        };
        self.encoded += 1;
        let packet = self.out[..length].to_vec();
        self.packets.push(packet.clone());
        if is_lost {
            return true;
        }
        match self.decoder.decode(&packet) {
            Decoded::Whole { protocol, payload: restored } => {
                assert_eq!((protocol, restored), (UDP, payload), "altered");
            }
            Decoded::Missing => {
                assert!(!self.started, "lost, though the encoder knows the decoder");
                self.decoder.report(&packet);
                self.missing += 1;
            }
            other => panic!("{other:?}"),
        }
        true
    }

    /// Returns the state of the encoder that a message could change.
    fn state(&self) -> (bool, u64, u64) {
        let counts = &self.near.counts;
        (self.sent.peer.is_usable(), counts.resets, counts.confirmed_packets)
    }

    /// Sends a message that is not from the decoder to the encoder.
    fn attack_near(&mut self, bytes: &[u8]) {
        let before = self.state();
        let outcome = self.near.receive(bytes, peer(), &self.sent, self.now);
        if let near::Outcome::Challenge(challenge) = &outcome {
            // The challenge goes to the decoder, which did not send that report now.
            let _ = self.far.receive(challenge, &self.received, self.now);
        }
        assert!(!matches!(outcome, near::Outcome::Report | near::Outcome::Start), "{outcome:?}");
        assert_eq!(self.state(), before);
    }

    fn attack_far(&mut self, bytes: &[u8]) {
        let outcome = self.far.receive(bytes, &self.received, self.now);
        assert!(!matches!(outcome, far::Outcome::Report(_)), "{outcome:?}");
    }

    fn attack_packets(&mut self, packet: &[u8]) {
        if self.decoder.decode(packet) == Decoded::Missing {
            self.decoder.report(packet);
        }
    }
}

fn payload(content: u64, own: u64) -> Vec<u8> {
    [noise(own + 1000, 40), noise(content, 700)].concat()
}

fn seen(list: &[Vec<u8>], place: usize) -> Vec<u8> {
    list.get(place % list.len().max(1)).cloned().unwrap_or_default()
}

#[derive(Debug, Clone)]
enum Event {
    Packet { content: u64, is_lost: bool },
    Tick { losses: u32 },
    Silence,
    ReplayReport(usize),
    ReplayOffer(usize),
    ReplayPacket(usize),
    Mutate { place: usize, at: usize, bits: u8, cut: bool },
    Forge { token: u64, name: u64, secret: bool },
    Flood(u64),
    RestartEncoder,
    RestartDecoder,
}

fn event() -> impl Strategy<Value = Event> {
    let any_place = any::<usize>;
    prop_oneof![
        20 => (0u64..12, prop::bool::weighted(0.1))
            .prop_map(|(content, is_lost)| Event::Packet { content, is_lost }),
        10 => prop_oneof![3 => Just(0), 1 => any::<u32>()].prop_map(|losses| Event::Tick { losses }),
        1 => Just(Event::Silence),
        3 => any_place().prop_map(Event::ReplayReport),
        3 => any_place().prop_map(Event::ReplayOffer),
        3 => any_place().prop_map(Event::ReplayPacket),
        4 => (any_place(), any_place(), 1u8.., any::<bool>())
            .prop_map(|(place, at, bits, cut)| Event::Mutate { place, at, bits, cut }),
        2 => (any::<u64>(), any::<u64>(), any::<bool>())
            .prop_map(|(token, name, secret)| Event::Forge { token, name, secret }),
        2 => any::<u64>().prop_map(Event::Flood),
        1 => Just(Event::RestartEncoder),
        1 => Just(Event::RestartDecoder),
    ]
}

fn mutated(mut bytes: Vec<u8>, at: usize, bits: u8, cut: bool) -> Vec<u8> {
    if !bytes.is_empty() {
        let at = at % bytes.len();
        bytes[at] ^= bits;
        if cut {
            bytes.truncate(at);
        }
    }
    bytes
}

fn happen(ends: &mut Ends, event: &Event, own: u64) {
    match *event {
        Event::Packet { content, is_lost } => {
            ends.pass(&payload(content, own), is_lost);
        }
        Event::Tick { mut losses } => ends.tick(|| {
            let is_lost = losses & 1 == 1;
            losses >>= 1;
            is_lost
        }),
        Event::Silence => ends.now += Duration::from_secs(2),
        Event::ReplayReport(place) => ends.attack_near(&seen(&ends.reports, place)),
        Event::ReplayOffer(place) => {
            ends.attack_far(&seen(&ends.offers, place));
            ends.attack_near(&seen(&ends.offers, place));
            ends.attack_far(&seen(&ends.reports, place));
        }
        Event::ReplayPacket(place) => ends.attack_packets(&seen(&ends.packets, place)),
        Event::Mutate { place, at, bits, cut } => {
            ends.attack_near(&mutated(seen(&ends.reports, place), at, bits, cut));
            ends.attack_far(&mutated(seen(&ends.offers, place), at, bits, cut));
            ends.attack_packets(&mutated(seen(&ends.packets, place), at, bits, cut));
        }
        // With the secret, but without having seen the token, as if without a secret.
        Event::Forge { token, name, secret } => {
            let key = if secret { ends.settings.key } else { Key::from_secret("guess") };
            let report = Report {
                stream: 5,
                epoch: name | 1,
                token,
                counter: u64::MAX,
                capacity: 1 << 40,
                offer: 1,
                present: Present::default(),
                missing: vec![name >> 16],
            };
            ends.attack_near(&report.write(&key));
            let kind = OfferKind::Offer { number: u64::MAX };
            let digests = vec![name];
            ends.attack_far(&Offer { stream: 5, epoch: name, token, kind, digests }.write(&key));
        }
        Event::Flood(seed) => {
            for number in 0..100 {
                ends.decoder.remember(UDP, &noise(seed ^ number, 1400));
            }
        }
        Event::RestartEncoder => ends.restart_encoder(),
        Event::RestartDecoder => ends.restart_decoder(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn attackers_cannot_lose_or_alter_packets(
        events in prop::collection::vec(event(), 1..200),
    ) {
        let mut ends = Ends::new("secret");
        ends.ticks(2);
        for (own, event) in events.iter().enumerate() {
            happen(&mut ends, event, own as u64);
        }
        // Without attacks, it saves again.
        ends.now += Duration::from_secs(2);
        ends.ticks(4);
        let content = noise(77, 900);
        ends.pass(&content, false);
        ends.ticks(4);
        prop_assert!(ends.pass(&content, false));
    }

    #[test]
    fn any_bytes_after_an_encoded_header_are_no_packet(mut bytes: Vec<u8>, regions in 0u8..34) {
        let mut ends = Ends::new("secret");
        if bytes.len() > 5 {
            bytes[..2].copy_from_slice(&[VERSION << 4, 5]);
            bytes[5] = regions;
        }
        let decoded = matches!(
            ends.decoder.decode(&bytes),
            Decoded::Whole { .. } | Decoded::Missing | Decoded::Damaged
        );
        prop_assert!(!decoded);
    }
}

#[test]
fn foreign_packets_do_not_flush_the_cache() {
    let mut ends = Ends::new("secret");
    ends.ticks(2);
    let payloads: Vec<_> = (0..100).map(|content| payload(content, content)).collect();
    for payload in &payloads {
        assert!(!ends.pass(payload, false));
    }
    ends.ticks(2);
    let forged = |number: u64| {
        let region = Region::new(number, 0, 1000, 0);
        let mut header = Header::read_from_bytes(&[0; HEADER]).unwrap();
        (header.version, header.stream, header.protocol, header.regions) =
            (VERSION << 4, 5, UDP, 1);
        header.sign(region.as_bytes(), &Key::from_secret("guess"));
        [header.as_bytes(), region.as_bytes()].concat()
    };
    for number in 0..4000 {
        ends.decoder.remember(UDP, &noise(number + 5000, 1400));
        assert_eq!(ends.decoder.decode(&forged(number)), Decoded::Forged);
    }
    assert!(ends.received.misses.fetch().is_empty(), "forged packets cause reports");
    for _ in 0..2 {
        // `pass` checks that each arrives as it was.
        assert!(payloads.iter().all(|payload| ends.pass(payload, false)));
        ends.ticks(2);
    }
    // The same while a packet is not confirmed yet: it is sent unencoded until then.
    let fresh = payload(500, 500);
    ends.pass(&fresh, false);
    (0..4000).for_each(|number| ends.decoder.remember(UDP, &noise(number + 9000, 1400)));
    ends.ticks(2);
    assert!(!ends.pass(&fresh, false));
}

#[test]
fn replayed_encoded_packets_do_not_flush_the_cache() {
    let mut ends = Ends::new("secret");
    ends.ticks(2);
    let payloads: Vec<_> = (0..100).map(|content| payload(content, content)).collect();
    payloads.iter().for_each(|payload| assert!(!ends.pass(payload, false)));
    ends.ticks(2);
    payloads.iter().for_each(|payload| assert!(ends.pass(payload, false)));
    for round in 0..5000 {
        ends.attack_packets(&seen(&ends.packets, round));
    }
    assert!(payloads.iter().all(|payload| ends.pass(payload, false)));
}

#[test]
fn forged_report_without_a_secret_starts_nothing() {
    let mut ends = Ends::new("");
    let present = Present::default();
    for (number, token) in [0, 1, u64::MAX].into_iter().enumerate() {
        let (epoch, counter) = (number as u64, u64::MAX);
        let missing = vec![];
        let report = Report {
            stream: 5,
            epoch,
            token,
            counter,
            capacity: 1 << 30,
            offer: 0,
            present,
            missing,
        };
        ends.attack_near(&report.write(&Key::from_secret("")));
    }
    assert!(!ends.sent.peer.is_usable());
    assert_eq!(ends.near.counts.unproven_reports, 3);
    ends.ticks(2);
    assert!(ends.sent.peer.is_usable(), "and the decoder is still accepted");
}

#[test]
fn reports_of_another_run_are_not_believed() {
    let mut ends = Ends::new("secret");
    ends.ticks(2);
    let recorded = ends.reports.clone();
    let is_usable = |ends: &Ends| ends.sent.peer.is_usable();
    assert!(is_usable(&ends));
    // The decoder dies: replays do not keep it alive.
    for _ in 0..1300 {
        ends.now += TICK;
        recorded.iter().for_each(|report| ends.attack_near(report));
        ends.near.falls_silent(&ends.sent, ends.now);
    }
    assert!(!is_usable(&ends));
    // The encoder restarts, and the decoder is still dead.
    ends.restart_encoder();
    recorded.iter().for_each(|report| ends.attack_near(report));
    assert!(!is_usable(&ends));
    // A new decoder; reports of the old one do not bring that one back.
    ends.restart_decoder();
    ends.ticks(2);
    assert!(is_usable(&ends));
    recorded.iter().for_each(|report| ends.attack_near(report));
    assert!(is_usable(&ends) && ends.near.counts.resets == 1);
}

#[test]
fn content_that_repeats_faster_than_confirmations_is_encoded() {
    let mut ends = Ends::new("secret");
    ends.ticks(2);
    let encoded = (0..20).filter(|_| {
        let is_encoded = ends.pass(&noise(3, 900), false);
        ends.tick(|| false);
        is_encoded
    });
    assert!(encoded.count() >= 17);
    let offered = ends.near.counts.offered_packets;
    assert!(offered <= 2, "repeated content is not offered again: {offered}");
}

#[test]
fn lost_packet_is_not_referred_to() {
    let mut ends = Ends::new("secret");
    ends.ticks(2);
    let content = noise(3, 900);
    ends.pass(&content, true);
    ends.ticks(2);
    assert!(!ends.pass(&content, false), "the decoder lacks it");
    ends.ticks(2);
    assert!(ends.pass(&content, false));
    // An offer whose answer is lost is given up, and the content is offered again.
    let other = noise(4, 900);
    ends.pass(&other, false);
    ends.tick(|| true);
    ends.now += Duration::from_secs(1);
    ends.ticks(1);
    assert!(!ends.pass(&other, false));
    ends.ticks(2);
    assert!(ends.pass(&other, false));
}

#[test]
fn confirmed_records_are_there_until_the_encoder_forgets_them() {
    let mut ends = Ends::new("secret");
    ends.ticks(2);
    // Several times the cache, with references to recent and old content.
    for number in 0..6000u64 {
        let content =
            if number % 3 == 0 { number } else { number.saturating_sub(number * 7 % 900) };
        ends.pass(&payload(content, number), number % 41 == 0);
        if number % 5 == 0 {
            ends.tick(|| number % 7 == 0);
        }
    }
    assert_eq!(ends.missing, 0);
    assert!(ends.encoded > 1000, "{}", ends.encoded);
}

#[test]
fn another_version_is_recognised() {
    let mut ends = Ends::new("secret");
    let mut report = ends.far.due(&ends.received, ends.now).unwrap();
    report[3] = b'1';
    let outcome = ends.near.receive(&report, peer(), &ends.sent, ends.now);
    assert_eq!(outcome, near::Outcome::OtherVersion);
    assert_eq!(ends.decoder.decode(&[0x10; 60]), Decoded::OtherVersion);
}
