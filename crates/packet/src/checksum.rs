//! The Internet checksum: whole (RFC 1071) and incremental (RFC 1624).
//!
//! A sum is kept in *native* byte order while it is computed. The one's complement sum commutes
//! with byte swapping (RFC 1071 section 2 B), so only the result has to be swapped.

/// A one's complement sum in progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sum(u64);

impl Sum {
    /// Makes an empty sum.
    pub const fn new() -> Self {
        Self(0)
    }

    /// Adds bytes. An odd last byte counts as if a zero followed, so only the last piece of a
    /// message may be odd.
    #[must_use]
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<4>();
        for word in words {
            self.0 += u64::from(u32::from_ne_bytes(*word));
        }
        let (halves, odd) = rest.as_chunks::<2>();
        for half in halves {
            self.0 += u64::from(u16::from_ne_bytes(*half));
        }
        if let [last] = odd {
            self.0 += u64::from(u16::from_ne_bytes([*last, 0]));
        }
        self
    }

    /// Adds a number in the byte order of the wire.
    #[must_use]
    pub fn word(mut self, value: u32) -> Self {
        self.0 += u64::from(value.to_be());
        self
    }

    /// Returns the checksum to write into the header (the complement of the sum), in host byte
    /// order.
    #[must_use]
    pub fn checksum(self) -> u16 {
        !u16::from_be(fold(self.0))
    }

    /// Returns true if the added bytes, including their checksum field, are intact.
    #[must_use]
    pub fn is_intact(self) -> bool {
        fold(self.0) == 0xffff
    }
}

/// Adds the carries back in until 16 bits are left.
#[inline]
fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// Returns true if an IPv4 header without options carries the right checksum.
#[inline]
pub fn ipv4_header_is_intact(header: &[u8; 20]) -> bool {
    let [a, b] = [0, 8].map(|at| {
        let [c, d, e, f, g, h, i, j] = *header[at..].first_chunk().unwrap_or(&[0; 8]);
        u64::from_ne_bytes([c, d, e, f, g, h, i, j])
    });
    let mut last = [0; 4];
    last.copy_from_slice(&header[16..]);
    let last = u32::from_ne_bytes(last);
    // A one's complement sum may be taken in words of any length and folded afterwards
    // (RFC 1071 section 2 C): three additions here, carries put back in.
    let (sum, carry) = a.overflowing_add(b);
    let (sum, more) = sum.overflowing_add(u64::from(last) + u64::from(carry));
    // Adding the carries back is a remainder by 65535, in which all ones is zero. The sum must
    // therefore be a multiple of 65535 (not 0, since the version is not 0). Multiplication by the
    // inverse of 65535 modulo 2^64 maps exactly its multiples to the smallest numbers.
    const INVERSE: u64 = 0xfffe_fffe_fffe_ffff;
    const { assert!(INVERSE.wrapping_mul(0xffff) == 1) };
    (sum + u64::from(more)).wrapping_mul(INVERSE) <= u64::MAX / 0xffff
}

/// Returns the checksum of a message in which a 16-bit word `old` became `new`: RFC 1624 equation
/// 3, `HC' = ~(~HC + ~m + m')`.
///
/// The equation of RFC 1141 gives 0xffff where the full computation gives 0x0000;
/// this one does not.
#[inline]
#[must_use]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum >> 16) + (sum & 0xffff);
    !(((sum >> 16) + (sum & 0xffff)) as u16)
}

/// TTL, protocol and checksum of an IPv4 header, which are adjacent, as one number, so that TTL and
/// checksum change in one addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TtlAndChecksum(u32);

impl TtlAndChecksum {
    /// Takes the four bytes from the TTL on.
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: [u8; 4]) -> Self {
        Self(u32::from_le_bytes(bytes))
    }

    /// Returns the TTL.
    #[inline]
    #[must_use]
    pub fn ttl(self) -> u8 {
        self.0 as u8
    }

    /// Returns the same with the TTL decremented; the TTL must not be 0. This is [`update`] with
    /// the TTL as the first byte of its word. In little-endian order it is `HC' = HC + 1` in one's
    /// complement, and 0xffff is written as 0x0000.
    #[inline]
    #[must_use]
    pub fn decremented(self) -> Self {
        let carry = if self.0 >= 0xfffe_0000 { 0x0001_0000 } else { 0 };
        Self(self.0.wrapping_add(0x0001_0000 - 1).wrapping_add(carry))
    }

    /// Returns the four bytes to write back.
    #[inline]
    #[must_use]
    pub fn to_bytes(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sums word by word, as in RFC 1071 section 4.1.
    fn by_the_book(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }

    #[test]
    fn rfc_1071_example() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).checksum(), !0xddf2);
    }

    #[test]
    fn rfc_1624_example_where_rfc_1141_fails() {
        // Section 4: HC = 0xDD2F, m = 0x5555, m' = 0x3285 gives 0x0000, not 0xFFFF.
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn ttl_shortcut_equals_the_equation_for_all_checksums() {
        for (ttl, protocol) in [(0x40, 0x11), (1, 0), (255, 255), (2, 6)] {
            for checksum in 0..=u16::MAX {
                let word = |ttl| u16::from_be_bytes([ttl, protocol]);
                let [high, low] = update(checksum, word(ttl), word(ttl - 1)).to_be_bytes();
                let [before_high, before_low] = checksum.to_be_bytes();
                let field = TtlAndChecksum::from_bytes([ttl, protocol, before_high, before_low]);
                assert_eq!(field.ttl(), ttl);
                assert_eq!(field.decremented().to_bytes(), [ttl - 1, protocol, high, low]);
            }
        }
    }

    proptest! {
        #[test]
        fn equals_the_book(bytes: Vec<u8>) {
            prop_assert_eq!(Sum::new().bytes(&bytes).checksum(), by_the_book(&bytes));
        }

        #[test]
        fn header_check_equals_the_sum(mut header: [u8; 20], damage in 0u8..4) {
            header[0] = 0x45;
            header[10..12].fill(0);
            let checksum = by_the_book(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            header[19] ^= damage;
            prop_assert_eq!(ipv4_header_is_intact(&header), damage == 0);
            prop_assert_eq!(Sum::new().bytes(&header).is_intact(), damage == 0);
        }

        #[test]
        fn update_equals_full_recomputation(mut words: [u16; 10], at in 1usize..10, new: u16) {
            words[0] = 0x4500;
            let bytes = |words: &[u16; 10]| -> Vec<u8> {
                words.iter().flat_map(|word| word.to_be_bytes()).collect()
            };
            let before = by_the_book(&bytes(&words));
            let old = words[at];
            words[at] = new;
            prop_assert_eq!(update(before, old, new), by_the_book(&bytes(&words)));
        }
    }
}
