//! An encoder's side of the exchange with its decoder: acceptance of reports, and the payloads that
//! the decoder has confirmed.
//!
//! Neither side stores anything. Each start of a decoder has a random *epoch*. The encoder answers
//! a report of an unknown epoch with a *challenge*, which contains a random *token*, and accepts
//! reports with the token. Reports from before the challenge do not have it. Reports of an epoch
//! are counted, so none is accepted twice. See `far` for the other side.

use super::common::{DEAD, random};
use crate::nodes::EncoderCache;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wattline_packet::redundancy::{
    Key, MOST_OFFERED, MessageError, Offer, OfferKind, Present, Report,
};
use wattline_status::applications::ReportCounts;

/// Largest number of offers per tick; each has up to [`MOST_OFFERED`] payloads.
const OFFERS_AT_ONCE: usize = 64;
/// Time after which an offer counts as lost.
const LATE: Duration = Duration::from_secs(1);

/// Result of a message from a decoder.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The report is accepted.
    Report,
    /// The report is accepted, and it is the first of a new epoch.
    Start,
    /// A challenge to be sent back, since the report proves nothing yet.
    Challenge(Vec<u8>),
    /// No effect.
    Nothing,
    /// No effect, since the sender has another version of the protocol.
    OtherVersion,
}

/// State of the encoder's side.
pub(super) struct Near {
    stream: u8,
    key: Key,
    /// Token for the next epoch.
    token: u64,
    session: Option<Session>,
    pub counts: ReportCounts,
}

struct Session {
    epoch: u64,
    token: u64,
    /// Counter of the last report.
    counter: u64,
    /// Source of the last report.
    from: SocketAddr,
    outcome: Instant,
    /// Number of the last offer.
    number: u64,
    open: VecDeque<OpenOffer>,
}

/// An offer without an answer.
struct OpenOffer {
    number: u64,
    sent: Instant,
    /// Positions in the cache.
    positions: Vec<u64>,
}

impl OpenOffer {
    fn answer(&self, present: Present, cache: &EncoderCache) -> u64 {
        let answers = self.positions.iter().enumerate();
        answers
            .map(|(place, at)| {
                cache.answered(*at, present.has(place));
                u64::from(present.has(place))
            })
            .sum()
    }
}

impl Near {
    pub fn new(stream: u8, key: Key) -> Self {
        Self { stream, key, token: random(), session: None, counts: ReportCounts::default() }
    }

    /// Processes a message from the decoder's address.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        from: SocketAddr,
        cache: &EncoderCache,
        now: Instant,
    ) -> Outcome {
        let report = match Report::parse(bytes, &self.key) {
            Ok(report) if report.stream == self.stream => report,
            Ok(_) => return Outcome::Nothing,
            Err(error) => {
                self.counts.refused_reports += 1;
                return match error {
                    MessageError::Version => Outcome::OtherVersion,
                    MessageError::Malformed | MessageError::Code => Outcome::Nothing,
                };
            }
        };
        let is_known = |it: &&mut Session| (it.epoch, it.token) == (report.epoch, report.token);
        let outcome = if let Some(session) = self.session.as_mut().filter(is_known) {
            if report.counter <= session.counter {
                self.counts.replayed_reports += 1;
                return Outcome::Nothing;
            }
            (session.counter, session.from, session.outcome) = (report.counter, from, now);
            Outcome::Report
        } else if self.is_old(&report) {
            self.counts.replayed_reports += 1;
            return Outcome::Nothing;
        } else if report.token == self.token {
            self.begin(&report, from, now);
            Outcome::Start
        } else {
            self.counts.unproven_reports += 1;
            return Outcome::Challenge(self.challenge(&report));
        };
        self.counts.reports += 1;
        self.counts.reported_missing_packets += report.missing.len() as u64;
        cache.decoder_is_alive(report.capacity, report.epoch as u16, outcome == Outcome::Start);
        report.missing.iter().for_each(|name| cache.decoder_misses(*name));
        self.close(report.offer, report.present, cache);
        outcome
    }

    /// Returns true for a report of the present epoch that is older than its last one, whatever its
    /// token.
    fn is_old(&self, report: &Report) -> bool {
        let mut session = self.session.iter();
        session.any(|it| it.epoch == report.epoch && report.counter <= it.counter)
    }

    fn begin(&mut self, report: &Report, from: SocketAddr, now: Instant) {
        self.session = Some(Session {
            epoch: report.epoch,
            token: report.token,
            counter: report.counter,
            from,
            outcome: now,
            number: 0,
            open: VecDeque::new(),
        });
        self.token = random();
        self.counts.resets += 1;
    }

    fn challenge(&self, report: &Report) -> Vec<u8> {
        let kind = OfferKind::Challenge { report: report.counter };
        let (stream, epoch, token) = (self.stream, report.epoch, self.token);
        Offer { stream, epoch, token, kind, digests: Vec::new() }.write(&self.key)
    }

    fn close(&mut self, number: u64, present: Present, cache: &EncoderCache) {
        let Some(session) = &mut self.session else { return };
        if let Ok(place) = session.open.binary_search_by_key(&number, |offer| offer.number)
            && let Some(offer) = session.open.remove(place)
        {
            self.counts.confirmed_packets += offer.answer(present, cache);
        }
    }

    /// Returns true if the decoder was alive and has been silent for too long.
    pub fn falls_silent(&self, cache: &EncoderCache, now: Instant) -> bool {
        let silent = |it: &Session| now.saturating_duration_since(it.outcome) > DEAD;
        let is_silent = self.session.as_ref().is_some_and(silent) && cache.peer.is_usable();
        if is_silent {
            cache.peer.is_gone();
        }
        is_silent
    }

    /// Returns the offers that are due, and their destination.
    pub fn offers(
        &mut self,
        cache: &EncoderCache,
        now: Instant,
    ) -> Option<(SocketAddr, Vec<Vec<u8>>)> {
        let session = self.session.as_mut()?;
        let is_late = |it: &OpenOffer| now.saturating_duration_since(it.sent) >= LATE;
        while session.open.front().is_some_and(is_late) {
            if let Some(lost) = session.open.pop_front() {
                lost.answer(Present::default(), cache);
            }
        }
        let offered = cache.take_offers(OFFERS_AT_ONCE * MOST_OFFERED);
        self.counts.offered_packets += offered.len() as u64;
        let mut messages = Vec::new();
        for part in offered.chunks(MOST_OFFERED) {
            session.number += 1;
            let number = session.number;
            let offer = Offer {
                stream: self.stream,
                epoch: session.epoch,
                token: session.token,
                kind: OfferKind::Offer { number },
                digests: part.iter().map(|it| it.digest).collect(),
            };
            messages.push(offer.write(&self.key));
            let positions = part.iter().map(|it| it.at).collect();
            session.open.push_back(OpenOffer { number, sent: now, positions });
        }
        Some((session.from, messages))
    }
}
