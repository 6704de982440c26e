//! Ports within the process, for tests and benchmarks.
//!
//! - [`descriptor_ring`]: both sides use one pool and pass only descriptors, so that only the data
//!   plane's own work is measured;
//! - [`wire`]: the far side handles plain bytes and has no pool; two workers, or a test and a
//!   worker, exchange frames as over a cable.

mod descriptors;
mod wire;

pub use descriptors::{DescriptorPeer, DescriptorQueue, descriptor_ring};
pub use wire::{WireEnd, WireQueue, wire};
