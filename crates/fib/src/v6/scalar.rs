//! IPv6 lookup with one load at a time, for every processor.

use super::entry::{EXTENDED, LEVELS_TOGETHER};
use crate::NextHopId;
use crate::multibit::{GROUP_CELLS, Tables};
use crate::root::{ROOT_BITS, WHOLE};
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Looks up at most `CHUNK` addresses, which descend the trie together, level by level.
#[inline(always)]
pub(super) fn lookup<const CHUNK: usize>(
    tables: &Tables<AtomicU32>,
    addresses: &[u128],
    next_hops: &mut [NextHopId],
) {
    let (root, whole) = (tables.root.bytes(), &tables.root.whole);
    let groups: &[AtomicU32] = &tables.groups;
    let mut entries = [0; CHUNK];
    let mut seen = 0;
    let mut shift = u128::BITS - u32::from(ROOT_BITS);
    for (entry, address) in entries.iter_mut().zip(addresses) {
        *entry = root[(address >> shift) as usize].load(Ordering::Relaxed).into();
        seen = seen.max(*entry);
    }
    // Everything written before a byte was stored is visible from here on.
    fence(Ordering::Acquire);
    if seen == u32::from(WHOLE) {
        seen = 0;
        for (entry, address) in entries.iter_mut().zip(addresses) {
            let is_whole = *entry == u32::from(WHOLE);
            let cell = if is_whole { (address >> shift) as usize } else { 0 };
            let found = whole[cell].load(Ordering::Relaxed);
            *entry = if is_whole { found } else { *entry };
            seen |= *entry;
        }
    } else {
        seen = 0;
    }
    for _ in 0..LEVELS_TOGETHER {
        // Everything written before an entry was stored is visible from here on.
        fence(Ordering::Acquire);
        if seen & EXTENDED == 0 {
            break;
        }
        shift -= 8;
        seen = 0;
        for (entry, address) in entries.iter_mut().zip(addresses) {
            // Finished addresses load cell 0 and ignore it: a load that always hits costs less than
            // a branch that is often mispredicted.
            let extended = *entry & EXTENDED != 0;
            let cell = if extended { cell_below(*entry, *address, shift) } else { 0 };
            let below = groups[cell].load(Ordering::Relaxed);
            *entry = if extended { below } else { *entry };
            seen |= *entry;
        }
    }
    for ((entry, address), next_hop) in entries.iter().zip(addresses).zip(next_hops) {
        *next_hop = follow(groups, *entry, *address, shift);
    }
    fence(Ordering::Acquire);
}

/// Returns the final next hop of an entry that was found by the address bits above `shift`.
#[inline]
pub(super) fn follow(
    groups: &[AtomicU32],
    mut entry: u32,
    address: u128,
    mut shift: u32,
) -> NextHopId {
    while entry & EXTENDED != 0 {
        fence(Ordering::Acquire);
        shift -= 8;
        entry = groups[cell_below(entry, address, shift)].load(Ordering::Relaxed);
    }
    NextHopId(entry as u16)
}

/// Returns the cell of an address in the group that `entry` names, by the 8 bits above `shift`.
#[inline]
fn cell_below(entry: u32, address: u128, shift: u32) -> usize {
    // Shifts one word instead of two: most levels need only the upper half.
    let byte =
        if shift >= 64 { (address >> 64) as u64 >> (shift - 64) } else { address as u64 >> shift };
    (entry & !EXTENDED) as usize * GROUP_CELLS + usize::from(byte as u8)
}
