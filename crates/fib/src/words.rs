//! The cells of a region, for gathers.

use crate::cell::Stored;
use crate::memory::Region;
use std::marker::PhantomData;
#[cfg(test)]
use wattline_memory::Supply;

/// The cells of a region, as 32-bit words.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) first: *const u32,
    /// Number of the last word.
    pub(crate) last: u32,
    cells: PhantomData<&'a u32>,
}

impl<'a, C: Stored> From<&'a Region<C>> for Words<'a> {
    #[inline]
    fn from(region: &'a Region<C>) -> Self {
        Self { first: region.as_ptr().cast(), last: region.last_word(), cells: PhantomData }
    }
}

/// Returns a region with these entries, for tests of gathers.
#[cfg(test)]
pub(crate) fn region<C: Stored>(entries: &[u32]) -> Region<C> {
    let region = Region::<C>::zeroed(entries.len(), Supply::AsTouched);
    region.iter().zip(entries).for_each(|(cell, entry)| cell.write(*entry));
    region
}
