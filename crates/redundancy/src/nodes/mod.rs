//! Redundancy elimination between two routers: what both have seen is not sent twice.
//!
//! The encoder, before a link, remembers payloads; where a payload has bytes that went the same
//! way before, it sends instead the name of the packet that had them. The decoder, behind the
//! link, remembers the same payloads and puts the bytes back. After Spring and Wetherall, "A
//! protocol-independent technique for eliminating redundant network traffic" (SIGCOMM 2000);
//! Anand et al., "Redundancy in network traffic: findings and implications" (SIGMETRICS 2009);
//! Aggarwal et al., "EndRE" (NSDI 2010).
//!
//! Packets are named by a keyed digest of their payload. So neither side has to number packets:
//! those that are sent as they are carry nothing, and loss, reordering or duplicates put no
//! counters out of step. Whatever the decoder puts together is compared with the digest before
//! it goes on. See `docs/explanation/redundancy-elimination.md`.
//!
//! - [`select`]: which windows of a payload get a fingerprint
//! - [`Store`]: the cache, one per application and shared by all workers; `index`: its fingerprints
//! - `encode`, `decode`: from payload to payload; `bypass`: what is not tried
//! - `encode_node`, `decode_node`: the same for packets in the graph; `rules`: which of them

mod bypass;
mod counters;
mod decode;
mod decode_node;
mod encode;
mod encode_node;
mod family;
mod index;
mod peer;
mod rules;
pub mod select;
mod store;

#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod node_tests;

pub use counters::{DecodeCounters, EncodeCounters};
pub use decode::{Decoded, Decoder, DecoderCache};
pub use decode_node::{DecodeNode, DecodeSection};
pub use encode::{EncodeSettings, Encoded, Encoder, EncoderCache};
pub use encode_node::{EncodeNode, EncodeSection};
pub use family::Family;
pub use peer::{Misses, Peer};
pub use rules::{Rules, SHORTEST_PAYLOAD};
pub use store::Store;
