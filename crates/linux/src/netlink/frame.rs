//! Framing of netlink messages: header, payload, attributes (RFC 3549, section 2.2;
//! Documentation/userspace-api/netlink/intro.rst). Routes, XFRM and the generic families share it.
//! `netlink-packet-core` checks lengths against the received bytes.

use netlink_packet_core::{
    NLA_F_NESTED, NLA_HEADER_SIZE, NLM_F_REQUEST, NetlinkBuffer, NlasIterator,
};
use std::io;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;
/// `NLMSG_ALIGNTO` and `NLA_ALIGNTO`.
const ALIGNED: usize = 4;

/// A received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Message type (`nlmsg_type`).
    pub kind: u16,
    /// `NLM_F_*`.
    pub flags: u16,
    /// Number of the request that it answers; 0 for a notification.
    pub sequence: u32,
    /// Payload after the header, without padding.
    pub payload: &'a [u8],
    /// The whole message, with its header.
    pub whole: &'a [u8],
}

impl Frame<'_> {
    /// Returns the outcome of the request if this ends the answer: an error, or success.
    pub fn verdict(&self) -> Option<io::Result<()>> {
        let code = self.payload.first_chunk().map(|code| i32::from_ne_bytes(*code));
        match (self.kind, code) {
            // The end of a dump carries an error only if one occurred.
            (NLMSG_ERROR | NLMSG_DONE, Some(0)) | (NLMSG_DONE, None) => Some(Ok(())),
            (NLMSG_ERROR | NLMSG_DONE, Some(code)) if code < 0 => {
                Some(Err(error(code.checked_neg().unwrap_or(libc::EPROTO))))
            }
            // Some dumps end with the number of entries.
            (NLMSG_DONE, _) => Some(Ok(())),
            (NLMSG_ERROR, _) => Some(Err(error(libc::EPROTO))),
            _ => None,
        }
    }
}

/// Returns the messages of a datagram; a malformed one ends it.
pub(crate) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    std::iter::from_fn(move || {
        let header = NetlinkBuffer::new_checked(bytes).ok()?;
        let length = header.length() as usize;
        let whole = bytes.get(..length)?;
        bytes = bytes.get(length.next_multiple_of(ALIGNED)..).unwrap_or_default();
        Some(Frame {
            kind: header.message_type(),
            flags: header.flags(),
            sequence: header.sequence_number(),
            payload: whole.get(HEADER..)?,
            whole,
        })
    })
}

/// Returns number and value of the attributes in a payload or in another attribute; a malformed one
/// ends the list.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    NlasIterator::new(bytes).map_while(|attribute| {
        let attribute = attribute.ok()?;
        let (kind, length) = (attribute.kind(), usize::from(attribute.length()));
        Some((kind, attribute.into_inner().get(NLA_HEADER_SIZE..length)?))
    })
}

/// Returns the value of the first attribute of this number.
pub(crate) fn attribute(bytes: &[u8], wanted: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
}

/// Returns an attribute that is a number of 1, 2, 4 or 8 bytes; the kernel sends `uint` as 4 or 8.
pub(crate) fn number(bytes: &[u8], wanted: u16) -> Option<u64> {
    let value = attribute(bytes, wanted)?;
    match value.len() {
        1 => Some(u64::from(value[0])),
        2 => Some(u64::from(u16::from_ne_bytes(*value.first_chunk()?))),
        4 => Some(u64::from(u32::from_ne_bytes(*value.first_chunk()?))),
        8 => Some(u64::from_ne_bytes(*value.first_chunk()?)),
        _ => None,
    }
}

/// A message to the kernel under construction.
#[derive(Debug, Clone)]
pub(crate) struct Request(Vec<u8>);

impl Request {
    /// Makes a request of this kind (`nlmsg_type`), with these flags and `NLM_F_REQUEST`.
    pub fn new(kind: u16, flags: u16) -> Self {
        let mut bytes = vec![0; HEADER];
        let mut header = NetlinkBuffer::new(&mut bytes);
        header.set_message_type(kind);
        header.set_flags(NLM_F_REQUEST | flags);
        Self(bytes)
    }

    /// Adds flags.
    pub fn set_flags(&mut self, flags: u16) {
        let mut header = NetlinkBuffer::new(&mut self.0);
        header.set_flags(header.flags() | flags);
    }

    /// Returns its flags.
    pub fn flags(&self) -> u16 {
        NetlinkBuffer::new(&self.0).flags()
    }

    /// Appends the fixed structure that precedes the attributes.
    pub fn put(&mut self, structure: &[u8]) {
        self.0.extend_from_slice(structure);
        self.align();
    }

    /// Appends an attribute, whose value is shorter than 64 KiB.
    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        let start = self.begin(kind);
        self.0.extend_from_slice(value);
        self.end(start);
    }

    /// Appends an attribute; `fill` appends its contents.
    pub fn nest(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.begin(kind | NLA_F_NESTED);
        fill(self);
        self.end(start);
    }

    /// Returns the message as it is sent, with a sequence number.
    pub fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = self.0.len() as u32;
        let mut header = NetlinkBuffer::new(&mut self.0);
        header.set_length(length);
        header.set_sequence_number(sequence);
        self.0
    }

    fn begin(&mut self, kind: u16) -> usize {
        let start = self.0.len();
        self.0.extend_from_slice(&[0, 0]);
        self.0.extend_from_slice(&kind.to_ne_bytes());
        start
    }

    fn end(&mut self, start: usize) {
        let length = self.0.len() - start;
        debug_assert!(length <= usize::from(u16::MAX), "no attribute is so long");
        self.0[start..start + 2].copy_from_slice(&(length as u16).to_ne_bytes());
        self.align();
    }

    fn align(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(ALIGNED), 0);
    }
}

/// Returns the error of this number.
pub(crate) fn error(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

/// Makes an attribute as the kernel sends it, for tests.
#[cfg(test)]
pub(crate) fn attribute_bytes(kind: u16, content: &[u8]) -> Vec<u8> {
    let mut request = Request::new(0, 0);
    request.attribute(kind, content);
    request.finish(0).split_off(HEADER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::NLA_TYPE_MASK;
    use proptest::prelude::*;

    #[test]
    fn messages_follow_their_lengths_with_padding() {
        let mut bytes = vec![0; 40];
        bytes[..4].copy_from_slice(&17_u32.to_ne_bytes());
        bytes[20..24].copy_from_slice(&20_u32.to_ne_bytes());
        let lengths: Vec<usize> = frames(&bytes).map(|frame| frame.whole.len()).collect();
        assert_eq!(lengths, [17, 20]);
    }

    #[test]
    fn attributes_are_found_behind_padding_and_within_others() {
        let mut request = Request::new(7, 0);
        request.put(b"abc");
        request.attribute(2, b"abc");
        request.attribute(5, &7_u32.to_ne_bytes());
        request.nest(6, |inner| inner.attribute(1, &8_u64.to_ne_bytes()));
        request.attribute(9, &[3]);
        let bytes = request.finish(77);
        let frame = frames(&bytes).next().unwrap();
        assert_eq!((frame.kind, frame.flags, frame.sequence), (7, NLM_F_REQUEST, 77));
        let behind = &frame.payload[4..];
        assert_eq!((number(behind, 5), number(behind, 9)), (Some(7), Some(3)));
        assert_eq!((number(behind, 2), number(behind, 8)), (None, None));
        assert_eq!(number(attribute(behind, 6).unwrap(), 1), Some(8));
    }

    fn verdict(kind: u16, payload: &[u8]) -> Option<io::Result<()>> {
        Frame { kind, flags: 0, sequence: 0, payload, whole: &[] }.verdict()
    }

    #[test]
    fn errors_and_ends_are_distinguished_from_answers() {
        let code = |code: i32| code.to_ne_bytes();
        assert!(verdict(NLMSG_ERROR, &code(0)).unwrap().is_ok());
        assert!(verdict(NLMSG_DONE, &[]).unwrap().is_ok());
        assert!(verdict(NLMSG_DONE, &code(12)).unwrap().is_ok());
        let number = |verdict: Option<io::Result<()>>| verdict.unwrap().unwrap_err().raw_os_error();
        assert_eq!(number(verdict(NLMSG_ERROR, &code(-libc::EPERM))), Some(libc::EPERM));
        assert_eq!(number(verdict(NLMSG_DONE, &code(-libc::EINTR))), Some(libc::EINTR));
        for nonsense in [&code(i32::MIN)[..], &code(5), &[1]] {
            assert_eq!(number(verdict(NLMSG_ERROR, nonsense)), Some(libc::EPROTO));
        }
        assert!(verdict(16, &code(0)).is_none());
    }

    proptest! {
        #[test]
        fn finished_request_is_read_back_unchanged(
            kind: u16,
            sequence: u32,
            values in prop::collection::vec(
                (0..=NLA_TYPE_MASK, prop::collection::vec(any::<u8>(), 0..40)), 0..8),
        ) {
            let mut request = Request::new(kind, 0);
            values.iter().for_each(|(kind, value)| request.attribute(*kind, value));
            let bytes = request.finish(sequence);
            let read: Vec<Frame<'_>> = frames(&bytes).collect();
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!((read[0].kind, read[0].sequence), (kind, sequence));
            let found: Vec<(u16, Vec<u8>)> =
                attributes(read[0].payload).map(|(kind, value)| (kind, value.to_vec())).collect();
            prop_assert_eq!(found, values);
        }

        #[test]
        fn any_bytes_are_read_without_end_or_panic(bytes: Vec<u8>, kind: u16) {
            let mut total = 0;
            for frame in frames(&bytes) {
                total += frame.whole.len();
                prop_assert_eq!(frame.whole.len(), frame.payload.len() + HEADER);
                let _ = frame.verdict();
                number(frame.payload, kind);
            }
            prop_assert!(total <= bytes.len());
            let values: usize = attributes(&bytes).map(|(_, value)| value.len() + 4).sum();
            prop_assert!(values <= bytes.len());
            number(&bytes, kind);
        }

        /// Lengths are wrong, in messages that are valid otherwise.
        #[test]
        fn changed_messages_are_read_without_end_or_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        ) {
            let mut request = Request::new(16, 0);
            request.attribute(1, b"eth0\0");
            request.nest(2, |inner| inner.attribute(3, &[0; 12]));
            let mut bytes = request.finish(1);
            bytes.extend_from_within(..);
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            for frame in frames(&bytes) {
                let _ = frame.verdict();
                for (_, value) in attributes(frame.payload) {
                    attributes(value).for_each(drop);
                }
            }
        }
    }
}
