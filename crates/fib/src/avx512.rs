//! Sixteen cells of a table at once with the gathers of AVX-512, under the rules of
//! [`crate::avx2`]. A lane that is masked out loads nothing.

#![allow(unsafe_code)] // gathers, loads and stores of whole vectors take pointers

use crate::NextHopId;
use crate::words::Words;
use std::arch::asm;
use std::arch::x86_64::*;

/// Number of 32-bit lanes in a vector.
pub(crate) const LANES: usize = 16;

impl Words<'_> {
    /// Loads the words with these numbers in these lanes; the other lanes keep the value of
    /// `others`. Numbers beyond the end read the last word.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn gather_sixteen(
        self,
        numbers: __m512i,
        lanes: __mmask16,
        others: __m512i,
    ) -> __m512i {
        let numbers = _mm512_min_epu32(numbers, _mm512_set1_epi32(self.last.cast_signed()));
        let mut words = others;
        // SAFETY: loads only, of aligned words inside the region, which outlives `self`. The head
        // of `avx2` explains why concurrent stores are allowed.
        unsafe {
            asm!(
                "vpgatherdd {words} {{{lanes}}}, [{first} + 4 * {numbers}]",
                words = inout(zmm_reg) words,
                first = in(reg) self.first,
                numbers = in(zmm_reg) numbers,
                lanes = inout(kreg) lanes => _,
                options(readonly, nostack, preserves_flags),
            );
        }
        words
    }

    /// Loads 8-bit cells, four to a word, by their numbers in every lane.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn gather_sixteen_bytes(self, numbers: __m512i) -> __m512i {
        let every = __mmask16::MAX;
        let words =
            self.gather_sixteen(_mm512_srli_epi32::<2>(numbers), every, _mm512_setzero_si512());
        let place = _mm512_and_si512(numbers, _mm512_set1_epi32(3));
        let bytes = _mm512_srlv_epi32(words, _mm512_slli_epi32::<3>(place));
        _mm512_and_si512(bytes, _mm512_set1_epi32(0xff))
    }

    /// Loads 16-bit cells, two to a word, by their numbers in these lanes; the others get 0.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn gather_sixteen_halves(self, numbers: __m512i, lanes: __mmask16) -> __m512i {
        let words =
            self.gather_sixteen(_mm512_srli_epi32::<1>(numbers), lanes, _mm512_setzero_si512());
        let odd = _mm512_and_si512(numbers, _mm512_set1_epi32(1));
        let halves = _mm512_srlv_epi32(words, _mm512_slli_epi32::<4>(odd));
        _mm512_and_si512(halves, _mm512_set1_epi32(0xffff))
    }
}

/// Loads sixteen words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load(words: &[u32; LANES]) -> __m512i {
    // SAFETY: as many bytes as a vector has, and no alignment is needed.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// Stores sixteen entries as next hops; entries that are groups give an arbitrary next hop.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_next_hops(entries: __m512i, to: &mut [NextHopId; LANES]) {
    // SAFETY: sixteen ids, each laid out as its 16 bits, are as many bytes as the vector has; no
    // alignment is needed.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(entries)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Region;
    use crate::words::region;
    use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};
    use wattline_memory::Supply;

    #[target_feature(enable = "avx512f")]
    fn stored(vector: __m512i) -> [u32; LANES] {
        let mut words = [0_u32; LANES];
        // SAFETY: as many bytes as the vector has; no alignment is needed.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
        words
    }

    #[target_feature(enable = "avx512f")]
    fn check() {
        let entries: Vec<u32> = (0..20).map(|i| 0xf000 + i).collect();
        let (words, halves) = (region::<AtomicU32>(&entries), region::<AtomicU16>(&entries));
        let others = load(&std::array::from_fn(|i| 70 + i as u32));
        let mut numbers = [0; LANES];
        numbers[..8].copy_from_slice(&[0, 19, 1, 20, 2, u32::MAX, 3, 1 << 31]);
        let numbers = load(&numbers);
        let found =
            stored(Words::from(&words).gather_sixteen(numbers, 0b0000_0001_1010_1011, others));
        let expected = [
            0xf000, 0xf013, 72, 0xf013, 74, 0xf013, 76, 0xf013, 0xf000, 79, 80, 81, 82, 83, 84, 85,
        ];
        assert_eq!(found, expected);
        let found = stored(Words::from(&halves).gather_sixteen_halves(numbers, 0b1111));
        assert_eq!(found[..6], [0xf000, 0xf013, 0xf001, 0xf012, 0, 0]);
        let bytes = region::<AtomicU8>(&[10, 11, 12, 13, 14, 15, 16, 17]);
        let numbers8 = load(&std::array::from_fn(|i| i as u32 / 2));
        let found = stored(Words::from(&bytes).gather_sixteen_bytes(numbers8));
        assert_eq!(found, std::array::from_fn(|i| 10 + i as u32 / 2));
        let nothing = Region::<AtomicU32>::zeroed(0, Supply::AsTouched);
        assert_eq!(stored(Words::from(&nothing).gather_sixteen(numbers, 1, numbers))[0], 0);

        let first = load(&std::array::from_fn(|i| 4 * i as u32));
        let mut next_hops = [NextHopId::NONE; LANES];
        store_next_hops(first, &mut next_hops);
        assert_eq!(next_hops.map(|next_hop| next_hop.0), std::array::from_fn(|i| 4 * i as u16));
    }

    #[test]
    fn gathers_stay_within_the_region() {
        if crate::SimdLevel::Avx512.is_available() {
            // SAFETY: the processor has AVX-512.
            unsafe { check() };
        } else {
            wattline_needs::machine("this processor has no AVX-512");
        }
    }
}
