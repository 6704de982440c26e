//! The classic pcap format (draft-ietf-opsawg-pcap): one header, then records.

use super::buffer::Buffer;
use super::found::{Found, need};
use super::{LinkType, MAX_PACKET, Problem};
use pcap_parser::{LegacyPcapBlock, PcapHeader};
use std::io::Read;

pub(super) const FILE_HEADER: usize = 24;
pub(super) const RECORD_HEADER: usize = 16;
pub(super) const MAGIC_MICROS: u32 = 0xa1b2_c3d4;
pub(super) const MAGIC_NANOS: u32 = 0xa1b2_3c4d;

/// Contents of the file header.
#[derive(Debug, Clone)]
pub(super) struct Pcap {
    big_endian: bool,
    picos_per_unit: i128,
    link_type: LinkType,
}

impl Pcap {
    pub(super) fn recognises(magic_le: u32) -> bool {
        [MAGIC_MICROS, MAGIC_NANOS]
            .iter()
            .any(|&magic| magic_le == magic || magic_le.swap_bytes() == magic)
    }

    pub(super) fn open<R: Read>(buffer: &mut Buffer<R>) -> Result<Self, Problem> {
        need(buffer, FILE_HEADER, "pcap file header")?;
        let (_, header) = pcap_parser::parse_pcap_header(buffer.data())
            .map_err(|_| Problem::Malformed("pcap file header"))?;
        buffer.consume(FILE_HEADER);
        Self::from_header(&header)
    }

    fn from_header(header: &PcapHeader) -> Result<Self, Problem> {
        if (header.version_major, header.version_minor) != (2, 4) {
            return Err(Problem::Version {
                major: header.version_major,
                minor: header.version_minor,
                allowed: "pcap 2.4",
            });
        }
        // The upper half of the field holds the length of the frame check sequence.
        let link_type = LinkType(header.network.0 as u16);
        Ok(Self {
            big_endian: header.is_bigendian(),
            picos_per_unit: if header.is_nanosecond_precision() { 1_000 } else { 1_000_000 },
            link_type,
        })
    }

    pub(super) fn next<R: Read>(&self, buffer: &mut Buffer<R>) -> Result<Option<Found>, Problem> {
        if !buffer.fill(1).map_err(Problem::Io)? {
            return Ok(None);
        }
        need(buffer, RECORD_HEADER, "pcap record header")?;
        let captured = self.captured_length(buffer.data());
        // Not compared with the header's snap length, which some writers set too low.
        if captured > MAX_PACKET {
            return Err(Problem::Length {
                field: "the captured length of a packet",
                value: captured.into(),
                low: 0,
                high: MAX_PACKET.into(),
            });
        }
        let size = RECORD_HEADER + captured as usize;
        need(buffer, size, "packet")?;
        let record = self.parse(&buffer.data()[..size]).ok_or(Problem::Malformed("pcap record"))?;
        if record.origlen < record.caplen {
            return Err(Problem::Length {
                field: "the original length of a packet",
                value: record.origlen.into(),
                low: record.caplen.into(),
                high: u32::MAX.into(),
            });
        }
        let picos = i128::from(record.ts_sec) * 1_000_000_000_000
            + i128::from(record.ts_usec) * self.picos_per_unit;
        Ok(Some(Found {
            picos: Some(picos),
            original_length: record.origlen,
            link_type: self.link_type,
            interface: 0,
            data: RECORD_HEADER..size,
            block: size,
        }))
    }

    fn captured_length(&self, record: &[u8]) -> u32 {
        let bytes = [record[8], record[9], record[10], record[11]];
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn parse<'a>(&self, record: &'a [u8]) -> Option<LegacyPcapBlock<'a>> {
        let parsed = if self.big_endian {
            pcap_parser::parse_pcap_frame_be(record)
        } else {
            pcap_parser::parse_pcap_frame(record)
        };
        parsed.ok().map(|(_, block)| block)
    }
}
