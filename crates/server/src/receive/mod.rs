//! A model of the receive path of a host, after G. Liao, L. Bhuyan, Analyzing performance and
//! power efficiency of network processing over 10 GbE (2012): which data misses the caches, what
//! that costs, and what six proposals of the paper would change.
//!
//! [`ReceivePath`] is simulated line by line over caches of our own; what follows from its
//! misses in cycles and watts is in [`cost`], the figures over the I/O size in [`io_size`].

mod cache;
pub mod cost;
pub mod io_size;
mod machine;
mod path;
mod prefetch;
pub mod proposals;
pub mod rate_adaptive;
mod slab;

pub use cache::{Cache, Found, InvalidCache, LINE_BYTES, Line};
pub use machine::{Counts, Data, Distance, Memory, Phase};
pub use path::{
    Buffers, Delivery, FRAME_LINES, InvalidPath, Outcome, PAYLOAD_BYTES, ReceivePath, Step,
    transmitted_accesses,
};
pub use prefetch::Streams;
