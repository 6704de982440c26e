//! IPv4 lookup with one load at a time, for every processor.

use super::entry::EXTENDED;
use crate::NextHopId;
use crate::multibit::{GROUP_CELLS, ROOT_CELLS, Tables};
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Looks up about 32 addresses at most: first all loads from the root, which do not depend on each
/// other, then those from groups, if there are any.
#[inline(always)]
pub(super) fn lookup(tables: &Tables<AtomicU16>, addresses: &[u32], next_hops: &mut [NextHopId]) {
    let root: &[AtomicU16; ROOT_CELLS] = root(tables);
    let mut seen = 0;
    for (address, next_hop) in addresses.iter().zip(&mut *next_hops) {
        let entry = root[(address >> 8) as usize].load(Ordering::Relaxed);
        seen |= entry;
        *next_hop = NextHopId(entry);
    }
    // Everything written before an entry was stored is visible from here on.
    fence(Ordering::Acquire);
    if seen & EXTENDED != 0 {
        follow(tables, addresses, next_hops);
    }
}

/// Replaces the groups among `next_hops` by the groups' entries.
#[inline]
fn follow(tables: &Tables<AtomicU16>, addresses: &[u32], next_hops: &mut [NextHopId]) {
    for (address, next_hop) in addresses.iter().zip(next_hops) {
        if next_hop.0 & EXTENDED != 0 {
            *next_hop = in_group(tables, next_hop.0, *address);
        }
    }
    fence(Ordering::Acquire);
}

/// Entry of an address in the group that a root entry names.
#[inline]
pub(super) fn in_group(tables: &Tables<AtomicU16>, entry: u16, address: u32) -> NextHopId {
    let groups: &[AtomicU16] = &tables.groups;
    let cell = usize::from(entry & !EXTENDED) * GROUP_CELLS + (address & 0xff) as usize;
    NextHopId(groups[cell].load(Ordering::Relaxed))
}

/// The root as an array of known size: every 24-bit index is inside, so no check is needed.
#[inline]
pub(super) fn root(tables: &Tables<AtomicU16>) -> &[AtomicU16; ROOT_CELLS] {
    tables.root.first_chunk().expect("the root has this size")
}
