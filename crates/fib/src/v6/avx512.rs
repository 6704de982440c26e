//! Sixteen loads at a time.

use super::{EXTENDED, LEVELS_TOGETHER, scalar};
use crate::NextHopId;
use crate::avx512::{ALL, LANES, Words, load_upper, store, store_next_hops};
use crate::multibit::{ROOT_BITS, Tables};
use crate::reader::CHUNK;
use std::arch::x86_64::*;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Vectors that a chunk fills: their gathers are in flight together.
const VECTORS: usize = CHUNK / LANES;

/// The next hops of whole chunks, each of which goes down the trie together, level by level.
#[target_feature(enable = "avx512f")]
pub(super) fn lookup(
    tables: &Tables<AtomicU32>,
    chunks: &[[u128; CHUNK]],
    next_hop_chunks: &mut [[NextHopId; CHUNK]],
) {
    let (root, groups) = (Words::from(&tables.root), Words::from(&tables.groups));
    let zero = _mm512_setzero_si512();
    let extended = _mm512_set1_epi32(EXTENDED as i32);
    for (addresses, next_hops) in chunks.iter().zip(next_hop_chunks) {
        let mut entries = [zero; VECTORS];
        // The bits below the root's, the next ones always at the top of their lane.
        let mut below = [zero; VECTORS];
        let mut seen = zero;
        let (vectors, _) = addresses.as_chunks::<LANES>();
        for ((entries, below), addresses) in entries.iter_mut().zip(&mut below).zip(vectors) {
            let (first, second) = load_upper(addresses);
            *entries = root.gather(_mm512_srli_epi32::<8>(first), ALL, zero);
            *below =
                _mm512_or_si512(_mm512_slli_epi32::<24>(first), _mm512_srli_epi32::<8>(second));
            seen = _mm512_or_si512(seen, *entries);
        }
        let mut shift = u128::BITS - u32::from(ROOT_BITS);
        let mut unfinished = _mm512_test_epi32_mask(seen, extended);
        for _ in 0..LEVELS_TOGETHER {
            // What was written before an entry was stored is seen from here on.
            fence(Ordering::Acquire);
            if unfinished == 0 {
                break;
            }
            shift -= 8;
            seen = zero;
            for (entries, below) in entries.iter_mut().zip(&mut below) {
                let lanes = _mm512_test_epi32_mask(*entries, extended);
                // The mark of a group is shifted out.
                let first = _mm512_slli_epi32::<8>(*entries);
                let cell = _mm512_or_si512(first, _mm512_srli_epi32::<24>(*below));
                *entries = groups.gather(cell, lanes, *entries);
                *below = _mm512_slli_epi32::<8>(*below);
                seen = _mm512_or_si512(seen, *entries);
            }
            unfinished = _mm512_test_epi32_mask(seen, extended);
        }
        let (vectors, _) = next_hops.as_chunks_mut::<LANES>();
        for (next_hops, entries) in vectors.iter_mut().zip(entries) {
            store_next_hops(entries, next_hops);
        }
        if unfinished != 0 {
            for (i, entries) in entries.into_iter().enumerate() {
                let mut words = [0; LANES];
                store(entries, &mut words);
                let mut lanes = _mm512_test_epi32_mask(entries, extended);
                while lanes != 0 {
                    let lane = lanes.trailing_zeros() as usize;
                    lanes &= lanes - 1;
                    let at = i * LANES + lane;
                    next_hops[at] =
                        scalar::follow(&tables.groups, words[lane], addresses[at], shift);
                }
            }
        }
        fence(Ordering::Acquire);
    }
}
