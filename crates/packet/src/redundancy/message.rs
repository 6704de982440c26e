//! Envelope of the messages between decoder and encoder over UDP.
//!
//! ```text
//! magic "WRE2" (4)  kind (1)  stream (1)  number of names (2)  fields (8 each)
//! names (8 each)  code over all before (8)
//! ```

use super::digest::Key;

/// Magic number without the version.
const MAGIC: [u8; 3] = *b"WRE";
/// Version in the last byte of the magic number; that of encoded packets.
const VERSION: u8 = b'0' + super::header::VERSION;
const FIXED: usize = 8;

/// Reasons why bytes are no message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The bytes do not have the format above.
    #[error("malformed")]
    Malformed,
    /// The sender has another version of the protocol.
    #[error("another version of the protocol")]
    Version,
    /// The code is wrong: the message is damaged, or its sender lacks the secret.
    #[error("wrong code: damaged, or the secrets differ")]
    Code,
}

/// Message of any kind with `N` fields.
pub(super) struct Message<const N: usize> {
    pub kind: u8,
    pub stream: u8,
    pub fields: [u64; N],
    pub names: Vec<u64>,
}

impl<const N: usize> Message<N> {
    /// Encodes the message with its code.
    pub fn write(&self, key: &Key) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + 8 * (N + self.names.len() + 1));
        bytes.extend(MAGIC);
        bytes.extend([VERSION, self.kind, self.stream]);
        bytes.extend((self.names.len() as u16).to_be_bytes());
        bytes.extend(self.fields.iter().chain(&self.names).flat_map(|word| word.to_be_bytes()));
        bytes.extend(key.message_code(&bytes).to_be_bytes());
        bytes
    }

    /// Parses a message with at most `most` names.
    pub fn parse(bytes: &[u8], most: usize, key: &Key) -> Result<Self, MessageError> {
        let malformed = MessageError::Malformed;
        let (message, code) = bytes.split_last_chunk::<8>().ok_or(malformed)?;
        let (fixed, words) = message.split_first_chunk::<FIXED>().ok_or(malformed)?;
        let [m, a, g, version, kind, stream, high, low] = *fixed;
        if [m, a, g] != MAGIC {
            return Err(malformed);
        }
        if version != VERSION {
            return Err(MessageError::Version);
        }
        let count = usize::from(u16::from_be_bytes([high, low]));
        let (words, rest) = words.as_chunks::<8>();
        let (fields, names) = words.split_first_chunk::<N>().ok_or(malformed)?;
        if !rest.is_empty() || names.len() != count || count > most {
            return Err(malformed);
        }
        if key.message_code(message) != u64::from_be_bytes(*code) {
            return Err(MessageError::Code);
        }
        let names = names.iter().map(|word| u64::from_be_bytes(*word)).collect();
        Ok(Self { kind, stream, fields: fields.map(u64::from_be_bytes), names })
    }
}
