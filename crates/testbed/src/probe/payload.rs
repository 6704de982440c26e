//! Contents of a probe packet: 18 bytes, so that a frame of 64 bytes has room for it.
//!
//! ```text
//!  0        2        4                          10                                18
//!  ┌────────┬────────┬──────────────────────────┬─────────────────────────────────┐
//!  │ magic  │ flow   │ sequence number in flow  │ time of sending, nanoseconds    │
//!  └────────┴────────┴──────────────────────────┴─────────────────────────────────┘
//! ```

/// Length in bytes.
pub const LENGTH: usize = 18;
const MAGIC: [u8; 2] = *b"WL";

/// Content of a probe packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// Number of the flow, from 0.
    pub flow: u16,
    /// Number of the packet in the flow, from 0; 48 bits.
    pub sequence: u64,
    /// Sending time on [`crate::clock`].
    pub nanos: u64,
}

impl Payload {
    /// Writes the content to the start of a packet's payload.
    ///
    /// # Panics
    /// Panics if `bytes` is shorter than [`LENGTH`].
    pub fn emit(self, bytes: &mut [u8]) {
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2..4].copy_from_slice(&self.flow.to_be_bytes());
        bytes[4..10].copy_from_slice(&self.sequence.to_be_bytes()[2..]);
        bytes[10..LENGTH].copy_from_slice(&self.nanos.to_be_bytes());
    }

    /// Parses the content; `None` if the bytes are not a probe's.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<2>()?;
        let (flow, rest) = rest.split_first_chunk::<2>()?;
        let (sequence, rest) = rest.split_first_chunk::<6>()?;
        let nanos = rest.first_chunk::<8>()?;
        if *magic != MAGIC {
            return None;
        }
        let mut wide = [0; 8];
        wide[2..].copy_from_slice(sequence);
        Some(Self {
            flow: u16::from_be_bytes(*flow),
            sequence: u64::from_be_bytes(wide),
            nanos: u64::from_be_bytes(*nanos),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_stamp_is_read_back() {
        let payload = Payload { flow: 513, sequence: (1 << 48) - 2, nanos: u64::MAX - 1 };
        let mut bytes = [0xee; LENGTH + 4];
        payload.emit(&mut bytes);
        assert_eq!(Payload::parse(&bytes), Some(payload));
        assert_eq!(bytes[LENGTH..], [0xee; 4]);
    }

    #[test]
    fn unknown_and_truncated_payloads_are_refused() {
        let mut bytes = [0; LENGTH];
        assert_eq!(Payload::parse(&bytes), None);
        Payload { flow: 1, sequence: 2, nanos: 3 }.emit(&mut bytes);
        assert_eq!(Payload::parse(&bytes[..LENGTH - 1]), None);
        assert_eq!(Payload::parse(&[]), None);
    }
}
