//! Sixteen loads at a time.

use super::EXTENDED;
use crate::NextHopId;
use crate::avx512::{ALL, LANES, Words, load, store_next_hops};
use crate::multibit::Tables;
use crate::reader::CHUNK;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Vectors that a chunk fills: their gathers are in flight together.
const VECTORS: usize = CHUNK / LANES;

/// The next hops of whole chunks: as the scalar kernel, first the root, then groups.
#[target_feature(enable = "avx512f")]
pub(super) fn lookup(
    tables: &Tables<AtomicU16>,
    chunks: &[[u32; CHUNK]],
    next_hop_chunks: &mut [[NextHopId; CHUNK]],
) {
    let (root, groups) = (Words::from(&tables.root), Words::from(&tables.groups));
    let zero = _mm512_setzero_si512();
    let extended = _mm512_set1_epi32(EXTENDED.into());
    for (addresses, next_hops) in chunks.iter().zip(next_hop_chunks) {
        let mut entries = [zero; VECTORS];
        let mut seen = zero;
        let (addresses, _) = addresses.as_chunks::<LANES>();
        for (entries, addresses) in entries.iter_mut().zip(addresses) {
            let cell = _mm512_srli_epi32::<8>(load(addresses));
            *entries = root.gather_halves(cell, ALL, zero);
            seen = _mm512_or_si512(seen, *entries);
        }
        // What was written before an entry was stored is seen from here on.
        fence(Ordering::Acquire);
        if _mm512_test_epi32_mask(seen, extended) != 0 {
            for (entries, addresses) in entries.iter_mut().zip(addresses) {
                let lanes = _mm512_test_epi32_mask(*entries, extended);
                let first = _mm512_slli_epi32::<8>(_mm512_andnot_si512(extended, *entries));
                let byte = _mm512_and_si512(load(addresses), _mm512_set1_epi32(0xff));
                *entries = groups.gather_halves(_mm512_or_si512(first, byte), lanes, *entries);
            }
            fence(Ordering::Acquire);
        }
        let (next_hops, _) = next_hops.as_chunks_mut::<LANES>();
        for (next_hops, entries) in next_hops.iter_mut().zip(entries) {
            store_next_hops(entries, next_hops);
        }
    }
}
