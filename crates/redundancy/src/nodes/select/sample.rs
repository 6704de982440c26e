//! Windows that were selected, and their fingerprints.

use wattline_packet::redundancy::LONGEST_PAYLOAD;

/// Number of bytes per fingerprint, as in EndRE.
pub const WINDOW: usize = 32;
/// Smallest period in bytes.
pub const SHORTEST_PERIOD: usize = 8;
/// Largest number of windows of one payload: one in [`SHORTEST_PERIOD`] of the longest.
pub(super) const MOST_SAMPLES: usize = LONGEST_PAYLOAD / SHORTEST_PERIOD;

/// A selected window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Fingerprint of the window's bytes; all bits are usable.
    pub fingerprint: u64,
    /// Offset of the window in the payload.
    pub offset: u16,
}

/// Adds the window at `offset`, if there is room.
#[inline]
pub(super) fn push(samples: &mut Vec<Sample>, payload: &[u8], offset: usize) {
    let Some(window) = payload.get(offset..).and_then(|rest| rest.first_chunk()) else { return };
    if samples.len() < MOST_SAMPLES {
        samples.push(Sample { fingerprint: fingerprint(window), offset: offset as u16 });
    }
}

pub(super) const MULTIPLIERS: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

/// Returns the hash of a window: products of 64 by 64 bits, folded, as in wyhash (public domain,
/// Wang Yi). Equal fingerprints only suggest equal bytes.
#[inline]
pub(super) fn fingerprint(window: &[u8; WINDOW]) -> u64 {
    let (words, _) = window.as_chunks::<8>();
    let [a, b, c, d] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]) ^ MULTIPLIERS[at]);
    let fold = |x: u64, y: u64| {
        let product = u128::from(x) * u128::from(y);
        product as u64 ^ (product >> 64) as u64
    };
    fold(fold(a, b) ^ MULTIPLIERS[1], fold(c, d) ^ MULTIPLIERS[0])
}
