//! The reading half: a capture's packets as Ethernet frames, one ahead.

use std::path::Path;
use std::time::Duration;
use wattline_traffic::capture::{CaptureError, LinkType, Problem, Reader, Record};

const ETHERNET_HEADER: usize = 14;
/// Source address for packets without an Ethernet header: a locally administered address.
const FOREIGN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0xfe];

/// Reads frames one ahead, so that the next one's time is known.
pub(super) struct Source {
    reader: Reader,
    /// Destination address for packets without an Ethernet header.
    mac: [u8; 6],
    original_length: bool,
    /// The next frame; its memory is reused.
    frame: Vec<u8>,
    /// Time at which it is due, since the first of the capture; `None` after the last.
    due: Option<Duration>,
}

impl Source {
    /// Opens a capture and reads its first packet.
    pub(super) fn open(
        path: &Path,
        mac: [u8; 6],
        original_length: bool,
    ) -> Result<Self, CaptureError> {
        let reader = Reader::open(path)?;
        let frame = Vec::with_capacity(2048);
        let mut source = Self { reader, mac, original_length, frame, due: None };
        source.advance()?;
        Ok(source)
    }

    /// Returns the time at which the next frame is due, since the first of the capture; `None`
    /// after the last.
    pub(super) fn due(&self) -> Option<Duration> {
        self.due
    }

    /// Returns the next frame; empty for a packet that cannot become a frame.
    pub(super) fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// Advances to the following packet; after an error there is none.
    pub(super) fn advance(&mut self) -> Result<(), CaptureError> {
        self.due = None;
        let Some(record) = self.reader.next_record()? else { return Ok(()) };
        let due = Duration::from_nanos(record.time.as_picos() / 1000);
        match frame_of(&record, self.mac, self.original_length, &mut self.frame) {
            Ok(()) => {
                self.due = Some(due);
                Ok(())
            }
            Err(problem) => Err(self.reader.reject(problem)),
        }
    }
}

/// Builds a frame from a captured packet; leaves it empty if the packet has no Ethernet header and
/// is no IP packet.
fn frame_of(
    record: &Record<'_>,
    mac: [u8; 6],
    original_length: bool,
    frame: &mut Vec<u8>,
) -> Result<(), Problem> {
    frame.clear();
    let header = record.link_type.header_length().ok_or(Problem::WrongLinkType {
        found: record.link_type,
        wanted: "Ethernet, raw IP, BSD loopback or Linux cooked",
    })?;
    // Bytes of the frame in addition to the captured ones.
    let mut added = 0;
    if record.link_type == LinkType::ETHERNET {
        frame.extend_from_slice(record.data);
    } else {
        let packet = record.data.get(header..).unwrap_or(&[]);
        let ether_type: u16 = match packet.first().map(|byte| byte >> 4) {
            Some(4) => 0x0800,
            Some(6) => 0x86dd,
            _ => return Ok(()),
        };
        frame.extend_from_slice(&mac);
        frame.extend_from_slice(&FOREIGN_MAC);
        frame.extend_from_slice(&ether_type.to_be_bytes());
        frame.extend_from_slice(packet);
        added = ETHERNET_HEADER.saturating_sub(header);
    }
    if original_length {
        // Bounded: the reader rejects packets that claim more than MAX_PACKET.
        let missing = (record.original_length as usize).saturating_sub(record.data.len());
        let whole = (frame.len() + missing).min(frame.len().max(usize::from(u16::MAX) + added));
        frame.resize(whole, 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_units::Time;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn frame(link_type: LinkType, data: &[u8], original_length: u32, pad: bool) -> Vec<u8> {
        let record = Record {
            time: Time::ZERO,
            timestamp: Duration::ZERO,
            original_length,
            link_type,
            interface: 0,
            data,
        };
        let mut frame = vec![9; 3];
        frame_of(&record, MAC, pad, &mut frame).unwrap();
        frame
    }

    #[test]
    fn ethernet_stays_as_captured_or_regains_its_length() {
        assert_eq!(frame(LinkType::ETHERNET, &[1, 2, 3], 5, false), [1, 2, 3]);
        assert_eq!(frame(LinkType::ETHERNET, &[1, 2, 3], 5, true), [1, 2, 3, 0, 0]);
    }

    #[test]
    fn absurd_original_length_costs_no_memory() {
        assert_eq!(frame(LinkType::ETHERNET, &[1], u32::MAX, true).len(), 65_535);
    }

    #[test]
    fn packets_without_a_frame_get_one_addressed_to_the_port() {
        let mut expected = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0xfe, 0x08, 0x00, 0x45, 7];
        assert_eq!(frame(LinkType::RAW, &[0x45, 7], 2, false), expected);
        assert_eq!(frame(LinkType::NULL, &[2, 0, 0, 0, 0x45, 7], 6, false), expected);
        expected.push(0);
        assert_eq!(frame(LinkType::RAW, &[0x45, 7], 3, true), expected);
        let ipv6 = frame(LinkType::IPV6, &[0x60], 1, false);
        assert_eq!(ipv6[12..], [0x86, 0xdd, 0x60]);
    }

    #[test]
    fn unknown_packet_gives_an_empty_frame() {
        assert!(frame(LinkType::RAW, &[0x15], 1, false).is_empty());
        assert!(frame(LinkType::LINUX_SLL, &[0; 4], 4, false).is_empty());
    }

    #[test]
    fn another_link_type_is_refused_by_name() {
        let record = Record {
            time: Time::ZERO,
            timestamp: Duration::ZERO,
            original_length: 1,
            link_type: LinkType(105),
            interface: 0,
            data: &[0],
        };
        let problem = frame_of(&record, MAC, false, &mut Vec::new()).unwrap_err();
        assert!(matches!(problem, Problem::WrongLinkType { found: LinkType(105), .. }));
    }
}
