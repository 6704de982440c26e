//! Encoder and decoder with a bad link between them: whatever happens to packets on the link, the
//! output equals the input or is empty.

use super::decode::{Decoded, Decoder, DecoderCache};
use super::encode::{EncodeSettings, Encoded, Encoder, EncoderCache};
use super::rules::SHORTEST_PAYLOAD;
use super::select::Selection;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use wattline_packet::protocol::UDP;
use wattline_packet::redundancy::{HEADER, Key, LONGEST_PAYLOAD, REGION, VERSION};

/// A payload on the wire, and the original.
#[derive(Clone)]
struct Wire {
    encoded: bool,
    protocol: u8,
    bytes: Vec<u8>,
    original: Vec<u8>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    plain: usize,
    whole: usize,
    missing: usize,
    damaged: usize,
    bytes_in: usize,
    bytes_out: usize,
}

pub(super) struct Link {
    settings: EncodeSettings,
    near: Arc<EncoderCache>,
    encoder: Encoder,
    far: Arc<DecoderCache>,
    decoder: Decoder,
    lives: u16,
    cache_bytes: usize,
    out: Vec<u8>,
    tally: Tally,
}

pub(super) fn settings(selection: Selection, cache_bytes: usize) -> EncodeSettings {
    let key = Key::from_secret("test");
    EncodeSettings { cache_bytes, selection, period: 32, stream: 5, key, bypass_entropy: false }
}

impl Link {
    pub(super) fn new(settings: EncodeSettings, decoder_bytes: usize) -> Self {
        let near = Arc::new(EncoderCache::new(&settings));
        let far = Arc::new(DecoderCache::new(decoder_bytes, 1));
        let mut link = Self {
            encoder: Encoder::new(&settings, near.clone()),
            decoder: Decoder::new(settings.stream, settings.key, far.clone()),
            settings,
            near,
            far,
            lives: 1,
            cache_bytes: decoder_bytes,
            out: vec![0; LONGEST_PAYLOAD],
            tally: Tally::default(),
        };
        link.announce_decoder(true);
        link
    }

    fn announce_decoder(&mut self, is_new: bool) {
        self.near.decoder_is_alive(self.far.capacity_bytes(), self.lives, is_new);
    }

    /// The decoder loses its cache, before the encoder knows.
    fn restart_decoder(&mut self) {
        self.lives += 1;
        self.far = Arc::new(DecoderCache::new(self.cache_bytes, self.lives));
        self.decoder = Decoder::new(self.settings.stream, self.settings.key, self.far.clone());
    }

    fn restart_encoder(&mut self) {
        self.near = Arc::new(EncoderCache::new(&self.settings));
        self.encoder = Encoder::new(&self.settings, self.near.clone());
    }

    /// Reports the missed packets to the encoder.
    fn feed_back(&mut self) {
        let is_new = self.far.take_unknown();
        self.announce_decoder(is_new);
        for name in self.far.misses.fetch() {
            self.near.decoder_misses(name);
        }
    }

    fn send(&mut self, protocol: u8, payload: &[u8]) -> Wire {
        self.tally.bytes_in += payload.len();
        let mut wire =
            Wire { encoded: false, protocol, bytes: payload.to_vec(), original: payload.to_vec() };
        if (SHORTEST_PAYLOAD..=LONGEST_PAYLOAD).contains(&payload.len())
            && let Encoded::Shorter { length, .. } =
                self.encoder.encode(protocol, 0, payload, &mut self.out)
        {
            assert!(length < payload.len() && length >= HEADER + REGION);
            wire = Wire { encoded: true, bytes: self.out[..length].to_vec(), ..wire };
        }
        self.tally.bytes_out += wire.bytes.len();
        wire
    }

    /// False if the payload was not restored.
    fn receive(&mut self, wire: &Wire) -> bool {
        if !wire.encoded {
            if (SHORTEST_PAYLOAD..=LONGEST_PAYLOAD).contains(&wire.bytes.len()) {
                self.decoder.remember(wire.protocol, &wire.bytes);
            }
            self.tally.plain += 1;
            return true;
        }
        let result = match self.decoder.decode(&wire.bytes) {
            Decoded::Whole { protocol, payload } => {
                assert_eq!(protocol, wire.protocol, "a wrong protocol was delivered");
                assert_eq!(payload, wire.original, "a wrong byte was delivered");
                self.tally.whole += 1;
                return true;
            }
            other => other,
        };
        match result {
            Decoded::Missing => {
                self.tally.missing += 1;
                self.decoder.report(&wire.bytes);
            }
            _ => self.tally.damaged += 1,
        }
        false
    }

    /// Sends and receives at once; returns the lengths before and after.
    pub(super) fn pass(&mut self, protocol: u8, payload: &[u8]) -> usize {
        let wire = self.send(protocol, payload);
        assert!(self.receive(&wire), "lost on a good link");
        wire.bytes.len()
    }
}

/// Returns a payload like real traffic: a header, then pieces of repeated content.
fn payload() -> impl Strategy<Value = Vec<u8>> {
    let piece = (0u64..12, 0usize..900, 10usize..700).prop_map(|(content, from, length)| {
        let content = super::select::tests::noise(content, 1600);
        content[from..from + length].to_vec()
    });
    let own = prop::collection::vec(any::<u8>(), 0..60);
    (own, prop::collection::vec(piece, 0..4)).prop_map(|(own, pieces)| {
        let mut bytes = own;
        pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
        bytes
    })
}

/// Events on the link.
#[derive(Debug, Clone)]
enum Event {
    Packet(Vec<u8>),
    Deliver,
    DeliverOutOfOrder(usize),
    Lose,
    Duplicate,
    Damage(usize, u8),
    Cut(usize),
    FeedBack,
    RestartDecoder,
    RestartEncoder,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        30 => payload().prop_map(Event::Packet),
        30 => Just(Event::Deliver),
        3 => any::<usize>().prop_map(Event::DeliverOutOfOrder),
        3 => Just(Event::Lose),
        2 => Just(Event::Duplicate),
        4 => (any::<usize>(), 1u8..).prop_map(|(at, bits)| Event::Damage(at, bits)),
        1 => any::<usize>().prop_map(Event::Cut),
        4 => Just(Event::FeedBack),
        1 => Just(Event::RestartDecoder),
        1 => Just(Event::RestartEncoder),
    ]
}

fn run(link: &mut Link, events: Vec<Event>) {
    let mut way: VecDeque<Wire> = VecDeque::new();
    for event in events {
        match event {
            Event::Packet(payload) => way.push_back(link.send(UDP, &payload)),
            Event::Deliver => {
                if let Some(wire) = way.pop_front() {
                    link.receive(&wire);
                }
            }
            Event::DeliverOutOfOrder(at) => {
                if let Some(wire) = way.remove(at % way.len().max(1)) {
                    link.receive(&wire);
                }
            }
            Event::Lose => drop(way.pop_front()),
            Event::Duplicate => way.extend(way.front().cloned()),
            Event::Damage(at, bits) => {
                if let Some(wire) = way.front_mut()
                    && !wire.bytes.is_empty()
                {
                    let at = at % wire.bytes.len();
                    wire.bytes[at] ^= bits;
                }
            }
            Event::Cut(at) => {
                if let Some(wire) = way.front_mut() {
                    wire.bytes.truncate(at % (wire.bytes.len() + 1));
                }
            }
            Event::FeedBack => link.feed_back(),
            Event::RestartDecoder => link.restart_decoder(),
            Event::RestartEncoder => link.restart_encoder(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Damaged fields that do not matter (generation, name aliases) may still decode, but only to
    /// the right bytes. `receive` compares each payload.
    #[test]
    fn nothing_wrong_ever_comes_out(
        events in prop::collection::vec(event(), 1..300),
        which in 0usize..3,
        small in any::<bool>(),
    ) {
        // The decoder's cache is as large as the encoder's, or a tenth of it.
        let cache = 1 << 18;
        let mut link =
            Link::new(settings(Selection::ALL[which], cache), if small { cache / 10 } else { cache });
        run(&mut link, events);
        // Afterwards it works again.
        link.feed_back();
        let content = super::select::tests::noise(99, 1400);
        for round in 0..3 {
            let wire = link.send(UDP, &content);
            link.receive(&wire);
            link.feed_back();
            prop_assert!(round < 2 || wire.encoded);
        }
    }

    #[test]
    fn any_bytes_are_taken_for_an_encoded_packet(mut bytes: Vec<u8>, regions in 0u8..34) {
        let mut link = Link::new(settings(Selection::Maxp, 1 << 16), 1 << 16);
        if bytes.len() > 5 {
            bytes[..2].copy_from_slice(&[VERSION << 4, 5]);
            bytes[5] = regions;
        }
        let decoded = matches!(link.decoder.decode(&bytes), Decoded::Whole { .. });
        prop_assert!(!decoded);
        link.decoder.report(&bytes);
    }
}

#[test]
fn a_good_link_loses_nothing_and_a_bad_one_recovers() {
    for selection in Selection::ALL {
        let mut link = Link::new(settings(selection, 1 << 20), 1 << 20);
        let packets: Vec<Vec<u8>> = (0..200)
            .map(|number| {
                let own = super::select::tests::noise(number + 1000, 40);
                [own, super::select::tests::noise(number % 20, 1360)].concat()
            })
            .collect();
        for packet in &packets {
            link.pass(UDP, packet);
        }
        assert_eq!((link.tally.missing, link.tally.damaged, link.tally.plain), (0, 0, 20));
        // The decoder loses its cache: after one miss, the encoder knows.
        link.restart_decoder();
        let wire = link.send(UDP, &packets[0]);
        assert!(wire.encoded && !link.receive(&wire));
        link.feed_back();
        for packet in &packets {
            link.pass(UDP, packet);
        }
    }
}

#[test]
fn a_lost_packet_is_not_referred_to_after_feedback() {
    let mut link = Link::new(settings(Selection::Maxp, 1 << 20), 1 << 20);
    let content = super::select::tests::noise(1, 1000);
    let _lost = link.send(UDP, &content);
    let wire = link.send(UDP, &content);
    assert!(wire.encoded && !link.receive(&wire));
    link.feed_back();
    assert_eq!(link.pass(UDP, &content), content.len());
    assert!(link.pass(UDP, &content) < 100);
}

#[test]
fn a_tcp_segment_sent_again_is_not_referred_to_its_lost_self() {
    let mut link = Link::new(settings(Selection::Maxp, 1 << 20), 1 << 20);
    let mut segment = super::select::tests::noise(1, 1000);
    let _lost = link.send(6, &segment);
    segment[8..12].fill(9); // Another acknowledgement number.
    assert_eq!(link.pass(6, &segment), 1000);
    assert_eq!(link.encoder.take_retransmissions(), 1);
    segment[4..8].fill(9); // Another sequence number: the same content again.
    assert!(link.pass(6, &segment) < 100);
}

#[test]
fn without_a_decoder_everything_is_sent_as_it_is() {
    let mut link = Link::new(settings(Selection::Maxp, 1 << 20), 1 << 20);
    let content = super::select::tests::noise(1, 1000);
    link.pass(UDP, &content);
    link.near.peer.is_gone();
    assert!(!link.near.peer.is_usable());
    assert_eq!(link.pass(UDP, &content), 1000);
    link.announce_decoder(false);
    assert!(link.pass(UDP, &content) < 100);
}

#[test]
fn packets_that_a_small_decoder_forgot_are_not_referred_to() {
    let mut link = Link::new(settings(Selection::Maxp, 1 << 22), 1 << 18);
    let packets: Vec<_> = (0..2000).map(|it| super::select::tests::noise(it % 700, 1400)).collect();
    for packet in &packets {
        link.pass(UDP, packet);
    }
    assert_eq!((link.tally.missing, link.tally.whole), (0, 0));
    let repeated: Vec<_> = (0..100).map(|it| super::select::tests::noise(it % 50, 1400)).collect();
    for packet in &repeated {
        link.pass(UDP, packet);
    }
    assert_eq!((link.tally.missing, link.tally.whole), (0, 50));
}

#[test]
fn workers_on_both_sides_share_their_caches() {
    let settings = settings(Selection::Maxp, 1 << 20);
    let near = Arc::new(EncoderCache::new(&settings));
    let far = Arc::new(DecoderCache::new(1 << 20, 1));
    near.decoder_is_alive(far.capacity_bytes(), 1, true);
    let mut encoders = [0, 1].map(|_| Encoder::new(&settings, near.clone()));
    let mut decoders = [0, 1].map(|_| Decoder::new(5, settings.key, far.clone()));
    let mut out = vec![0; 2000];
    let mut saved = 0;
    for number in 0..400usize {
        let payload = super::select::tests::noise(number as u64 / 4, 1400);
        // Flows move: any worker encodes, any other decodes.
        let decoder = &mut decoders[number / 2 % 2];
        match encoders[number % 2].encode(UDP, 0, &payload, &mut out) {
            Encoded::Shorter { length, .. } => {
                let expected = Decoded::Whole { protocol: UDP, payload: &payload };
                assert_eq!(decoder.decode(&out[..length]), expected);
                saved += 1;
            }
            _ => decoder.remember(UDP, &payload),
        }
    }
    assert_eq!(saved, 300);
}
