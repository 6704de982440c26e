//! Readers of a table of either family.

use crate::family::{CHUNK, Family};
use crate::multibit::Tables;
use crate::{NextHopId, SimdLevel};
use std::sync::Arc;

/// Reader of a table, cheap to clone; see [`crate::Fib4Reader`] and [`crate::Fib6Reader`].
#[derive(Debug)]
pub struct Reader<F: Family> {
    pub(crate) tables: Arc<Tables<F::Cell>>,
    /// Lookup implementation, which this processor supports.
    simd_level: SimdLevel,
}

impl<F: Family> Clone for Reader<F> {
    fn clone(&self) -> Self {
        Self { tables: self.tables.clone(), simd_level: self.simd_level }
    }
}

impl<F: Family> Reader<F> {
    /// Makes a reader of these cells with an implementation that this processor has.
    pub(crate) fn at(tables: Arc<Tables<F::Cell>>, simd_level: SimdLevel) -> Self {
        Self { tables, simd_level }
    }

    /// Returns the lookup implementation of this reader.
    pub fn simd_level(&self) -> SimdLevel {
        self.simd_level
    }

    /// This reader with another implementation, or the widest below it that its family has; `None` if
    /// the processor does not support it.
    pub fn with_simd_level(self, simd_level: SimdLevel) -> Option<Self> {
        let has = F::LEVELS.iter().rev().find(|has| **has <= simd_level);
        let simd_level = *has.filter(|_| simd_level.is_available())?;
        Some(Self { simd_level, ..self })
    }

    /// Looks up the next hop of one address (host byte order).
    #[inline]
    pub fn lookup(&self, address: F::Bits) -> NextHopId {
        F::lookup(&self.tables, address)
    }

    /// Looks up the next hops of a batch of addresses (host byte order); memory accesses overlap.
    ///
    /// # Panics
    /// Panics when the slices differ in length.
    #[inline]
    pub fn lookup_batch(&self, addresses: &[F::Bits], next_hops: &mut [NextHopId]) {
        assert_eq!(addresses.len(), next_hops.len());
        // Whole chunks are arrays, so that the compiler knows the number of iterations.
        let (chunks, rest) = addresses.as_chunks::<CHUNK>();
        let (next_hop_chunks, rest_next_hops) = next_hops.as_chunks_mut::<CHUNK>();
        match self.simd_level {
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)] // instructions that not every processor has
            // SAFETY: a reader has only an implementation that this processor supports.
            SimdLevel::Avx2 => unsafe {
                F::lookup_chunks_avx2(&self.tables, chunks, next_hop_chunks);
            },
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)] // instructions that not every processor has
            // SAFETY: as above.
            SimdLevel::Avx512 => unsafe {
                F::lookup_chunks_avx512(&self.tables, chunks, next_hop_chunks);
            },
            _ => {
                for (addresses, next_hops) in chunks.iter().zip(next_hop_chunks) {
                    F::lookup_chunk(&self.tables, addresses, next_hops);
                }
            }
        }
        if !rest.is_empty() {
            F::lookup_chunk(&self.tables, rest, rest_next_hops);
        }
    }
}
