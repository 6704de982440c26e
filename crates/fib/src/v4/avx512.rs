//! IPv4 lookup with sixteen loads at a time.

use super::entry::EXTENDED;
use crate::NextHopId;
use crate::avx512::{LANES, load, store_next_hops};
use crate::family::CHUNK;
use crate::multibit::Tables;
use crate::root::WHOLE;
use crate::words::Words;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Number of vectors per chunk; their gathers overlap.
const VECTORS: usize = CHUNK / LANES;

/// Looks up whole chunks, like the scalar implementation: first bytes, then whole entries and groups.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn lookup(
    tables: &Tables<AtomicU16>,
    chunks: &[[u32; CHUNK]],
    next_hop_chunks: &mut [[NextHopId; CHUNK]],
) {
    let root = Words::from(&tables.root.bytes);
    let whole = _mm512_set1_epi32(WHOLE.into());
    for (addresses, next_hops) in chunks.iter().zip(next_hop_chunks) {
        let (addresses, _) = addresses.as_chunks::<LANES>();
        let mut entries = [_mm512_setzero_si512(); VECTORS];
        for (entries, addresses) in entries.iter_mut().zip(addresses) {
            *entries = root.gather_sixteen_bytes(_mm512_srli_epi32::<8>(load(addresses)));
        }
        // Everything written before a byte was stored is visible from here on.
        fence(Ordering::Acquire);
        for (entries, addresses) in entries.iter_mut().zip(addresses) {
            let lanes = _mm512_cmpeq_epi32_mask(*entries, whole);
            if lanes != 0 {
                let found = follow(tables, load(addresses), lanes);
                *entries = _mm512_mask_blend_epi32(lanes, *entries, found);
            }
        }
        let (next_hops, _) = next_hops.as_chunks_mut::<LANES>();
        for (next_hops, entries) in next_hops.iter_mut().zip(entries) {
            store_next_hops(entries, next_hops);
        }
    }
}

/// Returns the whole entries of these lanes, and those of the groups that they name.
#[inline]
#[target_feature(enable = "avx512f")]
fn follow(tables: &Tables<AtomicU16>, addresses: __m512i, lanes: __mmask16) -> __m512i {
    let (root, groups) = (Words::from(&tables.root.whole), Words::from(&tables.groups));
    let entries = root.gather_sixteen_halves(_mm512_srli_epi32::<8>(addresses), lanes);
    fence(Ordering::Acquire);
    let extended = _mm512_test_epi32_mask(entries, _mm512_set1_epi32(EXTENDED.into()));
    if extended == 0 {
        return entries;
    }
    let number = _mm512_and_si512(entries, _mm512_set1_epi32(i32::from(EXTENDED) - 1));
    let byte = _mm512_and_si512(addresses, _mm512_set1_epi32(0xff));
    let cells = _mm512_or_si512(_mm512_slli_epi32::<8>(number), byte);
    let below = groups.gather_sixteen_halves(cells, extended);
    fence(Ordering::Acquire);
    _mm512_mask_blend_epi32(extended, entries, below)
}
