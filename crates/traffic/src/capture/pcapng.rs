//! The pcapng format (draft-ietf-opsawg-pcapng): sections of blocks, each section
//! with its own byte order and its own list of interfaces.

use super::buffer::Buffer;
use super::found::{Found, need};
use super::{LinkType, MAX_PACKET, Problem};
use pcap_parser::{Block, InterfaceDescriptionBlock, OptionCode};
use std::io::Read;

pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Largest block in bytes: the longest packet with room for options. Other tools have limits too.
const MAX_BLOCK: u32 = 16 * 1024 * 1024;
/// Largest number of interfaces in a section; bounds memory against hostile files.
const MAX_INTERFACES: usize = 65_536;
const PICOS_PER_SECOND: i128 = 1_000_000_000_000;
/// Offset of the packet's bytes in an Enhanced and in a Simple Packet Block.
const ENHANCED_DATA: usize = 28;
const SIMPLE_DATA: usize = 12;

#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: LinkType,
    snap_length: u32,
    units_per_second: u64,
    offset_seconds: i64,
}

/// State of the present section.
#[derive(Debug, Default)]
pub(super) struct Pcapng {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

impl Pcapng {
    /// Finds the next packet; reads or skips other blocks.
    pub(super) fn next<R: Read>(
        &mut self,
        buffer: &mut Buffer<R>,
    ) -> Result<Option<Found>, Problem> {
        loop {
            if !buffer.fill(1).map_err(Problem::Io)? {
                return Ok(None);
            }
            let (kind, size) = self.block_header(buffer)?;
            need(buffer, size, "pcapng block")?;
            let block = &buffer.data()[..size];
            let trailer = [block[size - 4], block[size - 3], block[size - 2], block[size - 1]];
            if self.number(trailer) as usize != size {
                return Err(Problem::Malformed("pcapng block: its two length fields differ"));
            }
            match kind {
                SECTION_HEADER => self.begin_section(block)?,
                INTERFACE_DESCRIPTION => {
                    let Block::InterfaceDescription(description) = self.parse(block)? else {
                        return Err(Problem::Malformed("Interface Description Block"));
                    };
                    self.add_interface(&description)?;
                }
                ENHANCED_PACKET | SIMPLE_PACKET => return self.packet(block).map(Some),
                OBSOLETE_PACKET => {
                    return Err(Problem::Malformed(
                        "obsolete Packet Block (type 2); editcap rewrites it as an Enhanced one",
                    ));
                }
                // Statistics, name resolution, secrets, custom blocks: no packets in them.
                _ => {}
            }
            buffer.consume(size);
        }
    }

    /// Type and total length of the next block; the length has been checked.
    fn block_header<R: Read>(&mut self, buffer: &mut Buffer<R>) -> Result<(u32, usize), Problem> {
        need(buffer, 12, "pcapng block header")?;
        let head = buffer.data();
        let first = [head[0], head[1], head[2], head[3]];
        // The type of a section header reads the same in both byte orders.
        let is_section = u32::from_le_bytes(first) == SECTION_HEADER;
        if is_section {
            let magic = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
            self.big_endian = match magic {
                BYTE_ORDER_MAGIC => false,
                _ if magic.swap_bytes() == BYTE_ORDER_MAGIC => true,
                _ => return Err(Problem::Malformed("Section Header Block: no byte-order magic")),
            };
        }
        let kind = self.number(first);
        let size = self.number([head[4], head[5], head[6], head[7]]);
        if !(12..=MAX_BLOCK).contains(&size) || !size.is_multiple_of(4) {
            return Err(Problem::Length {
                field: "the length of a pcapng block (a multiple of 4)",
                value: size.into(),
                low: 12,
                high: MAX_BLOCK.into(),
            });
        }
        Ok((kind, size as usize))
    }

    fn begin_section(&mut self, block: &[u8]) -> Result<(), Problem> {
        let Block::SectionHeader(section) = self.parse(block)? else {
            return Err(Problem::Malformed("Section Header Block"));
        };
        if section.major_version != 1 {
            return Err(Problem::Version {
                major: section.major_version,
                minor: section.minor_version,
                allowed: "pcapng 1.x",
            });
        }
        self.interfaces.clear();
        Ok(())
    }

    fn add_interface(&mut self, block: &InterfaceDescriptionBlock<'_>) -> Result<(), Problem> {
        if self.interfaces.len() == MAX_INTERFACES {
            return Err(Problem::Length {
                field: "the number of interfaces of a section",
                value: MAX_INTERFACES as u64 + 1,
                low: 0,
                high: MAX_INTERFACES as u64,
            });
        }
        // The library reads these two options as little-endian and knows no powers of two.
        let mut units_per_second = 1_000_000;
        let mut offset_seconds = 0;
        for option in &block.options {
            let Ok(value) = option.as_bytes() else { continue };
            match (option.code, value) {
                (OptionCode::IfTsresol, &[code]) => {
                    units_per_second =
                        units_per_second_of(code).ok_or(Problem::TimeResolution(code))?;
                }
                (OptionCode::IfTsoffset, value) => {
                    if let Ok(bytes) = <[u8; 8]>::try_from(value) {
                        offset_seconds = if self.big_endian {
                            i64::from_be_bytes(bytes)
                        } else {
                            i64::from_le_bytes(bytes)
                        };
                    }
                }
                _ => {}
            }
        }
        self.interfaces.push(Interface {
            link_type: LinkType(block.linktype.0 as u16),
            snap_length: block.snaplen,
            units_per_second,
            offset_seconds,
        });
        Ok(())
    }

    fn packet(&self, block: &[u8]) -> Result<Found, Problem> {
        let (interface_number, ticks, captured, original_length, start) = match self.parse(block)? {
            Block::EnhancedPacket(packet) => {
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                (packet.if_id, Some(ticks), packet.caplen, packet.origlen, ENHANCED_DATA)
            }
            Block::SimplePacket(packet) => {
                let room = (block.len() - SIMPLE_DATA - 4) as u32;
                (0, None, packet.origlen.min(room), packet.origlen, SIMPLE_DATA)
            }
            _ => return Err(Problem::Malformed("packet block")),
        };
        let interface = *self.interfaces.get(interface_number as usize).ok_or({
            Problem::Interface { interface: interface_number, described: self.interfaces.len() }
        })?;
        // A Simple Packet Block gives its captured length only through the snap length.
        let captured = match interface.snap_length {
            0 => captured,
            snap if ticks.is_none() => captured.min(snap),
            _ => captured,
        };
        if captured > MAX_PACKET {
            return Err(Problem::Length {
                field: "the captured length of a packet",
                value: captured.into(),
                low: 0,
                high: MAX_PACKET.into(),
            });
        }
        if original_length < captured {
            return Err(Problem::Length {
                field: "the original length of a packet",
                value: original_length.into(),
                low: captured.into(),
                high: u32::MAX.into(),
            });
        }
        let end = start + captured as usize;
        if end > block.len() - 4 {
            return Err(Problem::Malformed("packet block: the packet is longer than its block"));
        }
        Ok(Found {
            picos: ticks.map(|ticks| interface.picos(ticks)),
            original_length,
            link_type: interface.link_type,
            interface: interface_number,
            data: start..end,
            block: block.len(),
        })
    }

    fn number(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn parse<'a>(&self, block: &'a [u8]) -> Result<Block<'a>, Problem> {
        let parsed = if self.big_endian {
            pcap_parser::parse_block_be(block)
        } else {
            pcap_parser::parse_block_le(block)
        };
        parsed.map(|(_, block)| block).map_err(|_| Problem::Malformed("pcapng block"))
    }
}

impl Interface {
    fn picos(&self, ticks: u64) -> i128 {
        // At most 2^64 * 10^12 < 2^104: no overflow.
        i128::from(self.offset_seconds) * PICOS_PER_SECOND
            + i128::from(ticks) * PICOS_PER_SECOND / i128::from(self.units_per_second)
    }
}

/// Ticks per second of an `if_tsresol` byte: a power of ten, or of two if the top bit is set.
fn units_per_second_of(code: u8) -> Option<u64> {
    match code & 0x80 {
        0 => 10u64.checked_pow(code.into()),
        _ => 1u64.checked_shl((code & 0x7f).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_resolutions_of_both_kinds() {
        assert_eq!(units_per_second_of(6), Some(1_000_000));
        assert_eq!(units_per_second_of(19), Some(10_000_000_000_000_000_000));
        assert_eq!(units_per_second_of(20), None);
        assert_eq!(units_per_second_of(0x80 | 10), Some(1024));
        assert_eq!(units_per_second_of(0x80 | 63), Some(1 << 63));
        assert_eq!(units_per_second_of(0x80 | 64), None);
    }
}
