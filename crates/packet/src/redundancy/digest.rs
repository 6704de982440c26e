//! The digest that names and protects payloads: HighwayHash, keyed, 64 bits.
//!
//! With a secret that only the two routers know, nobody else can make a packet that the decoder
//! accepts. Without a
//! secret it is a checksum that misses one damaged packet in 2^64.

use highway::{HighwayHash, HighwayHasher};

/// Number of digest bits in the name of a packet, by which regions refer to it.
pub const NAME_BITS: u32 = 48;

/// Name of the packet with this digest.
#[inline]
#[must_use]
pub fn name_of(digest: u64) -> u64 {
    digest & ((1 << NAME_BITS) - 1)
}

/// A secret shared by encoder and decoder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u64; 4]);

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Key(…)")
    }
}

impl Key {
    /// Key from a text; the empty text gives the key without a secret.
    #[must_use]
    pub fn from_secret(secret: &str) -> Self {
        let hasher = HighwayHasher::new(highway::Key([0x57a7, 0x711e, 0x5ec2, 0xe700]));
        Self(hasher.hash256(secret.as_bytes()))
    }

    /// Digest of bytes and one more byte, which distinguishes kinds of messages (or protocols).
    #[inline]
    #[must_use]
    pub fn digest(&self, bytes: &[u8], kind: u8) -> u64 {
        let mut hasher = HighwayHasher::new(highway::Key(self.0));
        hasher.append(bytes);
        hasher.append(&[kind]);
        hasher.finalize64()
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
    fn the_digest_stays_what_it_is() {
        // Routers of different builds (and processors) must agree.
        assert_eq!(Key::from_secret("").digest(b"wattline", 6), FROZEN);
    }
    const FROZEN: u64 = 1_478_493_511_899_488_966;
}
