//! Eight loads at a time.

use super::EXTENDED;
use crate::NextHopId;
use crate::avx2::{LANES, Words, load, store_next_hops};
use crate::multibit::Tables;
use crate::reader::CHUNK;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Vectors that a chunk fills: their gathers are in flight together.
const VECTORS: usize = CHUNK / LANES;

/// The next hops of whole chunks: as the scalar kernel, first the root, then groups.
#[target_feature(enable = "avx2")]
pub(super) fn lookup(
    tables: &Tables<AtomicU16>,
    chunks: &[[u32; CHUNK]],
    next_hop_chunks: &mut [[NextHopId; CHUNK]],
) {
    let (root, groups) = (Words::from(&tables.root), Words::from(&tables.groups));
    let highest_next_hop = _mm256_set1_epi32(i32::from(EXTENDED) - 1);
    for (addresses, next_hops) in chunks.iter().zip(next_hop_chunks) {
        let mut entries = [_mm256_setzero_si256(); VECTORS];
        let mut highest = _mm256_setzero_si256();
        let (addresses, _) = addresses.as_chunks::<LANES>();
        for (entries, addresses) in entries.iter_mut().zip(addresses) {
            *entries = root.gather_halves(_mm256_srli_epi32::<8>(load(addresses)));
            highest = _mm256_max_epi32(highest, *entries);
        }
        // What was written before an entry was stored is seen from here on.
        fence(Ordering::Acquire);
        let extended = _mm256_cmpgt_epi32(highest, highest_next_hop);
        if _mm256_movemask_epi8(extended) != 0 {
            for (entries, addresses) in entries.iter_mut().zip(addresses) {
                let extended = _mm256_cmpgt_epi32(*entries, highest_next_hop);
                // Those that are there already load a cell of group 0 and drop it.
                let group = _mm256_and_si256(*entries, highest_next_hop);
                let group = _mm256_and_si256(group, extended);
                let byte = _mm256_and_si256(load(addresses), _mm256_set1_epi32(0xff));
                let cell = _mm256_or_si256(_mm256_slli_epi32::<8>(group), byte);
                *entries = _mm256_blendv_epi8(*entries, groups.gather_halves(cell), extended);
            }
            fence(Ordering::Acquire);
        }
        let (next_hops, _) = next_hops.as_chunks_mut::<{ 2 * LANES }>();
        let (entries, _) = entries.as_chunks::<2>();
        for (next_hops, [low, high]) in next_hops.iter_mut().zip(entries) {
            store_next_hops(*low, *high, next_hops);
        }
    }
}
