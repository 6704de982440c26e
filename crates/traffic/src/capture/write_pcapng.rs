//! Writes a pcapng section (draft-ietf-opsawg-pcapng), little-endian, of Ethernet interfaces.
//!
//! Four kinds of blocks and their options. The crate that parses the format can write it too, but
//! only with an executor of futures among its dependencies.

use std::time::Duration;

/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;
/// Time stamps count nanoseconds: 10 to the minus nine.
const NANOSECONDS: u8 = 9;

/// Option codes; all except comments depend on the block.
const COMMENT: u16 = 1;
const USER_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_DESCRIPTION: u16 = 3;
const TIME_RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;
const STATISTICS_DROPPED: u16 = 5;
const STATISTICS_ACCEPTED: u16 = 6;

/// Direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Received by the interface.
    In,
    /// Sent by the interface.
    Out,
}

/// A packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet<'a> {
    /// Number of its interface, in the order of the arguments of [`section`].
    pub interface: u32,
    /// Time since 1970.
    pub time: Duration,
    /// Captured bytes, from the Ethernet header on.
    pub bytes: &'a [u8],
    /// Length on the wire in bytes.
    pub length: u32,
    /// Direction of the packet.
    pub direction: Direction,
    /// Remarks about it.
    pub comments: &'a [String],
}

/// A block under construction.
struct Block(Vec<u8>);

impl Block {
    fn new(kind: u32) -> Self {
        let mut block = Self(Vec::new());
        block.number(kind);
        // The length, once it is known.
        block.number(0);
        block
    }

    fn number(&mut self, number: u32) {
        self.0.extend(number.to_le_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Appends an option; a text that is too long is cut.
    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.0.extend(code.to_le_bytes());
        self.0.extend((value.len() as u16).to_le_bytes());
        self.bytes(value);
    }

    fn time(&mut self, time: Duration) {
        // Enough until the year 2554.
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.number((nanos >> 32) as u32);
        self.number(nanos as u32);
    }

    fn end(mut self, options: bool) -> Vec<u8> {
        if options {
            self.number(0);
        }
        let length = (self.0.len() + 4) as u32;
        self.number(length);
        self.0[4..8].copy_from_slice(&length.to_le_bytes());
        self.0
    }
}

/// Returns the beginning of a file: the application, a remark, and the interfaces with their
/// descriptions. All have the same `snap` length in bytes, as libpcap requires.
pub fn section(
    application: &str,
    remark: &str,
    interfaces: &[(String, String)],
    snap: u32,
) -> Vec<u8> {
    let mut block = Block::new(super::pcapng::SECTION_HEADER);
    block.number(0x1a2b_3c4d);
    // Version 1.0, and a section length that is not known yet.
    block.number(1);
    block.number(u32::MAX);
    block.number(u32::MAX);
    block.option(USER_APPLICATION, application.as_bytes());
    if !remark.is_empty() {
        block.option(COMMENT, remark.as_bytes());
    }
    let mut bytes = block.end(true);
    for (name, description) in interfaces {
        let mut block = Block::new(1);
        block.number(ETHERNET.into());
        block.number(snap);
        block.option(INTERFACE_NAME, name.as_bytes());
        if !description.is_empty() {
            block.option(INTERFACE_DESCRIPTION, description.as_bytes());
        }
        block.option(TIME_RESOLUTION, &[NANOSECONDS]);
        bytes.extend(block.end(true));
    }
    bytes
}

/// Returns an Enhanced Packet Block.
pub fn packet(packet: &Packet<'_>) -> Vec<u8> {
    let mut block = Block::new(6);
    block.number(packet.interface);
    block.time(packet.time);
    block.number(packet.bytes.len() as u32);
    block.number(packet.length);
    block.bytes(packet.bytes);
    let direction: u32 = match packet.direction {
        Direction::In => 1,
        Direction::Out => 2,
    };
    block.option(FLAGS, &direction.to_le_bytes());
    for comment in packet.comments {
        block.option(COMMENT, comment.as_bytes());
    }
    block.end(true)
}

/// Returns the counts of an interface at a time: packets accepted by the filter, and how many of
/// them are not in the file.
pub fn statistics(
    interface: u32,
    time: Duration,
    accepted: u64,
    dropped: u64,
    remark: &str,
) -> Vec<u8> {
    let mut block = Block::new(5);
    block.number(interface);
    block.time(time);
    block.option(STATISTICS_DROPPED, &dropped.to_le_bytes());
    block.option(STATISTICS_ACCEPTED, &accepted.to_le_bytes());
    if !remark.is_empty() {
        block.option(COMMENT, remark.as_bytes());
    }
    block.end(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Reader;
    use pcap_parser::{Block as Read, parse_block_le};

    /// Written packets are read back by our reader and, with options, by pcap-parser. Packets and
    /// comments have all lengths, so each needs another padding.
    #[test]
    fn packets_round_trip() {
        let names = [("left".to_owned(), "eth0".to_owned()), ("right".to_owned(), String::new())];
        let mut file = section("test", "a remark", &names, 65_535);
        let time = |number: u32| Duration::new(1_700_000_000, number * 12_345_677);
        for number in 0..80_u32 {
            let bytes = vec![number as u8; number as usize];
            let comment = "x".repeat(number as usize % 9);
            let written = packet(&Packet {
                interface: number % 2,
                time: time(number),
                bytes: &bytes,
                length: number + 3,
                direction: if number % 2 == 1 { Direction::Out } else { Direction::In },
                comments: std::slice::from_ref(&comment),
            });
            assert_eq!(written.len() % 4, 0);
            let (rest, Read::EnhancedPacket(read)) = parse_block_le(&written).unwrap() else {
                panic!("no packet")
            };
            assert!(rest.is_empty());
            assert_eq!(read.options[0].value[0], 1 + (number % 2) as u8, "direction");
            assert_eq!(&read.options[1].value[..comment.len()], comment.as_bytes());
            file.extend(written);
        }
        file.extend(statistics(0, Duration::from_secs(1_700_000_000), 7, 3, "three missed"));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.pcapng");
        std::fs::write(&path, file).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        for number in 0..80_u32 {
            let record = reader.next_record().unwrap().unwrap();
            assert_eq!(record.data, vec![number as u8; number as usize]);
            assert_eq!((record.original_length, record.interface), (number + 3, number % 2));
            assert_eq!(record.timestamp, time(number));
        }
        assert!(reader.next_record().unwrap().is_none());
    }
}
