//! Reports from a decoder to its encoder over UDP: that it is alive, the size of its cache, and the
//! packets that it lacks.
//!
//! ```text
//! magic "WRE1" (4)  stream (1)  zero (1)  count (2)  epoch (8)  capacity (8)
//! names (8 each, count of them)  digest of all before (8)
//! ```

use super::digest::Key;
use crate::{FromBytes, IntoBytes};
use zerocopy::byteorder::network_endian::{U16, U64};
use zerocopy::{Immutable, KnownLayout, Unaligned};

/// Largest number of names in a message, so that it fits any link.
pub const MOST_MISSING: usize = 128;
const MAGIC: [u8; 4] = *b"WRE1";
/// Kind that distinguishes these digests from those of payloads, which never have this protocol
/// (IANA: reserved).
const KIND: u8 = 255;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fixed {
    magic: [u8; 4],
    stream: u8,
    zero: u8,
    count: U16,
    epoch: U64,
    capacity: U64,
}

/// One report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feedback {
    /// Stream of the encoder.
    pub stream: u8,
    /// Number that differs in every run of the decoder.
    pub epoch: u64,
    /// Capacity of the decoder's cache in bytes, counted as in [`crate::redundancy`].
    pub capacity: u64,
    /// Names of packets that it needs and lacks; at most [`MOST_MISSING`].
    pub missing: Vec<u64>,
}

/// Reasons why bytes are no report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FeedbackError {
    /// The bytes do not have the format above.
    #[error("malformed")]
    Malformed,
    /// The digest is wrong: the message is damaged, or its sender lacks the secret.
    #[error("wrong digest: damaged, or the secrets differ")]
    Digest,
}

impl Feedback {
    /// Encodes the report; names beyond [`MOST_MISSING`] are left out.
    #[must_use]
    pub fn write(&self, key: &Key) -> Vec<u8> {
        let missing = &self.missing[..self.missing.len().min(MOST_MISSING)];
        let fixed = Fixed {
            magic: MAGIC,
            stream: self.stream,
            zero: 0,
            count: (missing.len() as u16).into(),
            epoch: self.epoch.into(),
            capacity: self.capacity.into(),
        };
        let mut bytes = fixed.as_bytes().to_vec();
        bytes.extend(missing.iter().flat_map(|name| name.to_be_bytes()));
        let digest = key.digest(&bytes, KIND);
        bytes.extend(digest.to_be_bytes());
        bytes
    }

    /// Parses a report.
    ///
    /// # Errors
    /// Fails when the bytes are no report, or when the sender has another key.
    pub fn parse(bytes: &[u8], key: &Key) -> Result<Self, FeedbackError> {
        let (said, digest) = bytes.split_last_chunk::<8>().ok_or(FeedbackError::Malformed)?;
        let (fixed, names) = Fixed::ref_from_prefix(said).map_err(|_| FeedbackError::Malformed)?;
        let count = usize::from(fixed.count.get());
        let (names, rest) = names.as_chunks::<8>();
        let fits = count <= MOST_MISSING && names.len() == count && rest.is_empty();
        if fixed.magic != MAGIC || fixed.zero != 0 || !fits {
            return Err(FeedbackError::Malformed);
        }
        if key.digest(said, KIND) != u64::from_be_bytes(*digest) {
            return Err(FeedbackError::Digest);
        }
        Ok(Self {
            stream: fixed.stream,
            epoch: fixed.epoch.get(),
            capacity: fixed.capacity.get(),
            missing: names.iter().map(|name| u64::from_be_bytes(*name)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn feedback(missing: Vec<u64>) -> Feedback {
        Feedback { stream: 1, epoch: 77, capacity: 1 << 30, missing }
    }

    #[test]
    fn reads_what_was_written() {
        let key = Key::from_secret("secret");
        for missing in [vec![], vec![1, u64::MAX >> 16], (0..128).collect()] {
            let message = feedback(missing);
            assert_eq!(Feedback::parse(&message.write(&key), &key), Ok(message));
        }
        let parsed = Feedback::parse(&feedback((0..300).collect()).write(&key), &key).unwrap();
        assert_eq!(parsed.missing.len(), MOST_MISSING);
    }

    #[test]
    fn strangers_and_damage_are_refused() {
        let key = Key::from_secret("secret");
        let bytes = feedback(vec![5, 6]).write(&key);
        let stranger = Key::from_secret("guess");
        assert_eq!(Feedback::parse(&bytes, &stranger), Err(FeedbackError::Digest));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Feedback::parse(&damaged, &key).is_err(), "{at}");
            assert!(Feedback::parse(&bytes[..at], &key).is_err(), "{at}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(mut bytes: Vec<u8>) {
            let key = Key::from_secret("");
            prop_assert!(Feedback::parse(&bytes, &key).is_err());
            if let Some(magic) = bytes.get_mut(..4) {
                magic.copy_from_slice(&MAGIC);
            }
            prop_assert!(Feedback::parse(&bytes, &key).is_err());
        }
    }
}
