//! Format of an encoded packet after its IP header.
//!
//! ```text
//!  0               1               2               3
//!  +-------+-------+---------------+-------------------------------+
//!  |version| zero  |    stream     |          generation           |
//!  +-------+-------+---------------+-------------------------------+
//!  |   protocol    |    regions    |                               |
//!  +---------------+---------------+          digest (64)          |
//!  |                                                               |
//!  |                               +-------------------------------+
//!  |                               |          code (32)            |
//!  +-------------------------------+-------------------------------+
//!  |              (code)           |  regions, 12 bytes each       |
//!  +-------------------------------+ ... then the literal bytes    |
//! ```
//!
//! The code authenticates everything before the literals, so that a decoder acts only on references
//! of its encoder. The digest authenticates the restored payload.
//!
//! The IP header stays the same except for protocol, length and checksum. A region stands for `gap`
//! literal bytes, then `length` bytes from offset `offset` in the payload of the named packet. The
//! remaining literals end the payload.

use super::digest::{Key, NAME_BITS};
use crate::{FromBytes, IntoBytes};
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{Immutable, KnownLayout, Unaligned};

/// The version described here.
pub const VERSION: u8 = 2;
/// Length of [`Header`] in bytes.
pub const HEADER: usize = 18;
/// Length of the part of the header that its code authenticates.
const SIGNED: usize = 14;
/// Length of [`Region`] in bytes.
pub const REGION: usize = 12;
/// Largest number of regions in a packet.
pub const MOST_REGIONS: usize = 32;
/// Longest payload that is encoded or cached: that of a jumbo frame.
pub const LONGEST_PAYLOAD: usize = 9216;

/// The fixed part of the format.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Version (4 bits) and zero (4 bits).
    pub version: u8,
    /// Stream, which identifies the encoder if a decoder serves several.
    pub stream: u8,
    /// Low bits of the decoder's epoch, as known to the encoder.
    pub generation: U16,
    /// Protocol number of the original IP header.
    pub protocol: u8,
    /// Number of [`Region`]s that follow.
    pub regions: u8,
    /// [`super::Key::digest`] of the original payload and protocol.
    pub digest: U64,
    /// Code over the fields above and the regions.
    pub code: U32,
}

impl Header {
    /// Sets the code for these regions, which are the bytes of [`Region`]s.
    pub fn sign(&mut self, regions: &[u8], key: &Key) {
        self.code = self.code_with(regions, key).into();
    }

    fn code_with(&self, regions: &[u8], key: &Key) -> u32 {
        let bytes = self.as_bytes();
        key.header_code(bytes.get(..SIGNED).unwrap_or_default(), regions)
    }
}

/// A reference to bytes that were left out.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Region {
    /// Name of the packet with these bytes, 48 bits.
    pub name: [u8; 6],
    /// Offset of the bytes in that packet's payload.
    pub offset: U16,
    /// Number of bytes.
    pub length: U16,
    /// Literal bytes between the end of the last region and this one.
    pub gap: U16,
}

impl Region {
    /// Makes a region.
    #[must_use]
    pub fn new(name: u64, offset: u16, length: u16, gap: u16) -> Self {
        let [_, _, a, b, c, d, e, f] = name.to_be_bytes();
        let [offset, length, gap] = [offset, length, gap].map(U16::new);
        Self { name: [a, b, c, d, e, f], offset, length, gap }
    }

    /// Returns the name as a number below 2^48.
    #[must_use]
    pub fn name(&self) -> u64 {
        let [a, b, c, d, e, f] = self.name;
        const { assert!(NAME_BITS == 48) };
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }
}

/// Reasons why bytes are no encoded packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadHeader {
    /// The bytes end within the header or the regions.
    #[error("truncated")]
    Truncated,
    /// The version is another one, or bits are set that must be zero.
    #[error("another version")]
    Version,
    /// There is no region or too many, or one of zero length.
    #[error("impossible regions")]
    Regions,
    /// Gaps exceed the literals, or the total length is too large.
    #[error("impossible lengths")]
    Lengths,
}

/// An encoded packet, checked as far as possible without a cache: the gaps fit the literals, and
/// the total length is at most [`LONGEST_PAYLOAD`].
#[derive(Debug, Clone, Copy)]
pub struct Encoded<'a> {
    /// The fixed part.
    pub header: &'a Header,
    /// References to the bytes that were left out, in order.
    pub regions: &'a [Region],
    /// The remaining bytes.
    pub literals: &'a [u8],
    /// Length of the original payload in bytes.
    pub length: usize,
}

impl<'a> Encoded<'a> {
    /// Returns true if header and regions are from an encoder that has the key.
    #[must_use]
    pub fn is_authentic(&self, key: &Key) -> bool {
        self.header.code.get() == self.header.code_with(self.regions.as_bytes(), key)
    }

    /// Parses the bytes after an IP header.
    ///
    /// # Errors
    /// Returns the first fault.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BadHeader> {
        let (header, rest) = Header::ref_from_prefix(bytes).map_err(|_| BadHeader::Truncated)?;
        if header.version != VERSION << 4 {
            return Err(BadHeader::Version);
        }
        let count = usize::from(header.regions);
        if count == 0 || count > MOST_REGIONS {
            return Err(BadHeader::Regions);
        }
        let (regions, literals) = <[Region]>::ref_from_prefix_with_elems(rest, count)
            .map_err(|_| BadHeader::Truncated)?;
        if regions.iter().any(|region| region.length.get() == 0) {
            return Err(BadHeader::Regions);
        }
        let sum = |field: fn(&Region) -> U16| -> usize {
            regions.iter().map(|region| usize::from(field(region).get())).sum()
        };
        let length = sum(|region| region.length) + literals.len();
        if sum(|region| region.gap) > literals.len() || length > LONGEST_PAYLOAD {
            return Err(BadHeader::Lengths);
        }
        Ok(Self { header, regions, literals, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(regions: &[Region], literals: &[u8]) -> Vec<u8> {
        let mut header = Header {
            version: VERSION << 4,
            stream: 3,
            generation: 7.into(),
            protocol: 6,
            regions: regions.len() as u8,
            digest: 0x0102_0304_0506_0708.into(),
            code: 0.into(),
        };
        header.sign(regions.as_bytes(), &Key::from_secret("secret"));
        [header.as_bytes(), regions.as_bytes(), literals].concat()
    }

    #[test]
    fn sizes_are_those_of_the_figure() {
        assert_eq!((size_of::<Header>(), size_of::<Region>()), (HEADER, REGION));
    }

    #[test]
    fn reads_what_was_written() {
        let name = (1 << NAME_BITS) - 2;
        let regions = [Region::new(name, 4, 100, 20), Region::new(5, 0, 50, 0)];
        let bytes = message(&regions, &[9; 30]);
        let encoded = Encoded::parse(&bytes).unwrap();
        assert_eq!((encoded.length, encoded.literals.len()), (180, 30));
        assert_eq!((encoded.regions[0].name(), encoded.regions[1].name()), (name, 5));
        assert_eq!((encoded.header.stream, encoded.header.protocol), (3, 6));
    }

    #[test]
    fn every_check_can_fail() {
        let parse = |bytes: &[u8]| Encoded::parse(bytes).unwrap_err();
        let region = Region::new(1, 0, 10, 5);
        let good = message(&[region], &[0; 5]);
        assert_eq!(parse(&good[..13]), BadHeader::Truncated);
        assert_eq!(parse(&good[..20]), BadHeader::Truncated);
        for version in [0x10, 0x30, 0x21, 0] {
            let mut bytes = good.clone();
            bytes[0] = version;
            assert_eq!(parse(&bytes), BadHeader::Version);
        }
        assert_eq!(parse(&message(&[], &[])), BadHeader::Regions);
        assert_eq!(parse(&message(&[region; 33], &[0; 500])), BadHeader::Regions);
        assert_eq!(parse(&message(&[Region::new(1, 0, 0, 0)], &[])), BadHeader::Regions);
        assert_eq!(parse(&message(&[region], &[0; 4])), BadHeader::Lengths);
        let long = Region::new(1, 0, 9000, 0);
        assert_eq!(parse(&message(&[long, long], &[])), BadHeader::Lengths);
    }

    #[test]
    fn header_and_regions_are_authenticated() {
        let key = Key::from_secret("secret");
        let regions = [Region::new(1, 4, 100, 3), Region::new(5, 0, 50, 0)];
        let bytes = message(&regions, &[9; 30]);
        assert!(Encoded::parse(&bytes).unwrap().is_authentic(&key));
        assert!(!Encoded::parse(&bytes).unwrap().is_authentic(&Key::from_secret("")));
        for at in 0..HEADER + 2 * REGION {
            let mut forged = bytes.clone();
            forged[at] ^= 1;
            assert!(!Encoded::parse(&forged).is_ok_and(|it| it.is_authentic(&key)), "{at}");
        }
    }

    proptest! {
        #[test]
        fn lengths_of_accepted_packets_add_up(mut bytes: Vec<u8>, count in 0u8..40) {
            if bytes.len() > 5 {
                bytes[0] = VERSION << 4;
                bytes[5] = count;
            }
            if let Ok(encoded) = Encoded::parse(&bytes) {
                prop_assert!(encoded.length <= LONGEST_PAYLOAD);
                prop_assert!(encoded.regions.len() == usize::from(count));
            }
        }
    }
}
