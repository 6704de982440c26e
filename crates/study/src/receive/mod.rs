//! A model of the receive path of a host, after G. Liao, L. Bhuyan, Analyzing performance and power
//! efficiency of network processing over 10 GbE (2012): cache misses by data, their cost, and the
//! effect of six proposals of the paper.
//!
//! [`ReceivePath`] is simulated line by line over caches. [`cost`] converts its misses into cycles
//! and watts, and [`io_size`] computes the figures over the I/O size.

mod application;
mod arrivals;
mod cache;
pub mod cost;
mod data;
mod estimate;
pub mod io_size;
mod layout;
mod machine;
mod outcome;
mod path;
mod places;
mod pool;
mod prefetch;
pub mod proposals;
pub mod rate_adaptive;
mod recency;
mod reuse;
mod run;
mod slab;
mod transmit;

pub use cache::{Cache, Found, InvalidCache, LINE_BYTES, Line, MOST_WAYS};
pub use data::{Counts, Data, Distance, Memory, Phase};
pub use estimate::{Calibration, Estimate};
pub use layout::{FRAME_LINES, PAYLOAD_BYTES, PageStruct};
pub use outcome::{Outcome, Step};
pub use path::{Buffers, Delivery, InvalidPath, ReceivePath};
pub use prefetch::Streams;
pub use transmit::transmitted_accesses;
