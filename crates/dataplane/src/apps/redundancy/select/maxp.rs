//! MAXP: windows whose first bytes hash higher than those of all windows nearby.
//!
//! Selected windows lie more evenly than those of MODP, so fewer regions slip through, and only
//! they get a fingerprint. "Nearby" is half a period on both sides. Maxima are found block by
//! block (Bjørner, Blass and Gurevich, "Content-dependent chunking for differential compression,
//! the local maximum approach", 2010): the highest of a block is compared with what surrounds
//! it, and nothing else can be selected.

use super::{Sample, WINDOW, push};
use wattline_packet::redundancy::LONGEST_PAYLOAD;

pub(super) struct Maxp {
    /// Half a period.
    horizon: usize,
    values: Vec<i16>,
}

impl Maxp {
    pub fn new(period: usize) -> Self {
        Self { horizon: period / 2, values: Vec::with_capacity(LONGEST_PAYLOAD) }
    }

    pub fn select(&mut self, payload: &[u8], samples: &mut Vec<Sample>) {
        let Some(count) = (payload.len() + 1).checked_sub(WINDOW) else { return };
        self.values.clear();
        // Sixteen bits: eight of them are compared at once on any x86-64.
        let value = |eight: &[u8]| {
            let word = eight.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            (word.wrapping_mul(0x9fb2_1c65_1e98_df25) >> 48) as i16
        };
        self.values.extend(payload.windows(8).take(count).map(value));
        let block = self.horizon + 1;
        for (number, values) in self.values.chunks(block).enumerate() {
            let highest = values.iter().copied().fold(i16::MIN, i16::max);
            let Some(inside) = values.iter().position(|value| *value == highest) else { continue };
            let at = number * block + inside;
            let left = self.values.get(at.saturating_sub(self.horizon)..at).unwrap_or_default();
            let right = self.values.get(at + 1..).unwrap_or_default();
            let right = right.get(..self.horizon).unwrap_or(right);
            // Of equal ones the first, and never one of a long row of equals.
            let above = left.iter().fold(true, |above, value| above & (*value < highest))
                & right.iter().fold(true, |above, value| above & (*value <= highest));
            let alone = right.first().is_none_or(|next| *next != highest);
            if above && alone {
                push(samples, payload, at);
            }
        }
    }
}
