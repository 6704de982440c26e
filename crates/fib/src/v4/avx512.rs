//! IPv4 lookup with sixteen loads at a time.

use super::entry::EXTENDED;
use crate::NextHopId;
use crate::avx512::{LANES, load, store_next_hops};
use crate::family::CHUNK;
use crate::multibit::Tables;
use crate::words::Words;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Number of vectors per chunk; their gathers overlap.
const VECTORS: usize = CHUNK / LANES;

/// Looks up whole chunks, like the scalar implementation: first the root, then groups.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn lookup(
    tables: &Tables<AtomicU16>,
    chunks: &[[u32; CHUNK]],
    next_hop_chunks: &mut [[NextHopId; CHUNK]],
) {
    let (root, groups) = (Words::from(&tables.root), Words::from(&tables.groups));
    let is_group = _mm512_set1_epi32(i32::from(EXTENDED));
    let (number, byte) = (_mm512_set1_epi32(i32::from(EXTENDED) - 1), _mm512_set1_epi32(0xff));
    for (addresses, next_hops) in chunks.iter().zip(next_hop_chunks) {
        let (addresses, _) = addresses.as_chunks::<LANES>();
        let mut entries = [_mm512_setzero_si512(); VECTORS];
        for (entries, addresses) in entries.iter_mut().zip(addresses) {
            let cells = _mm512_srli_epi32::<8>(load(addresses));
            *entries = root.gather_sixteen_halves(cells, __mmask16::MAX);
        }
        // Everything written before an entry was stored is visible from here on.
        fence(Ordering::Acquire);
        for (entries, addresses) in entries.iter_mut().zip(addresses) {
            let lanes = _mm512_test_epi32_mask(*entries, is_group);
            if lanes != 0 {
                let group = _mm512_slli_epi32::<8>(_mm512_and_si512(*entries, number));
                let cells = _mm512_or_si512(group, _mm512_and_si512(load(addresses), byte));
                let below = groups.gather_sixteen_halves(cells, lanes);
                *entries = _mm512_mask_blend_epi32(lanes, *entries, below);
            }
        }
        fence(Ordering::Acquire);
        let (next_hops, _) = next_hops.as_chunks_mut::<LANES>();
        for (next_hops, entries) in next_hops.iter_mut().zip(entries) {
            store_next_hops(entries, next_hops);
        }
    }
}
