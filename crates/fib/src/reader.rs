//! Readers of a table of either family.

use crate::family::{CHUNK, Family};
use crate::multibit::Tables;
use crate::{Kernel, NextHopId};
use std::sync::Arc;

/// Reader of a table, cheap to clone; see [`crate::Fib4Reader`] and [`crate::Fib6Reader`].
#[derive(Debug)]
pub struct Reader<F: Family> {
    pub(crate) tables: Arc<Tables<F::Cell>>,
    /// Lookup implementation, which this processor supports.
    kernel: Kernel,
}

impl<F: Family> Clone for Reader<F> {
    fn clone(&self) -> Self {
        Self { tables: self.tables.clone(), kernel: self.kernel }
    }
}

impl<F: Family> Reader<F> {
    /// A reader of these cells with the best implementation.
    pub(crate) fn new(tables: Arc<Tables<F::Cell>>) -> Self {
        Self { tables, kernel: Kernel::best() }
    }

    /// Lookup implementation of this reader.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// This reader with another implementation; `None` if the processor does not support it.
    pub fn with_kernel(self, kernel: Kernel) -> Option<Self> {
        kernel.is_available().then_some(Self { kernel, ..self })
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
        match self.kernel {
            #[cfg(target_arch = "x86_64")]
            #[allow(unsafe_code)] // instructions that not every processor has
            // SAFETY: a reader has only an implementation that this processor supports.
            Kernel::Avx2 => unsafe {
                F::lookup_chunks_avx2(&self.tables, chunks, next_hop_chunks);
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
