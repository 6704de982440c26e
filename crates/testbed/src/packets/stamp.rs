//! Contents of a measured packet: 18 bytes, so that a frame of 64 bytes has room for it.
//!
//! ```text
//!  0       2     3        4                  9                         16          18
//!  ┌───────┬─────┬────────┬──────────────────┬─────────────────────────┬───────────┐
//!  │ magic │ run │ stream │ sequence number  │ time of sending, ns     │ checksum  │
//!  └───────┴─────┴────────┴──────────────────┴─────────────────────────┴───────────┘
//! ```
//!
//! The sequence number counts the packets of one stream (one sending queue). Flows take turns in a
//! stream, so the number determines the flow and the number within the flow.

/// Length in bytes.
pub const LENGTH: usize = 18;
const MAGIC: [u8; 2] = [0x57, 0xa7];
/// Sequence numbers have 40 bits: ten million packets per second for thirty hours.
pub const SEQUENCE_MAX: u64 = (1 << 40) - 1;
/// Times have 56 bits: two years, after which they begin anew.
const TIME_MASK: u64 = (1 << 56) - 1;

/// Content of a measured packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the trial, which identifies late packets of the previous trial.
    pub run: u8,
    /// Number of the stream, from 0.
    pub stream: u8,
    /// Number of the packet in the stream, from 0.
    pub sequence: u64,
    /// Sending time on [`crate::clock`]; the lower 56 bits.
    pub nanos: u64,
}

/// Kind of a payload's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parsed {
    /// A measured packet.
    Stamp(Stamp),
    /// A packet with the magic number whose content does not match its checksum.
    Corrupt,
    /// Something else.
    Foreign,
}

impl Stamp {
    /// Returns the bytes on the wire.
    pub fn emit(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = self.run;
        bytes[3] = self.stream;
        bytes[4..9].copy_from_slice(&self.sequence.to_be_bytes()[3..]);
        bytes[9..16].copy_from_slice(&self.nanos.to_be_bytes()[1..]);
        let checksum = checksum(&bytes);
        bytes[16..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Parses a payload, which may be longer.
    pub fn parse(payload: &[u8]) -> Parsed {
        let Some(bytes) = payload.first_chunk::<LENGTH>() else { return Parsed::Foreign };
        if bytes[..2] != MAGIC {
            return Parsed::Foreign;
        }
        if bytes[16..] != checksum(bytes).to_be_bytes() {
            return Parsed::Corrupt;
        }
        let (mut sequence, mut nanos) = ([0; 8], [0; 8]);
        sequence[3..].copy_from_slice(&bytes[4..9]);
        nanos[1..].copy_from_slice(&bytes[9..16]);
        Parsed::Stamp(Self {
            run: bytes[2],
            stream: bytes[3],
            sequence: u64::from_be_bytes(sequence),
            nanos: u64::from_be_bytes(nanos),
        })
    }

    /// Returns the nanoseconds from sending until `now`; 0 if the packet appears to come from the
    /// future.
    pub fn age(self, now: u64) -> u64 {
        let age = now.wrapping_sub(self.nanos) & TIME_MASK;
        // More than a year: the difference is negative.
        if age > TIME_MASK / 2 { 0 } else { age }
    }
}

/// Returns a hash of the first 16 bytes; any changed bit changes half of the result's bits.
fn checksum(bytes: &[u8; LENGTH]) -> u16 {
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word));
    // Odd constants of Stafford's mixer 13 (as in SplitMix64).
    let mixed = (word(0) ^ word(8).rotate_left(29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27) ^ word(8)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed >> 48) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp() -> Stamp {
        Stamp { run: 200, stream: 3, sequence: SEQUENCE_MAX - 1, nanos: TIME_MASK - 5 }
    }

    #[test]
    fn written_stamp_is_read_back() {
        let mut bytes = stamp().emit().to_vec();
        bytes.extend([0xee; 7]);
        assert_eq!(Stamp::parse(&bytes), Parsed::Stamp(stamp()));
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        for bit in 0..LENGTH * 8 {
            let mut bytes = stamp().emit();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let expected = if bit < 16 { Parsed::Foreign } else { Parsed::Corrupt };
            assert_eq!(Stamp::parse(&bytes), expected, "bit {bit}");
        }
    }

    #[test]
    fn truncated_and_unknown_payloads_are_foreign() {
        assert_eq!(Stamp::parse(&[]), Parsed::Foreign);
        assert_eq!(Stamp::parse(&stamp().emit()[..LENGTH - 1]), Parsed::Foreign);
        assert_eq!(Stamp::parse(&[0; 64]), Parsed::Foreign);
    }

    #[test]
    fn age_handles_wrap_and_a_clock_that_goes_back() {
        let sent = Stamp { nanos: TIME_MASK, ..stamp() };
        assert_eq!(sent.age(TIME_MASK + 10), 10);
        assert_eq!(Stamp { nanos: 1000, ..stamp() }.age(400), 0);
    }
}
