//! One capture or trace in one worker.

use super::filter::Filter;
use super::forwarded::{End, Forwarded};
use super::record::{Event, Kind, Records, size, write};
use crate::frame::Frame;
use crate::packet::Packet;
use crate::token_bucket::TokenBucket;
use rtrb::{Producer, RingBuffer};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wattline_units::Time;

/// Bytes of the ring between a worker and the reader.
const RING: usize = 4 << 20;
/// Bytes of the ring that new packets leave free, so that events of the followed packets can still
/// be recorded. A batch of the longest frames takes less.
const RESERVE: usize = 1 << 20;

/// Number of a packet that matches but is not followed, because of the rate or a full ring.
const SKIPPED: u32 = u32::MAX;

/// Selection of packets and details for a tap.
#[derive(Debug, Clone)]
pub struct TapOptions {
    /// Filter of the packets.
    pub filter: Filter,
    /// True for a trace: each node that a packet passes is recorded. Otherwise only received and
    /// sent bytes are, and the fate of the packet (a capture).
    pub nodes: bool,
    /// Most bytes of a frame that are recorded.
    pub snap: u16,
    /// Most packets that are followed per second; packets beyond it count as missed.
    pub rate: u32,
}

/// Counters of a tap.
#[derive(Debug, Default)]
pub struct TapCounters {
    /// Packets that match the filter.
    pub matched: AtomicU64,
    /// Matched packets that were not recorded: beyond the rate, or the reader was too slow.
    pub missed: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub struct Tap {
    options: TapOptions,
    ring: Producer<u8>,
    bucket: TokenBucket,
    counters: Arc<TapCounters>,
    /// Number of the followed packet in each chunk of memory, or 0.
    packets: Vec<u32>,
    last: u32,
    /// True if something was recorded since the last [`Kind::Round`].
    noted: bool,
}

/// Time of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moment {
    /// Time of the worker.
    pub now: Time,
    /// Nanoseconds since 1970.
    pub wall_nanos: u64,
}

/// Fate of the packets that do not leave a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The packets are freed.
    Drop,
    /// They are handed to the kernel.
    Punt,
    /// They are queued for transmission.
    Output,
    /// They are kept for a while.
    Holds,
    /// They become something else.
    Other,
}

impl Role {
    /// Returns the role of a node, by its name.
    pub fn from_name(node: &str) -> Self {
        match node {
            "drop" => Self::Drop,
            "punt" => Self::Punt,
            "output" => Self::Output,
            "neighbour-hold" => Self::Holds,
            _ => Self::Other,
        }
    }
}

impl Tap {
    /// Makes a tap for a worker with this many chunks of memory. Returns its reader and its
    /// counters as well.
    pub fn new(options: TapOptions, chunks: u32) -> (Self, Records, Arc<TapCounters>) {
        let (ring, reader) = RingBuffer::new(RING);
        let counters = Arc::new(TapCounters::default());
        let tap = Self {
            // The burst is a tenth of a second's packets.
            bucket: TokenBucket::new(options.rate, (options.rate / 10).max(1)),
            options,
            ring,
            counters: counters.clone(),
            packets: vec![0; chunks as usize],
            last: 0,
            noted: false,
        };
        (tap, Records::new(reader), counters)
    }

    /// Records that a port received a frame into a chunk.
    pub(super) fn received(&mut self, moment: Moment, chunk: usize, frame: &Frame, bytes: &[u8]) {
        self.begin(moment, Kind::Received, chunk, End::whole(frame.port_in.0, bytes));
    }

    /// Records that a node sends a packet from outside its batch: a new one, or one that it held.
    pub(super) fn spawned(
        &mut self,
        moment: Moment,
        node: u8,
        chunk: usize,
        frame: &Frame,
        bytes: &[u8],
    ) {
        if self.packet(chunk) == 0 {
            self.begin(moment, Kind::Made(node), chunk, End::whole(frame.port_in.0, bytes));
        }
    }

    /// Follows the packet in a chunk from here, if it matches the filter.
    fn begin(&mut self, moment: Moment, kind: Kind, chunk: usize, end: End<'_>) {
        let End { port, length, bytes } = end;
        let number = match self.options.filter.matches(port, bytes) {
            true => self.admit(moment),
            false => 0,
        };
        if number != 0 && number != SKIPPED {
            self.note(moment, kind, number, port, length, bytes);
        }
        self.set(chunk, number);
    }

    /// Records that a program forwarded a packet; `node` is the number of its place.
    pub(super) fn forwarded(&mut self, node: u8, packet: &Forwarded<'_>) {
        /// All copies use the same chunk number, one after the other.
        const CHUNK: usize = 0;
        let moment = Moment { now: packet.now, wall_nanos: packet.wall_nanos };
        let End { port, length, .. } = packet.received;
        self.begin(moment, Kind::Received, CHUNK, packet.received);
        let number = self.packet(CHUNK);
        if self.options.nodes && number != 0 && number != SKIPPED {
            self.note(moment, Kind::Visits(node), number, port, length, &[]);
            if !packet.next_hop.is_empty() {
                self.note(moment, Kind::NextHop, number, 0, 0, packet.next_hop);
            }
        }
        match packet.sent {
            Ok(end) => {
                self.sending(moment, CHUNK, end);
                self.sent(moment, end.port, CHUNK, None);
            }
            Err(reason) => self.kept(moment, node, Role::Drop, CHUNK, (reason, 0)),
        }
    }

    /// Returns the number of a matching packet.
    fn admit(&mut self, moment: Moment) -> u32 {
        count(&self.counters.matched);
        let room = RESERVE + size(&[]) + usize::from(self.options.snap);
        if self.ring.slots() < room || !self.bucket.take(moment.now) {
            count(&self.counters.missed);
            return SKIPPED;
        }
        self.last = if self.last >= SKIPPED - 1 { 1 } else { self.last + 1 };
        self.last
    }

    /// Records that a node gets a packet; returns true if the packet is followed.
    pub(super) fn visits(
        &mut self,
        moment: Moment,
        node: u8,
        chunk: usize,
        packet: &Packet,
    ) -> bool {
        let number = self.packet(chunk);
        if number == 0 {
            return false;
        }
        if self.options.nodes && number != SKIPPED {
            let length = usize::from(packet.frame.length);
            self.note(moment, Kind::Visits(node), number, packet.frame.port_in.0, length, &[]);
        }
        true
    }

    /// Records that a node has not passed on the packet in a chunk; if it is dropped, with the
    /// reason and the rule.
    pub(super) fn kept(
        &mut self,
        moment: Moment,
        node: u8,
        role: Role,
        chunk: usize,
        (reason, rule): (u8, u16),
    ) {
        let number = self.packet(chunk);
        let (kind, port) = match role {
            // Recorded when it is transmitted.
            Role::Output => return,
            Role::Drop => (Kind::Dropped(reason), rule),
            Role::Punt => (Kind::LeftToKernel, 0),
            Role::Holds => (Kind::Held(node), 0),
            Role::Other => (Kind::Consumed(node), 0),
        };
        if number != 0 && number != SKIPPED {
            self.note(moment, kind, number, port, 0, &[]);
        }
        if role != Role::Holds {
            self.set(chunk, 0);
        }
    }

    /// Records that a frame is about to be put into the transmit ring of a port.
    pub(super) fn sending(&mut self, moment: Moment, chunk: usize, end: End<'_>) {
        let End { port, length, bytes } = end;
        let mut number = self.packet(chunk);
        if number == SKIPPED {
            return;
        }
        let matches = !self.options.nodes && self.options.filter.matches(port, bytes);
        if number == 0 && matches {
            number = self.admit(moment);
            self.set(chunk, number);
        }
        if number != 0 && number != SKIPPED {
            let noted = if matches { bytes } else { &[] };
            self.note(moment, Kind::Sent, number, port, length, noted);
        }
    }

    /// Records that a transmit ring took the frame in a chunk, or refused it for a reason.
    pub(super) fn sent(&mut self, moment: Moment, port: u16, chunk: usize, refused: Option<u8>) {
        let number = self.packet(chunk);
        if let Some(reason) = refused
            && number != 0
            && number != SKIPPED
        {
            self.note(moment, Kind::Dropped(reason), number, port, 0, &[]);
        }
        self.set(chunk, 0);
    }

    /// Ends an iteration.
    pub(super) fn end_round(&mut self, moment: Moment) {
        if self.noted {
            let event = Event {
                kind: Kind::Round,
                packet: 0,
                port: 0,
                time_nanos: moment.wall_nanos,
                length: 0,
            };
            self.noted = !write(&mut self.ring, &event, &[]);
        }
    }

    fn note(
        &mut self,
        moment: Moment,
        kind: Kind,
        packet: u32,
        port: u16,
        length: usize,
        bytes: &[u8],
    ) {
        let event = Event {
            kind,
            packet,
            port,
            time_nanos: moment.wall_nanos,
            length: length.try_into().unwrap_or(u16::MAX),
        };
        let most = bytes.len().min(self.options.snap.into());
        if write(&mut self.ring, &event, &bytes[..most]) {
            self.noted = true;
        }
    }

    fn packet(&self, chunk: usize) -> u32 {
        self.packets.get(chunk).copied().unwrap_or(0)
    }

    fn set(&mut self, chunk: usize, number: u32) {
        if let Some(at) = self.packets.get_mut(chunk) {
            *at = number;
        }
    }
}

/// Adds one; only the worker writes.
fn count(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
