//! ESP (RFC 4303): the parts before and after the encrypted data, and encapsulation in UDP (RFC
//! 3948).
//!
//! ```text
//! SPI (4)  sequence (4)  IV  encrypted { payload  padding  pad length (1)  next header (1) }  ICV
//! ```

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of the header in bytes, without the IV.
pub const HEADER: usize = 8;
/// Pad length and next header, in bytes.
pub const TRAILER: usize = 2;
/// Next header of a dummy packet, which only hides the amount of traffic (RFC 4303 section 2.6).
pub const DUMMY: u8 = 59;
/// The lowest SPI that may be used: 0 is never sent, 1 to 255 are reserved (section 2.1).
pub const SPI_MIN: u32 = 256;
/// The UDP port of encapsulated ESP and of IKE behind NAT (RFC 3948 section 2).
pub const UDP_PORT: u16 = 4500;
/// Length of a UDP header in bytes.
pub const UDP_HEADER: usize = 8;

/// The ESP header.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct EspHeader {
    /// SPI, which identifies the security association.
    pub spi: U32,
    /// The low half of the sequence number.
    pub sequence: U32,
}

/// A UDP header (RFC 768).
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct UdpHeader {
    /// Source port.
    pub source: U16,
    /// Destination port.
    pub destination: U16,
    /// Length of header and payload in bytes.
    pub length: U16,
    /// Checksum of pseudo-header, header and payload; 0 for none.
    pub checksum: U16,
}

/// Contents of a datagram to or from [`UDP_PORT`] (RFC 3948 section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encapsulated<'a> {
    /// An ESP packet, from its header on.
    Esp(&'a [u8]),
    /// An IKE message, marked by four zero bytes in place of an SPI.
    Ike,
    /// One byte that keeps the mapping of a NAT alive.
    Keepalive,
    /// The payload is too short for anything else.
    Malformed,
}

impl<'a> Encapsulated<'a> {
    /// Determines the contents of a UDP payload.
    pub fn of(payload: &'a [u8]) -> Self {
        match payload {
            [0xff] => Self::Keepalive,
            [0, 0, 0, 0, ..] => Self::Ike,
            _ if payload.len() >= HEADER => Self::Esp(payload),
            _ => Self::Malformed,
        }
    }
}

/// Returns the number of padding bytes that make `payload` bytes and the trailer a multiple of
/// `alignment`, a power of two from 4 to 128 (RFC 4303 section 2.4).
pub fn padding(payload: usize, alignment: usize) -> usize {
    (payload + TRAILER).next_multiple_of(alignment) - payload - TRAILER
}

/// Fills `trailer` with padding (1, 2, 3 and so on, section 2.4), its length and the next header.
/// Does nothing if `trailer` has less than 2 or more than 257 bytes.
pub fn write_trailer(trailer: &mut [u8], next_header: u8) {
    let Some((padding, [length, next])) = trailer.split_last_chunk_mut::<TRAILER>() else { return };
    let Ok(count) = u8::try_from(padding.len()) else { return };
    for (byte, value) in padding.iter_mut().zip(1..) {
        *byte = value;
    }
    *length = count;
    *next = next_header;
}

/// Returns the payload and next header of decrypted data; `None` if the padding differs from that
/// of [`write_trailer`] (section 2.4: "should inspect").
pub fn read_trailer(plain: &[u8]) -> Option<(&[u8], u8)> {
    let (rest, [length, next_header]) = plain.split_last_chunk::<TRAILER>()?;
    let (payload, padding) = rest.split_at_checked(rest.len().checked_sub((*length).into())?)?;
    let right = padding.iter().zip(1..=u8::MAX).all(|(byte, value)| *byte == value);
    right.then_some((payload, *next_header))
}

/// Returns the full sequence number for the low half `low`, given the highest number received and
/// the size of the window (RFC 4303 appendix A2.2); `None` if it would be before the first number.
pub fn extended_sequence(low: u32, highest: u64, window: u32) -> Option<u64> {
    let (top_high, top_low) = ((highest >> 32) as u32, highest as u32);
    let bottom = top_low.wrapping_sub(window.saturating_sub(1));
    let high = if top_low >= window.saturating_sub(1) {
        // The window lies within one cycle of the low half.
        if low >= bottom { Some(top_high) } else { top_high.checked_add(1) }
    } else if low >= bottom {
        // The window extends into the previous cycle, and so does this number.
        top_high.checked_sub(1)
    } else {
        Some(top_high)
    };
    high.map(|high| u64::from(high) << 32 | u64::from(low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn datagrams_are_distinguished() {
        assert_eq!(Encapsulated::of(&[0xff]), Encapsulated::Keepalive);
        assert_eq!(Encapsulated::of(&[0; 28]), Encapsulated::Ike);
        assert_eq!(Encapsulated::of(&[0; 4]), Encapsulated::Ike);
        assert_eq!(Encapsulated::of(&[]), Encapsulated::Malformed);
        assert_eq!(Encapsulated::of(&[0xff, 0xff]), Encapsulated::Malformed);
        let esp = [0, 0, 1, 0, 0, 0, 0, 1];
        assert_eq!(Encapsulated::of(&esp), Encapsulated::Esp(&esp));
    }

    #[test]
    fn a_trailer_that_was_tampered_with_is_refused() {
        let mut bytes = [0xab; 12];
        write_trailer(&mut bytes[5..], 4);
        assert_eq!(bytes[5..], [1, 2, 3, 4, 5, 5, 4]);
        assert_eq!(read_trailer(&bytes), Some((&[0xab; 5][..], 4)));
        for at in 5..11 {
            let mut wrong = bytes;
            wrong[at] ^= 1;
            assert_eq!(read_trailer(&wrong), None, "byte {at}");
        }
        assert_eq!(read_trailer(&[3, 4]), None);
        assert_eq!(read_trailer(&[4]), None);
    }

    #[test]
    fn the_high_half_is_found_at_its_borders() {
        // Within one cycle.
        assert_eq!(extended_sequence(5, 100, 64), Some(1 << 32 | 5));
        assert_eq!(extended_sequence(37, 100, 64), Some(37));
        assert_eq!(extended_sequence(0xffff_ffff, 0xffff_fff0, 64), Some(0xffff_ffff));
        assert_eq!(extended_sequence(3, 0xffff_fff0, 64), Some(1 << 32 | 3));
        // The window extends into the previous cycle.
        assert_eq!(extended_sequence(0xffff_ffff, 1 << 32 | 3, 64), Some(0xffff_ffff));
        assert_eq!(extended_sequence(4, 1 << 32 | 3, 64), Some(1 << 32 | 4));
        // Before the first packet ever.
        assert_eq!(extended_sequence(0xffff_ffff, 3, 64), None);
        assert_eq!(extended_sequence(5, u64::MAX, 64), None);
    }

    proptest! {
        #[test]
        fn written_header_is_read_back(
            payload in prop::collection::vec(any::<u8>(), 0..300),
            log in 2u32..8,
            next: u8,
        ) {
            let alignment = 1usize << log;
            let mut bytes = payload.clone();
            let padding = padding(payload.len(), alignment);
            bytes.resize(payload.len() + padding + TRAILER, 0);
            prop_assert_eq!(bytes.len() % alignment, 0);
            prop_assert!(padding < alignment);
            write_trailer(&mut bytes[payload.len()..], next);
            prop_assert_eq!(read_trailer(&bytes), Some((&payload[..], next)));
        }

        /// Any number in or just above the window can be recovered from its low half.
        #[test]
        fn low_halves_suffice(highest: u64, window in 32u32..5000, back in 0u64..5000, ahead: u32) {
            let highest = highest.min(u64::MAX - (1 << 32));
            let below = highest.saturating_sub(back.min(u64::from(window) - 1));
            // Beyond 2^32 minus the window, the number is ambiguous.
            let above = highest + u64::from(ahead).min((1 << 32) - u64::from(window));
            for sequence in [below, above] {
                prop_assert_eq!(
                    extended_sequence(sequence as u32, highest, window), Some(sequence));
            }
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes: Vec<u8>, low: u32, highest: u64, window: u32) {
            let _ = (Encapsulated::of(&bytes), read_trailer(&bytes));
            let _ = extended_sequence(low, highest, window);
        }
    }
}
