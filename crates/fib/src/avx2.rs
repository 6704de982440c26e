//! Eight cells of a table at once with the gathers of AVX2.
//!
//! The writer stores cells while readers gather them. To the compiler, the intrinsic for a gather
//! is eight plain loads, which would be a data race and undefined. The instruction is therefore
//! inline assembly with the semantics of the machine. Each lane, a load of an aligned 32-bit word,
//! counts as a relaxed atomic load of the cell (or the two 16-bit cells) in that word.
//!
//! Semantics of the machine: Intel's manual (volume 2, VPGATHERDD) lets each lane read from memory
//! separately and in any order. The order with other instructions follows the ordinary memory
//! model, in which no load overtakes an earlier one. The promise that aligned 32-bit words are read
//! atomically (volume 3A, "Guaranteed Atomic Operations") neither names gathers nor excludes them;
//! no processor is known to tear one. A torn read could give an address a wrong next hop for one
//! batch, but never lead outside the table, since numbers beyond its end are replaced first.

#![allow(unsafe_code)] // gathers, loads and stores of whole vectors take pointers

use crate::NextHopId;
use crate::words::Words;
use std::arch::asm;
use std::arch::x86_64::*;

/// Number of 32-bit lanes in a vector.
pub(crate) const LANES: usize = 8;

impl Words<'_> {
    /// Loads the words with these numbers in the lanes whose top bit is set in `lanes`; the other
    /// lanes keep the value of `others`. Numbers beyond the end read the last word.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn gather(self, numbers: __m256i, lanes: __m256i, others: __m256i) -> __m256i {
        let numbers = _mm256_min_epu32(numbers, _mm256_set1_epi32(self.last as i32));
        let mut words = others;
        // SAFETY: loads only, of aligned words inside the region, which outlives `self`. The head
        // of this file explains why concurrent stores are allowed.
        unsafe {
            asm!(
                "vpgatherdd {words}, [{first} + 4 * {numbers}], {lanes}",
                words = inout(ymm_reg) words,
                first = in(reg) self.first,
                numbers = in(ymm_reg) numbers,
                lanes = inout(ymm_reg) lanes => _,
                options(readonly, nostack, preserves_flags),
            );
        }
        words
    }

    /// Loads 8-bit cells, four to a word, by their numbers in every lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn gather_bytes(self, numbers: __m256i) -> __m256i {
        let every = _mm256_set1_epi32(-1);
        let words = self.gather(_mm256_srli_epi32::<2>(numbers), every, _mm256_setzero_si256());
        let place = _mm256_and_si256(numbers, _mm256_set1_epi32(3));
        let bytes = _mm256_srlv_epi32(words, _mm256_slli_epi32::<3>(place));
        _mm256_and_si256(bytes, _mm256_set1_epi32(0xff))
    }

    /// Loads 16-bit cells, two to a word, by their numbers in every lane.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn gather_halves(self, numbers: __m256i) -> __m256i {
        let every = _mm256_set1_epi32(-1);
        let words = self.gather(_mm256_srli_epi32::<1>(numbers), every, _mm256_setzero_si256());
        let odd = _mm256_and_si256(numbers, _mm256_set1_epi32(1));
        let halves = _mm256_srlv_epi32(words, _mm256_slli_epi32::<4>(odd));
        _mm256_and_si256(halves, _mm256_set1_epi32(0xffff))
    }
}

/// Loads eight words.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load(words: &[u32; LANES]) -> __m256i {
    // SAFETY: as many bytes as a vector has, and no alignment is needed.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// Loads bits 0 to 31 and bits 32 to 63 of eight 128-bit addresses, counted from the top.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_upper(addresses: &[u128; LANES]) -> (__m256i, __m256i) {
    let two = addresses.as_ptr().cast::<__m256i>();
    // SAFETY: four vectors of two addresses each, and no alignment is needed.
    let (a, b, c, d) = unsafe {
        (
            _mm256_loadu_si256(two),
            _mm256_loadu_si256(two.add(1)),
            _mm256_loadu_si256(two.add(2)),
            _mm256_loadu_si256(two.add(3)),
        )
    };
    // Upper halves of addresses 0, 2, 1, 3 and 4, 6, 5, 7; then in order.
    let low = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_unpackhi_epi64(a, b));
    let high = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_unpackhi_epi64(c, d));
    // The second words of four addresses, then their first words.
    let apart = _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0);
    let low = _mm256_permutevar8x32_epi32(low, apart);
    let high = _mm256_permutevar8x32_epi32(high, apart);
    (_mm256_permute2x128_si256::<0x31>(low, high), _mm256_permute2x128_si256::<0x20>(low, high))
}

/// Stores eight words.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store(words: __m256i, to: &mut [u32; LANES]) {
    // SAFETY: as many bytes as a vector has, and no alignment is needed.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), words) }
}

/// Stores sixteen entries as next hops; entries that are groups give an arbitrary next hop.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store_next_hops(low: __m256i, high: __m256i, to: &mut [NextHopId; 2 * LANES]) {
    let packed = _mm256_packus_epi32(low, high);
    let in_order = _mm256_permute4x64_epi64::<0b11_01_10_00>(packed);
    // SAFETY: sixteen ids, each laid out as its 16 bits, are as many bytes as a vector has; no
    // alignment is needed.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), in_order) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Region;
    use crate::words::region;
    use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};
    use wattline_memory::Supply;

    #[target_feature(enable = "avx2")]
    fn stored(vector: __m256i) -> [u32; LANES] {
        let mut words = [0; LANES];
        store(vector, &mut words);
        words
    }

    #[target_feature(enable = "avx2")]
    fn check() {
        let entries: Vec<u32> = (0..10).map(|i| 0xf000 + i).collect();
        let (words, halves) = (region::<AtomicU32>(&entries), region::<AtomicU16>(&entries));
        let others = load(&[70, 71, 72, 73, 74, 75, 76, 77]);
        let numbers = load(&[0, 9, 1, 10, 2, u32::MAX, 3, 1 << 31]);
        let lanes = load(&[1 << 31, u32::MAX, 0, 1 << 31, 1, u32::MAX, i32::MAX as u32, 1 << 31]);
        let found = stored(Words::from(&words).gather(numbers, lanes, others));
        assert_eq!(found, [0xf000, 0xf009, 72, 0xf009, 74, 0xf009, 76, 0xf009]);
        let found = stored(Words::from(&halves).gather_halves(numbers));
        assert_eq!(found, [0xf000, 0xf009, 0xf001, 0xf008, 0xf002, 0xf009, 0xf003, 0xf008]);
        let bytes = region::<AtomicU8>(&[10, 11, 12, 13, 14, 15, 16, 17]);
        let found = stored(Words::from(&bytes).gather_bytes(load(&[0, 7, 1, 2, 3, 4, 5, 9])));
        assert_eq!(
            found,
            [10, 17, 11, 12, 13, 14, 15, 15],
            "numbers beyond the end read the last word"
        );
        let nothing = Region::<AtomicU32>::zeroed(0, Supply::AsTouched);
        assert_eq!(stored(Words::from(&nothing).gather(numbers, lanes, numbers))[0], 0);

        let addresses: [u128; LANES] = std::array::from_fn(|i| {
            let word = |n: u128| (i as u128 * 4 + n) << (96 - 32 * n);
            word(0) | word(1) | word(2) | word(3)
        });
        let (first, second) = load_upper(&addresses);
        assert_eq!(stored(first), [0, 4, 8, 12, 16, 20, 24, 28]);
        assert_eq!(stored(second), [1, 5, 9, 13, 17, 21, 25, 29]);

        let mut next_hops = [NextHopId::NONE; 2 * LANES];
        store_next_hops(first, second, &mut next_hops);
        let ids = next_hops.map(|next_hop| next_hop.0);
        assert_eq!(ids, [0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29]);
    }

    #[test]
    fn gathers_stay_within_the_region() {
        if crate::SimdLevel::Avx2.is_available() {
            // SAFETY: the processor has AVX2.
            unsafe { check() };
        } else {
            wattline_needs::machine("this processor has no AVX2");
        }
    }
}
