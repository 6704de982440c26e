//! A decoder's side of the exchange with its encoder: it reports that it is alive, answers
//! challenges and confirms offered payloads. See `near` for the other side.

use super::common::{HELLO, random};
use crate::nodes::DecoderCache;
use std::time::Instant;
use wattline_packet::redundancy::{
    Key, LONGEST_PAYLOAD, MessageError, Offer, OfferKind, Present, Report,
};
use wattline_status::applications::OfferCounts;

/// Result of a message from an encoder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A report to be sent back.
    Report(Vec<u8>),
    /// No effect.
    Nothing,
    /// No effect, since the sender has another version of the protocol.
    OtherVersion,
}

/// State of the decoder's side.
pub(super) struct Far {
    stream: u8,
    key: Key,
    /// Random number of this run.
    epoch: u64,
    /// Counter of the last report.
    counter: u64,
    /// Token of the encoder; 0 before its first challenge.
    token: u64,
    /// Counter of the report that the last challenge answered.
    challenged: u64,
    /// Number of the last offer.
    number: u64,
    reported: Option<Instant>,
    buffer: Box<[u8]>,
    pub counts: OfferCounts,
}

impl Far {
    pub fn new(stream: u8, key: Key) -> Self {
        Self {
            stream,
            key,
            epoch: random(),
            counter: 0,
            token: 0,
            challenged: 0,
            number: 0,
            reported: None,
            buffer: vec![0; LONGEST_PAYLOAD].into(),
            counts: OfferCounts::default(),
        }
    }

    /// Returns the low bits of the epoch, as in encoded packets.
    pub fn generation(&self) -> u16 {
        self.epoch as u16
    }

    /// Processes a message that may be from the encoder.
    pub fn receive(&mut self, bytes: &[u8], cache: &DecoderCache, now: Instant) -> Outcome {
        let offer = match Offer::parse(bytes, &self.key) {
            Ok(offer) if offer.stream == self.stream => offer,
            Ok(_) => return Outcome::Nothing,
            Err(error) => {
                self.counts.refused_offers += 1;
                return match error {
                    MessageError::Version => Outcome::OtherVersion,
                    MessageError::Malformed | MessageError::Code => Outcome::Nothing,
                };
            }
        };
        let is_mine = offer.epoch == self.epoch;
        match offer.kind {
            OfferKind::Challenge { report }
                if is_mine && report > self.challenged && report <= self.counter =>
            {
                self.challenged = report;
                if self.token != offer.token {
                    (self.token, self.number) = (offer.token, 0);
                }
                Outcome::Report(self.report(0, Present::default(), cache, now))
            }
            OfferKind::Offer { number }
                if is_mine && offer.token == self.token && number > self.number =>
            {
                self.number = number;
                let mut present = Present::default();
                for (place, digest) in offer.digests.iter().enumerate() {
                    if cache.accept(*digest, &mut self.buffer) {
                        present.add(place);
                        self.counts.accepted_packets += 1;
                    }
                }
                self.counts.offered_packets += offer.digests.len() as u64;
                Outcome::Report(self.report(number, present, cache, now))
            }
            OfferKind::Challenge { .. } | OfferKind::Offer { .. } => {
                self.counts.replayed_offers += 1;
                Outcome::Nothing
            }
        }
    }

    /// Returns a report if one is due: regularly, or since something is missing.
    pub fn due(&mut self, cache: &DecoderCache, now: Instant) -> Option<Vec<u8>> {
        let is_time = self.reported.is_none_or(|at| now.saturating_duration_since(at) >= HELLO);
        let is_due = is_time || cache.take_unknown() || cache.misses.are_there();
        is_due.then(|| self.report(0, Present::default(), cache, now))
    }

    fn report(
        &mut self,
        offer: u64,
        present: Present,
        cache: &DecoderCache,
        now: Instant,
    ) -> Vec<u8> {
        self.counter += 1;
        self.counts.reports += 1;
        self.reported = Some(now);
        let Self { stream, epoch, token, counter, .. } = *self;
        let (capacity, missing) = (cache.capacity_bytes(), cache.misses.fetch());
        Report { stream, epoch, token, counter, capacity, offer, present, missing }.write(&self.key)
    }
}
