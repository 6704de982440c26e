//! Frames that one program has forwarded, by processor.

use crate::bpf::{BpfError, Map};
use crate::verdict::Verdict;
use std::sync::Arc;

/// A program's count of frames that it forwarded by itself, including frames whose interface had
/// just been removed: they cost the same.
#[derive(Debug, Clone)]
pub struct ForwardedByCpu {
    counters: Arc<Map>,
}

impl ForwardedByCpu {
    pub(crate) fn new(counters: Arc<Map>) -> Self {
        Self { counters }
    }

    /// Adds the frames since the program was loaded to `frames`, by processor, and extends it to
    /// the number of processors.
    ///
    /// # Errors
    /// Only from the kernel.
    pub fn add_to(&self, frames: &mut Vec<u64>) -> Result<(), BpfError> {
        for verdict in [Verdict::Forwarded, Verdict::NoEgressPort] {
            let values = self.counters.get(&(verdict as u32).to_ne_bytes())?.unwrap_or_default();
            let (by_cpu, _) = values.as_chunks::<8>();
            frames.resize(frames.len().max(by_cpu.len()), 0);
            for (sum, value) in frames.iter_mut().zip(by_cpu) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*value));
            }
        }
        Ok(())
    }
}
