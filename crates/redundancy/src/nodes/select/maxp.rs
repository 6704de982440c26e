//! MAXP: windows whose first bytes hash higher than those of all windows nearby.
//!
//! The selected windows are spaced more evenly than with MODP, so fewer regions are missed, and
//! only they need a fingerprint. "Nearby" means half a period on both sides (Bjørner, Blass and
//! Gurevich, "Content-dependent chunking for differential compression, the local maximum approach",
//! 2010). The maximum over the neighbours is found by doubling: of two, of four, and so on. Each
//! step is a pass without branches over 16-bit numbers, eight of which fit a vector on any x86-64.

use super::sample::{Sample, WINDOW, push};
use wattline_packet::redundancy::LONGEST_PAYLOAD;

/// Number of positions processed together.
const BLOCK: usize = 16;

pub(super) struct Maxp {
    /// Half a period, in positions.
    horizon: usize,
    /// Hashes by position, with the lowest value before and after them.
    values: Vec<i16>,
    /// Maximum of the `horizon` values from each position on.
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
            // Among equal values, the first one wins.
            let is_highest =
                |((value, left), right): ((&i16, &i16), &i16)| (value > left) & (value >= right);
            if !both().fold(false, |any, it| any | is_highest(it)) {
                continue;
            }
            for (inside, _) in both().enumerate().filter(|(_, it)| is_highest(*it)) {
                let at = number * BLOCK + inside;
                // Never the first of a run of equal values, such as the end of padding.
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
            // Doubles the width, up to the one wanted; the two parts may overlap.
            let step = width.min(self.horizon - width);
            let ahead = self.highest.get(step..).unwrap_or_default();
            self.spare.clear();
            self.spare.extend(self.highest.iter().zip(ahead).map(|(a, b)| *a.max(b)));
            std::mem::swap(&mut self.highest, &mut self.spare);
            width += step;
        }
    }
}
