//! The digest that names and protects payloads: HighwayHash, keyed, 64 bits.
//!
//! With a secret that only the two routers know, only they can make a packet that the decoder
//! accepts. Without a secret it is a checksum that misses one damaged packet in 2^64.

use highway::{HighwayHash, HighwayHasher};

/// Number of digest bits in the name of a packet, by which regions refer to it.
pub const NAME_BITS: u32 = 48;

/// Returns the name of the packet with this digest.
#[inline]
#[must_use]
pub fn name_of(digest: u64) -> u64 {
    digest & ((1 << NAME_BITS) - 1)
}

/// A secret shared by encoder and decoder. Each kind of code has its own key. Encoded packets
/// contain the digest of a payload, which a sender may choose, so a digest must never be valid as
/// the code of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    payloads: [u64; 4],
    headers: [u64; 4],
    messages: [u64; 4],
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Key(…)")
    }
}

impl Key {
    /// Makes a key from a text; an empty text gives the key without a secret.
    #[must_use]
    pub fn from_secret(secret: &str) -> Self {
        let derive = |purpose| {
            let hasher = HighwayHasher::new(highway::Key([0x57a7, 0x711e, 0x5ec2, purpose]));
            hasher.hash256(secret.as_bytes())
        };
        Self { payloads: derive(0xe700), headers: derive(0xe701), messages: derive(0xe702) }
    }

    /// Returns the digest of a payload and its protocol number.
    #[inline]
    #[must_use]
    pub fn digest(&self, payload: &[u8], protocol: u8) -> u64 {
        let mut hasher = HighwayHasher::new(highway::Key(self.payloads));
        hasher.append(payload);
        hasher.append(&[protocol]);
        hasher.finalize64()
    }

    /// Returns the code that authenticates header and regions of an encoded packet.
    #[inline]
    #[must_use]
    pub(super) fn header_code(&self, header: &[u8], regions: &[u8]) -> u32 {
        let mut hasher = HighwayHasher::new(highway::Key(self.headers));
        hasher.append(header);
        hasher.append(regions);
        hasher.finalize64() as u32
    }

    /// Returns the code that authenticates a message between the two routers.
    #[must_use]
    pub(super) fn message_code(&self, message: &[u8]) -> u64 {
        HighwayHasher::new(highway::Key(self.messages)).hash64(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_input_counts() {
        let key = Key::from_secret("one");
        let digest = key.digest(b"payload", 6);
        assert_eq!(digest, key.digest(b"payload", 6));
        assert_ne!(digest, key.digest(b"payloae", 6));
        assert_ne!(digest, key.digest(b"payload", 17));
        assert_ne!(digest, Key::from_secret("two").digest(b"payload", 6));
        assert_ne!(digest, Key::from_secret("").digest(b"payload", 6));
        assert_eq!(format!("{key:?}"), "Key(…)", "secrets are not printed");
    }

    #[test]
    fn a_digest_is_no_code_of_a_message_or_header() {
        let key = Key::from_secret("one");
        for kind in [0, 6, 255] {
            let with_kind = [&b"payload"[..], &[kind]].concat();
            let digest = key.digest(b"payload", kind);
            let codes = [key.message_code(&with_kind), key.message_code(b"payload")];
            assert!(!codes.contains(&digest));
            assert_ne!(digest as u32, key.header_code(b"payload", &[kind]));
        }
    }

    #[test]
    fn digest_never_changes() {
        // Routers of different builds (and processors) must agree.
        assert_eq!(Key::from_secret("").digest(b"wattline", 6), FROZEN);
    }
    const FROZEN: u64 = 1_478_493_511_899_488_966;
}
