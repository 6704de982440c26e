//! Records that a tap writes for its reader: events of packets, in order.

use rtrb::{Consumer, Producer};

/// Bytes of a record before those of its packet.
const HEADER: usize = 24;

/// Event of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A port received the packet; with its bytes.
    Received,
    /// The node with this number made it; with its bytes.
    Made(u8),
    /// The node with this number gets it.
    Visits(u8),
    /// The packet goes to the transmit ring of a port; with its bytes if the filter takes them.
    Sent,
    /// The packet is dropped, for the reason with this number.
    Dropped(u8),
    /// The packet was left to the kernel.
    LeftToKernel,
    /// The packet waits for its neighbour in the node with this number.
    Held(u8),
    /// The node with this number consumed it: put it into another packet, or into several.
    Consumed(u8),
    /// Next hop of the packet; the bytes are its address.
    NextHop,
    /// End of a worker's iteration: further events of these packets come in a later one.
    Round,
}

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The event.
    pub kind: Kind,
    /// Number of the packet in its tap, from 1; 0 for [`Kind::Round`].
    pub packet: u32,
    /// Ingress port ([`Kind::Received`], [`Kind::Made`]) or egress port ([`Kind::Sent`]); number of
    /// the rule if a rule dropped the packet (`acl-denied`, `acl-unreadable`).
    pub port: u16,
    /// Nanoseconds since 1970.
    pub time_nanos: u64,
    /// Length of the frame in bytes.
    pub length: u16,
    /// First bytes of the frame; empty if they are not recorded.
    pub bytes: Vec<u8>,
}

/// The parts of a record that have a fixed size.
pub(super) struct Event {
    pub kind: Kind,
    pub packet: u32,
    pub port: u16,
    pub time_nanos: u64,
    pub length: u16,
}

/// Returns the bytes that a record takes in the ring.
pub(super) fn size(bytes: &[u8]) -> usize {
    HEADER + bytes.len()
}

/// Writes a record; false if there is no room for it.
pub(super) fn write(ring: &mut Producer<u8>, event: &Event, bytes: &[u8]) -> bool {
    if ring.slots() < size(bytes) {
        return false;
    }
    let (kind, detail) = match event.kind {
        Kind::Received => (0, 0),
        Kind::Made(node) => (1, node),
        Kind::Visits(node) => (2, node),
        Kind::Sent => (3, 0),
        Kind::Dropped(reason) => (4, reason),
        Kind::LeftToKernel => (5, 0),
        Kind::Held(node) => (6, node),
        Kind::Consumed(node) => (7, node),
        Kind::NextHop => (8, 0),
        Kind::Round => (9, 0),
    };
    let mut header = [0; HEADER];
    header[0] = kind;
    header[1] = detail;
    header[2..4].copy_from_slice(&event.port.to_le_bytes());
    header[4..8].copy_from_slice(&event.packet.to_le_bytes());
    header[8..16].copy_from_slice(&event.time_nanos.to_le_bytes());
    header[16..18].copy_from_slice(&event.length.to_le_bytes());
    header[18..20].copy_from_slice(&(bytes.len() as u16).to_le_bytes());
    // There is room for both; a reader takes a record only if all of it is there.
    ring.push_entire_slice(&header).is_ok() && ring.push_entire_slice(bytes).is_ok()
}

/// The reading end of a tap.
#[derive(Debug)]
pub struct Records {
    ring: Consumer<u8>,
    header: Option<[u8; HEADER]>,
}

impl Records {
    pub(super) fn new(ring: Consumer<u8>) -> Self {
        Self { ring, header: None }
    }

    /// Returns the next record; `None` if none is complete.
    pub fn read(&mut self) -> Option<Record> {
        let header = match self.header {
            Some(header) => header,
            None => {
                let mut header = [0; HEADER];
                self.ring.pop_entire_slice(&mut header).ok()?;
                *self.header.insert(header)
            }
        };
        let [
            kind,
            detail,
            p0,
            p1,
            i0,
            i1,
            i2,
            i3,
            t0,
            t1,
            t2,
            t3,
            t4,
            t5,
            t6,
            t7,
            l0,
            l1,
            c0,
            c1,
            ..,
        ] = header;
        let mut bytes = vec![0; usize::from(u16::from_le_bytes([c0, c1]))];
        self.ring.pop_entire_slice(&mut bytes).ok()?;
        self.header = None;
        let kind = match kind {
            0 => Kind::Received,
            1 => Kind::Made(detail),
            2 => Kind::Visits(detail),
            3 => Kind::Sent,
            4 => Kind::Dropped(detail),
            5 => Kind::LeftToKernel,
            6 => Kind::Held(detail),
            7 => Kind::Consumed(detail),
            8 => Kind::NextHop,
            _ => Kind::Round,
        };
        Some(Record {
            kind,
            packet: u32::from_le_bytes([i0, i1, i2, i3]),
            port: u16::from_le_bytes([p0, p1]),
            time_nanos: u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]),
            length: u16::from_le_bytes([l0, l1]),
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Records are read as written, with any size of the ring, whichever side is faster.
        #[test]
        fn records_come_back(kinds in proptest::collection::vec((0_u8..10, any::<u8>(), any::<u32>(), 0_usize..40), 1..60)) {
            let (producer, consumer) = rtrb::RingBuffer::new(200);
            let (mut ring, mut records) = (producer, Records::new(consumer));
            let mut expected = std::collections::VecDeque::new();
            for (kind, detail, number, length) in kinds {
                let kind = [
                    Kind::Received, Kind::Made(detail), Kind::Visits(detail), Kind::Sent,
                    Kind::Dropped(detail), Kind::LeftToKernel, Kind::Held(detail),
                    Kind::Consumed(detail), Kind::NextHop, Kind::Round,
                ][usize::from(kind)];
                let bytes = vec![detail; length];
                let event = Event {
                    kind,
                    packet: number,
                    port: number as u16,
                    time_nanos: u64::from(number) << 20,
                    length: length as u16 + 7,
                };
                while !write(&mut ring, &event, &bytes) {
                    prop_assert_eq!(records.read(), expected.pop_front());
                }
                let Event { kind, packet, port, time_nanos, length } = event;
                expected.push_back(Record { kind, packet, port, time_nanos, length, bytes });
            }
            for record in expected {
                prop_assert_eq!(records.read(), Some(record));
            }
            prop_assert_eq!(records.read(), None);
        }
    }
}
