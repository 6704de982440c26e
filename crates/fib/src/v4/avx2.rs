//! IPv4 lookup with eight loads at a time.

use super::entry::EXTENDED;
use crate::NextHopId;
use crate::avx2::{LANES, load, store_next_hops};
use crate::family::CHUNK;
use crate::multibit::Tables;
use crate::root::WHOLE;
use crate::words::Words;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Number of vectors per chunk; their gathers overlap.
const VECTORS: usize = CHUNK / LANES;
/// The entries of a chunk.
type Entries = [__m256i; VECTORS];

/// Looks up whole chunks, like the scalar implementation: first bytes, then whole entries and groups.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lookup(
    tables: &Tables<AtomicU16>,
    chunks: &[[u32; CHUNK]],
    next_hop_chunks: &mut [[NextHopId; CHUNK]],
) {
    let root = Words::from(&tables.root.bytes);
    for (addresses, next_hops) in chunks.iter().zip(next_hop_chunks) {
        let mut entries = [_mm256_setzero_si256(); VECTORS];
        let mut most = _mm256_setzero_si256();
        for (entries, addresses) in entries.iter_mut().zip(addresses.as_chunks::<LANES>().0) {
            *entries = root.gather_bytes(_mm256_srli_epi32::<8>(load(addresses)));
            most = _mm256_max_epu32(most, *entries);
        }
        // Everything written before a byte was stored is visible from here on.
        fence(Ordering::Acquire);
        if _mm256_movemask_epi8(is_whole(most)) != 0 {
            entries = follow(tables, addresses, entries);
        }
        let (next_hops, _) = next_hops.as_chunks_mut::<{ 2 * LANES }>();
        for (next_hops, [low, high]) in next_hops.iter_mut().zip(entries.as_chunks::<2>().0) {
            store_next_hops(*low, *high, next_hops);
        }
    }
}

/// Lanes whose byte marks a whole entry.
#[inline]
#[target_feature(enable = "avx2")]
fn is_whole(bytes: __m256i) -> __m256i {
    _mm256_cmpeq_epi32(bytes, _mm256_set1_epi32(WHOLE.into()))
}

/// Replaces bytes by whole entries, and these by those of groups. It is separate from the part that
/// every chunk needs, so that this part has the registers to itself.
#[cold]
#[inline(never)]
#[target_feature(enable = "avx2")]
fn follow(tables: &Tables<AtomicU16>, addresses: &[u32; CHUNK], mut entries: Entries) -> Entries {
    let (root, groups) = (Words::from(&tables.root.whole), Words::from(&tables.groups));
    let highest_next_hop = _mm256_set1_epi32(i32::from(EXTENDED) - 1);
    for (entries, addresses) in entries.iter_mut().zip(addresses.as_chunks::<LANES>().0) {
        let addresses = load(addresses);
        // Finished lanes load the first cell, and ignore it.
        let open = is_whole(*entries);
        let found = root.gather_halves(_mm256_and_si256(_mm256_srli_epi32::<8>(addresses), open));
        *entries = _mm256_blendv_epi8(*entries, found, open);
        fence(Ordering::Acquire);
        let extended = _mm256_cmpgt_epi32(*entries, highest_next_hop);
        let group = _mm256_and_si256(_mm256_and_si256(*entries, highest_next_hop), extended);
        let byte = _mm256_and_si256(addresses, _mm256_set1_epi32(0xff));
        let below = groups.gather_halves(_mm256_or_si256(_mm256_slli_epi32::<8>(group), byte));
        *entries = _mm256_blendv_epi8(*entries, below, extended);
    }
    fence(Ordering::Acquire);
    entries
}
