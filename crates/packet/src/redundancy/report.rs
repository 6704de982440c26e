//! Reports from a decoder to its encoder: a sign of life, the size of its cache, the offered
//! payloads in it, and missing packets.

use super::digest::Key;
use super::message::{Message, MessageError};

/// Largest number of missing packets in a report, so that it fits any link.
pub const MOST_MISSING: usize = 64;
const KIND: u8 = 1;

/// Set of the payloads of one offer, by their place in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Present(u128);

impl Present {
    /// Adds a place below [`super::MOST_OFFERED`].
    pub fn add(&mut self, place: usize) {
        self.0 |= u32::try_from(place).ok().and_then(|it| 1u128.checked_shl(it)).unwrap_or(0);
    }

    /// Returns true if the place is in the set.
    #[must_use]
    pub fn has(self, place: usize) -> bool {
        u32::try_from(place).ok().and_then(|it| self.0.checked_shr(it)).unwrap_or(0) & 1 == 1
    }
}

/// One report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Stream of the encoder.
    pub stream: u8,
    /// Random number of this run of the decoder.
    pub epoch: u64,
    /// Token of the encoder's last challenge; 0 before the first.
    pub token: u64,
    /// Number of the report, which increases by at least one with each report of an epoch.
    pub counter: u64,
    /// Capacity of the decoder's cache in bytes, counted as in [`crate::redundancy`].
    pub capacity: u64,
    /// Number of the offer that is answered; 0 for none.
    pub offer: u64,
    /// Offered payloads that are in the cache now.
    pub present: Present,
    /// Names of packets that it needs and does not have; at most [`MOST_MISSING`].
    pub missing: Vec<u64>,
}

impl Report {
    /// Encodes the report; names beyond [`MOST_MISSING`] are omitted.
    #[must_use]
    pub fn write(&self, key: &Key) -> Vec<u8> {
        let Self { epoch, token, counter, capacity, offer, present, .. } = *self;
        let [high, low] = [(present.0 >> 64) as u64, present.0 as u64];
        let fields = [epoch, token, counter, capacity, offer, high, low];
        let names = self.missing.iter().copied().take(MOST_MISSING).collect();
        Message { kind: KIND, stream: self.stream, fields, names }.write(key)
    }

    /// Parses a report.
    ///
    /// # Errors
    /// Fails when the bytes are no report, or when the sender has another key or version.
    pub fn parse(bytes: &[u8], key: &Key) -> Result<Self, MessageError> {
        let Message { kind, stream, fields, names } = Message::parse(bytes, MOST_MISSING, key)?;
        if kind != KIND {
            return Err(MessageError::Malformed);
        }
        let [epoch, token, counter, capacity, offer, high, low] = fields;
        let present = Present(u128::from(high) << 64 | u128::from(low));
        Ok(Self { stream, epoch, token, counter, capacity, offer, present, missing: names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn report(missing: Vec<u64>) -> Report {
        let mut present = Present::default();
        [0, 63, 64, 127].into_iter().for_each(|place| present.add(place));
        let (epoch, token, counter, capacity, offer) = (77, 5, 9, 1 << 30, 3);
        Report { stream: 1, epoch, token, counter, capacity, offer, present, missing }
    }

    #[test]
    fn reads_what_was_written() {
        let key = Key::from_secret("secret");
        for missing in [vec![], vec![1, u64::MAX >> 16], (0..64).collect()] {
            let message = report(missing);
            assert_eq!(Report::parse(&message.write(&key), &key), Ok(message));
        }
        let parsed = Report::parse(&report((0..300).collect()).write(&key), &key).unwrap();
        assert_eq!(parsed.missing.len(), MOST_MISSING);
        let places: Vec<usize> = (0..200).filter(|place| parsed.present.has(*place)).collect();
        assert_eq!(places, [0, 63, 64, 127]);
    }

    #[test]
    fn strangers_other_versions_and_damage_are_refused() {
        let key = Key::from_secret("secret");
        let bytes = report(vec![5, 6]).write(&key);
        let stranger = Key::from_secret("guess");
        assert_eq!(Report::parse(&bytes, &stranger), Err(MessageError::Code));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            assert!(Report::parse(&damaged, &key).is_err(), "{at}");
            assert!(Report::parse(&bytes[..at], &key).is_err(), "{at}");
        }
        let mut older = bytes;
        older[3] = b'1';
        assert_eq!(Report::parse(&older, &key), Err(MessageError::Version));
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(mut bytes: Vec<u8>) {
            let key = Key::from_secret("");
            prop_assert!(Report::parse(&bytes, &key).is_err());
            if let Some(magic) = bytes.get_mut(..5) {
                magic.copy_from_slice(b"WRE2\x01");
            }
            prop_assert!(Report::parse(&bytes, &key).is_err());
        }
    }
}
