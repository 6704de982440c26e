//! IPv6 lookup with eight loads at a time.

use super::entry::{EXTENDED, LEVELS_TOGETHER};
use super::scalar;
use crate::NextHopId;
use crate::avx2::{LANES, load_upper, store, store_next_hops};
use crate::family::CHUNK;
use crate::multibit::Tables;
use crate::root::{ROOT_BITS, WHOLE};
use crate::words::Words;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Number of vectors per chunk; their gathers overlap.
const VECTORS: usize = CHUNK / LANES;

/// Looks up whole chunks; the addresses of a chunk descend the trie together, level by level.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lookup(
    tables: &Tables<AtomicU32>,
    chunks: &[[u128; CHUNK]],
    next_hop_chunks: &mut [[NextHopId; CHUNK]],
) {
    let (root, whole) = (Words::from(&tables.root.bytes), Words::from(&tables.root.whole));
    let groups = Words::from(&tables.groups);
    let zero = _mm256_setzero_si256();
    for (addresses, next_hops) in chunks.iter().zip(next_hop_chunks) {
        let mut entries = [zero; VECTORS];
        // The address bits below the root's; the next ones are always at the top of their lane.
        let mut below = [zero; VECTORS];
        let mut seen = zero;
        let (eights, _) = addresses.as_chunks::<LANES>();
        for ((entries, below), addresses) in entries.iter_mut().zip(&mut below).zip(eights) {
            let (first, second) = load_upper(addresses);
            let cells = _mm256_srli_epi32::<8>(first);
            *entries = root.gather_bytes(cells);
            let open = _mm256_cmpeq_epi32(*entries, _mm256_set1_epi32(WHOLE.into()));
            // Everything written before a byte was stored is visible from here on.
            fence(Ordering::Acquire);
            if extended(open) != 0 {
                *entries = whole.gather(cells, open, *entries);
            }
            *below =
                _mm256_or_si256(_mm256_slli_epi32::<24>(first), _mm256_srli_epi32::<8>(second));
            seen = _mm256_or_si256(seen, *entries);
        }
        let mut shift = u128::BITS - u32::from(ROOT_BITS);
        for _ in 0..LEVELS_TOGETHER {
            // Everything written before an entry was stored is visible from here on.
            fence(Ordering::Acquire);
            if extended(seen) == 0 {
                break;
            }
            shift -= 8;
            seen = zero;
            for (entries, below) in entries.iter_mut().zip(&mut below) {
                // The bit that marks a group, shifted out of the number, selects the lane.
                let first = _mm256_slli_epi32::<8>(*entries);
                let cell = _mm256_or_si256(first, _mm256_srli_epi32::<24>(*below));
                *entries = groups.gather(cell, *entries, *entries);
                *below = _mm256_slli_epi32::<8>(*below);
                seen = _mm256_or_si256(seen, *entries);
            }
        }
        let (sixteens, _) = next_hops.as_chunks_mut::<{ 2 * LANES }>();
        for (next_hops, [low, high]) in sixteens.iter_mut().zip(entries.as_chunks::<2>().0) {
            store_next_hops(*low, *high, next_hops);
        }
        if extended(seen) != 0 {
            let mut words = [[0; LANES]; VECTORS];
            words.iter_mut().zip(entries).for_each(|(words, entries)| store(entries, words));
            let rest = words.as_flattened().iter().zip(addresses).zip(next_hops);
            for ((entry, address), next_hop) in rest {
                if entry & EXTENDED != 0 {
                    *next_hop = scalar::follow(&tables.groups, *entry, *address, shift);
                }
            }
        }
        fence(Ordering::Acquire);
    }
}

/// Returns the bit set of the lanes that name a group.
#[inline]
#[target_feature(enable = "avx2")]
fn extended(entries: __m256i) -> i32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(entries))
}
