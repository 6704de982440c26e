//! Generator of the demonstration: sends the frames of a source shortly before their arrival times.

use super::frames::Frames;
use crate::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use wattline_dataplane::port::PortId;
use wattline_scale::card::Card;
use wattline_scale::clock::ModelClock;
use wattline_traffic::{Block, Source};
use wattline_units::Time;

/// Real time by which frames are sent before their arrival time. It exceeds the delays of a
/// generator on a busy machine.
const LEAD: Duration = Duration::from_millis(60);
/// Interval at which the generator sends frames.
const PACE: Duration = Duration::from_millis(10);

/// Generator that sends the frames of a source to a card.
pub(super) struct Feed {
    card: Arc<Card>,
    source: Box<dyn Source>,
    block: Block,
    /// Index in `block` of the next packet to send.
    next: usize,
    frames: Frames,
    end: Time,
    fed: FeedResult,
}

/// Results of the generator.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FeedResult {
    /// Frames that the links accepted.
    pub packets: u64,
    /// Longest real time by which a frame was sent after its arrival time.
    pub latest: Duration,
}

impl Feed {
    /// Creates a generator for the packets of a source up to `end`.
    pub fn new(card: Arc<Card>, source: Box<dyn Source>, end: Time) -> Self {
        let tables = card.tables();
        let entries = tables.first().map_or(1, |table| table.entries().len());
        let frames = Frames::new(tables.len().max(1), entries);
        Self { card, source, block: Block::new(), next: 0, frames, end, fed: FeedResult::default() }
    }

    /// Sends the frames of the first moments, before the model's clock starts.
    pub fn send_ahead(&mut self) -> Result<(), Error> {
        let standing = ModelClock::new(1);
        self.send_due(&standing).map(drop)
    }

    /// Sends until the end or until `stop` is set; returns the results.
    pub fn run(mut self, clock: &ModelClock, stop: &AtomicBool) -> Result<FeedResult, Error> {
        while !stop.load(Ordering::Acquire) && self.send_due(clock)? {
            std::thread::sleep(PACE);
        }
        Ok(self.fed)
    }

    /// Sends the frames that are due; returns false if there are no more.
    fn send_due(&mut self, clock: &ModelClock) -> Result<bool, Error> {
        loop {
            let Some(packet) = self.block.get(self.next) else {
                self.source.next_block(&mut self.block)?;
                self.next = 0;
                if self.block.is_empty() {
                    return Ok(false);
                }
                continue;
            };
            if packet.time() >= self.end {
                return Ok(false);
            }
            if clock.until(packet.time()) > LEAD {
                return Ok(true);
            }
            self.fed.latest = self.fed.latest.max(clock.since(packet.time()));
            self.next += 1;
            let (port, frame) =
                self.frames.next(packet).ok_or_else(|| wattline_testbed::Error::Data {
                    path: "traffic".into(),
                    reason: "more than 65,536 flows, the limit of this generator".to_owned(),
                })?;
            self.fed.packets +=
                u64::from(self.card.send(PortId(port as u16), packet.time(), frame));
        }
    }
}
