//! Sixteen cells of a table at once: the gathers of AVX-512.
//!
//! The writer stores cells while they are gathered, as it does while they are loaded one by
//! one. The intrinsic for a gather is to the compiler sixteen plain loads: a data race, which
//! is undefined. So the instruction stands here as inline assembly, which does what the
//! machine does: each lane is a load of an aligned word of 32 bits, and is to be thought of as
//! a relaxed atomic load of the cell (or the two cells of 16 bits) in it.
//!
//! That the machine does this: Intel's manual (volume 2, VPGATHERDD) has each lane read from
//! memory by itself, in any order, and its memory ordering follow the ordinary model, under
//! which a later load is not performed before an earlier one. It promises atomicity of aligned
//! words of 32 bits to "reading or writing" in general (volume 3A, "Guaranteed Atomic
//! Operations") without naming gathers; no processor is known that would tear one. Should one
//! do so, an address could for one batch lead to a wrong next hop or group, but never outside
//! the table: every lane is compared with the table's end first.

#![allow(unsafe_code)] // pointers for gathers, loads and stores of whole vectors

use crate::NextHopId;
use crate::cell::Cell;
use crate::memory::Region;
use std::arch::asm;
use std::arch::x86_64::*;
use std::marker::PhantomData;

/// Lanes of 32 bits in a vector.
pub(crate) const LANES: usize = 16;
/// Every lane.
pub(crate) const ALL: __mmask16 = !0;

/// The cells of a region as words of 32 bits.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    first: *const u32,
    count: u32,
    cells: PhantomData<&'a u32>,
}

impl<'a, C: Cell> From<&'a Region<C>> for Words<'a> {
    #[inline]
    fn from(region: &'a Region<C>) -> Self {
        // Lanes are signed.
        let count = (region.len() * size_of::<C>() / size_of::<u32>()).min(1 << 31);
        Self { first: region.as_ptr().cast(), count: count as u32, cells: PhantomData }
    }
}

impl Words<'_> {
    /// Words by their number; in lanes that are not among `lanes`, or where there is no such
    /// word, what `others` says.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn gather(self, number: __m512i, lanes: __mmask16, others: __m512i) -> __m512i {
        let end = _mm512_set1_epi32(self.count as i32);
        let inside = _mm512_mask_cmplt_epu32_mask(lanes, number, end);
        let mut words = others;
        // SAFETY: loads only, of words inside the region, which is aligned to more than a word
        // and outlives `self`; lanes that are not `inside` load nothing. That others store
        // meanwhile is what the file's head is about.
        unsafe {
            asm!(
                "vpgatherdd {words}{{{inside}}}, [{first} + 4 * {number}]",
                words = inout(zmm_reg) words,
                inside = inout(kreg) inside => _,
                first = in(reg) self.first,
                number = in(zmm_reg) number,
                options(readonly, nostack, preserves_flags),
            );
        }
        words
    }

    /// [`Self::gather`] for cells of 16 bits, two to a word.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn gather_halves(
        self,
        number: __m512i,
        lanes: __mmask16,
        others: __m512i,
    ) -> __m512i {
        let words = self.gather(_mm512_srli_epi32::<1>(number), lanes, others);
        let odd = _mm512_and_si512(number, _mm512_set1_epi32(1));
        let halves = _mm512_srlv_epi32(words, _mm512_slli_epi32::<4>(odd));
        _mm512_mask_and_epi32(others, lanes, halves, _mm512_set1_epi32(0xffff))
    }
}

/// Sixteen words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load(words: &[u32; LANES]) -> __m512i {
    // SAFETY: as many bytes as a vector has, and no alignment is needed.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// The upper halves of sixteen addresses of 128 bits: bits 0 to 31, and bits 32 to 63.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_upper(addresses: &[u128; LANES]) -> (__m512i, __m512i) {
    let fours = addresses.as_ptr().cast::<__m512i>();
    // SAFETY: four vectors of four addresses each are sixteen, and no alignment is needed.
    let [a, b, c, d] = unsafe { [0, 1, 2, 3].map(|i| _mm512_loadu_si512(fours.add(i))) };
    let upper = _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1);
    let (ab, cd) = (_mm512_permutex2var_epi64(a, upper, b), _mm512_permutex2var_epi64(c, upper, d));
    let first = _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
    let second = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    (_mm512_permutex2var_epi32(ab, first, cd), _mm512_permutex2var_epi32(ab, second, cd))
}

/// Stores sixteen words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store(words: __m512i, to: &mut [u32; LANES]) {
    // SAFETY: as many bytes as a vector has, and no alignment is needed.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), words) }
}

/// Stores the lower halves of sixteen words as next hops.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_next_hops(entries: __m512i, to: &mut [NextHopId; LANES]) {
    let halves = _mm512_cvtepi32_epi16(entries);
    // SAFETY: sixteen ids, each laid out as its 16 bits, are as many bytes as half a vector
    // has; no alignment is needed.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), halves) }
}
