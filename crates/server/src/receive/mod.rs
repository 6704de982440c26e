//! A model of the receive path of a host, after G. Liao, L. Bhuyan, Analyzing performance and power
//! efficiency of network processing over 10 GbE (2012): which data misses the caches, what the
//! misses cost, and what six proposals of the paper would change.
//!
//! [`ReceivePath`] is simulated line by line over caches. [`cost`] converts its misses into cycles
//! and watts, and [`io_size`] has the figures over the I/O size.

mod cache;
pub mod cost;
pub mod io_size;
mod machine;
mod path;
mod prefetch;
pub mod proposals;
pub mod rate_adaptive;
mod recency;
mod slab;

pub use cache::{Cache, Found, InvalidCache, LINE_BYTES, Line, MOST_WAYS};
pub use machine::{Counts, Data, Distance, Memory, Phase};
pub use path::{
    Buffers, Delivery, FRAME_LINES, InvalidPath, Outcome, PAYLOAD_BYTES, ReceivePath, Step,
    transmitted_accesses,
};
pub use prefetch::Streams;
