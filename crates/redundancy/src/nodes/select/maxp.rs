//! MAXP: windows whose first bytes hash higher than those of all windows nearby.
//!
//! Selected windows lie more evenly than those of MODP, so fewer regions slip through, and only
//! they get a fingerprint. "Nearby" is half a period on both sides (Bjørner, Blass and Gurevich,
//! "Content-dependent chunking for differential compression, the local maximum approach", 2010).
//! The highest of so many neighbours is found by doubling: of two, of four, and so on, each a pass
//! without branches over 16-bit numbers, of which any x86-64 takes eight at once.

use super::{Sample, WINDOW, push};
use wattline_packet::redundancy::LONGEST_PAYLOAD;

/// Positions that are looked at together.
const BLOCK: usize = 16;

pub(super) struct Maxp {
    /// Half a period.
    horizon: usize,
    /// Hashes by position, with the lowest before and behind them.
    values: Vec<i16>,
    /// The highest of `horizon` values from a position on.
    highest: Vec<i16>,
    spare: Vec<i16>,
}

impl Maxp {
    pub fn new(period: usize) -> Self {
        let horizon = period / 2;
        let room = || Vec::with_capacity(LONGEST_PAYLOAD + 2 * horizon);
        Self { horizon, values: room(), highest: room(), spare: room() }
    }

    pub fn select(&mut self, payload: &[u8], samples: &mut Vec<Sample>) {
        let Some(count) = (payload.len() + 1).checked_sub(WINDOW) else { return };
        let horizon = self.horizon;
        self.values.clear();
        self.values.resize(horizon, i16::MIN);
        let value = |eight: &[u8]| {
            let word = eight.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            (word.wrapping_mul(0x9fb2_1c65_1e98_df25) >> 48) as i16
        };
        self.values.extend(payload.windows(8).take(count).map(value));
        self.values.resize(self.values.len() + horizon, i16::MIN);
        self.find_highest();
        let values = self.values.get(horizon..).unwrap_or_default();
        let left = &self.highest;
        let right = self.highest.get(horizon + 1..).unwrap_or_default();
        let blocks = values.chunks(BLOCK).zip(left.chunks(BLOCK)).zip(right.chunks(BLOCK));
        for (number, ((values, left), right)) in blocks.enumerate() {
            let both = || values.iter().zip(left).zip(right);
            // Of equal ones the first.
            let is_highest =
                |((value, left), right): ((&i16, &i16), &i16)| (value > left) & (value >= right);
            if !both().fold(false, |any, it| any | is_highest(it)) {
                continue;
            }
            for (inside, _) in both().enumerate().filter(|(_, it)| is_highest(*it)) {
                let at = number * BLOCK + inside;
                // Never the first of a row of equals, such as the end of padding.
                let next = self.values.get(horizon + at + 1);
                if at < count && next != self.values.get(horizon + at) {
                    push(samples, payload, at);
                }
            }
        }
    }

    fn find_highest(&mut self) {
        self.highest.clear();
        self.highest.extend_from_slice(&self.values);
        let mut width = 1;
        while width < self.horizon {
            // Twice as many, or as many as are wanted: the two parts may overlap.
            let step = width.min(self.horizon - width);
            let ahead = self.highest.get(step..).unwrap_or_default();
            self.spare.clear();
            self.spare.extend(self.highest.iter().zip(ahead).map(|(a, b)| *a.max(b)));
            std::mem::swap(&mut self.highest, &mut self.spare);
            width += step;
        }
    }
}
