//! IPv4 lookup with one load at a time, for every processor.

use super::entry::EXTENDED;
use crate::NextHopId;
use crate::multibit::{GROUP_CELLS, Tables};
use crate::root::WHOLE;
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Looks up about 32 addresses at most: first all bytes of the root, which do not depend on each
/// other, then whole entries and groups, if there are any.
#[inline(always)]
pub(super) fn lookup(tables: &Tables<AtomicU16>, addresses: &[u32], next_hops: &mut [NextHopId]) {
    let root = tables.root.bytes();
    for (address, next_hop) in addresses.iter().zip(&mut *next_hops) {
        *next_hop = NextHopId(root[(address >> 8) as usize].load(Ordering::Relaxed).into());
    }
    // Everything written before a byte was stored is visible from here on.
    fence(Ordering::Acquire);
    let is_whole = |next_hop: &NextHopId| next_hop.0 == u16::from(WHOLE);
    // All are compared, many at a time.
    if next_hops.iter().fold(false, |seen, next_hop| seen | is_whole(next_hop)) {
        for (address, next_hop) in addresses.iter().zip(next_hops) {
            if is_whole(next_hop) {
                *next_hop = whole(tables, *address);
            }
        }
        fence(Ordering::Acquire);
    }
}

/// Returns the next hop of an address whose byte marks a whole entry, read after an acquire fence.
#[inline]
pub(super) fn whole(tables: &Tables<AtomicU16>, address: u32) -> NextHopId {
    let entry = tables.root.whole[(address >> 8) as usize].load(Ordering::Relaxed);
    if entry & EXTENDED == 0 {
        return NextHopId(entry);
    }
    fence(Ordering::Acquire);
    let groups: &[AtomicU16] = &tables.groups;
    let cell = usize::from(entry & !EXTENDED) * GROUP_CELLS + (address & 0xff) as usize;
    NextHopId(groups[cell].load(Ordering::Relaxed))
}
