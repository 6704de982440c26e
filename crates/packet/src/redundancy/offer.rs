//! Messages from an encoder to its decoder: challenges, which prove that reports are fresh, and
//! offers of payloads that were sent.

use super::digest::Key;
use super::message::{Message, MessageError};

/// Largest number of payloads in an offer, so that it fits any link.
pub const MOST_OFFERED: usize = 128;
const CHALLENGE: u8 = 2;
const OFFER: u8 = 3;

/// Purpose of a message from an encoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferKind {
    /// Reports are accepted once they contain the token.
    Challenge {
        /// Counter of the report that is answered.
        report: u64,
    },
    /// Payloads were sent. Packets may refer to them if the decoder confirms that it has them.
    Offer {
        /// Number of the offer, which increases with each offer of a token.
        number: u64,
    },
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// Stream of the encoder.
    pub stream: u8,
    /// Epoch of the decoder.
    pub epoch: u64,
    /// Random number of the encoder for this epoch.
    pub token: u64,
    /// Purpose of the message.
    pub kind: OfferKind,
    /// Digests of the offered payloads; at most [`MOST_OFFERED`].
    pub digests: Vec<u64>,
}

impl Offer {
    /// Encodes the message; digests beyond [`MOST_OFFERED`] are omitted.
    #[must_use]
    pub fn write(&self, key: &Key) -> Vec<u8> {
        let (kind, number) = match self.kind {
            OfferKind::Challenge { report } => (CHALLENGE, report),
            OfferKind::Offer { number } => (OFFER, number),
        };
        let fields = [self.epoch, self.token, number];
        let names = self.digests.iter().copied().take(MOST_OFFERED).collect();
        Message { kind, stream: self.stream, fields, names }.write(key)
    }

    /// Parses a message.
    ///
    /// # Errors
    /// Fails when the bytes are no such message, or when the sender has another key or version.
    pub fn parse(bytes: &[u8], key: &Key) -> Result<Self, MessageError> {
        let Message { kind, stream, fields, names } = Message::parse(bytes, MOST_OFFERED, key)?;
        let [epoch, token, number] = fields;
        let kind = match kind {
            CHALLENGE => OfferKind::Challenge { report: number },
            OFFER => OfferKind::Offer { number },
            _ => return Err(MessageError::Malformed),
        };
        Ok(Self { stream, epoch, token, kind, digests: names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redundancy::{Present, Report};
    use proptest::prelude::*;

    fn offer(kind: OfferKind) -> Offer {
        Offer { stream: 1, epoch: 77, token: 5, kind, digests: vec![1, u64::MAX] }
    }

    #[test]
    fn reads_what_was_written() {
        let key = Key::from_secret("secret");
        for kind in [OfferKind::Challenge { report: 7 }, OfferKind::Offer { number: 8 }] {
            let message = offer(kind);
            let bytes = message.write(&key);
            assert_eq!(Offer::parse(&bytes, &key), Ok(message));
            assert_eq!(Offer::parse(&bytes, &Key::from_secret("")), Err(MessageError::Code));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 4;
                assert!(Offer::parse(&damaged, &key).is_err(), "{at}");
                assert!(Offer::parse(&bytes[..at], &key).is_err(), "{at}");
            }
        }
    }

    #[test]
    fn a_message_sent_back_to_its_sender_is_refused() {
        let key = Key::from_secret("secret");
        let present = Present::default();
        let (epoch, token, counter, capacity, offered) = (1, 2, 3, 4, 5);
        let missing = vec![];
        let report =
            Report { stream: 0, epoch, token, counter, capacity, offer: offered, present, missing };
        assert!(Offer::parse(&report.write(&key), &key).is_err());
        let message = Offer { digests: vec![1; 4], ..offer(OfferKind::Offer { number: 1 }) };
        assert!(Report::parse(&message.write(&key), &key).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused(mut bytes: Vec<u8>, kind in 2u8..4) {
            let key = Key::from_secret("");
            prop_assert!(Offer::parse(&bytes, &key).is_err());
            if let Some(magic) = bytes.get_mut(..5) {
                magic.copy_from_slice(&[b'W', b'R', b'E', b'2', kind]);
            }
            prop_assert!(Offer::parse(&bytes, &key).is_err());
        }
    }
}
