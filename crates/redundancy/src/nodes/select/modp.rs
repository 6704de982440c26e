//! MODP: windows whose rolling hash is below a bound.
//!
//! Spring and Wetherall use Rabin's polynomials, which cost a chain of two table look-ups per byte.
//! The cyclic polynomial (Cohen 1997) costs a rotation and an exclusive or. For a window of 32, 33
//! adjacent bits of its 64 are pairwise independent (Lemire and Kaser, "Recursive n-gram hashing is
//! pairwise independent, at best", 2010), which is more than enough.

use super::sample::{MULTIPLIERS, Sample, WINDOW, push};

pub(super) struct Modp {
    /// Bound for the upper half of the rolling hash; windows below it are selected.
    bound: u32,
    table: Box<[u64; 256]>,
}

impl Modp {
    pub fn new(period: usize) -> Self {
        let mut state = MULTIPLIERS[0];
        let mut table = Box::new([0; 256]);
        for entry in table.iter_mut() {
            // SplitMix64 (public domain, S. Vigna).
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut value = state;
            value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            *entry = value ^ value >> 31;
        }
        Self { bound: u32::MAX / period as u32, table }
    }

    pub fn select(&self, payload: &[u8], samples: &mut Vec<Sample>) {
        let value = |byte: &u8| self.table[usize::from(*byte)];
        let Some((first, rest)) = payload.split_at_checked(WINDOW) else { return };
        let mut hash = first.iter().fold(0u64, |hash, byte| hash.rotate_left(1) ^ value(byte));
        if ((hash >> 32) as u32) < self.bound {
            push(samples, payload, 0);
        }
        for (before, (gone, come)) in payload.iter().zip(rest).enumerate() {
            // Both look-ups are outside the dependency chain.
            let change = value(gone).rotate_left(WINDOW as u32) ^ value(come);
            hash = hash.rotate_left(1) ^ change;
            if ((hash >> 32) as u32) < self.bound {
                push(samples, payload, before + 1);
            }
        }
    }
}
