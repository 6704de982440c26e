//! Redundancy elimination between two routers: content that both have seen is not sent twice.
//!
//! The encoder, before a link, caches payloads. If a payload repeats bytes that took the same path
//! before, it sends the name of the packet that had them instead. The decoder, behind the link,
//! caches the same payloads and restores the bytes. After Spring and Wetherall, "A
//! protocol-independent technique for eliminating redundant network traffic" (SIGCOMM 2000); Anand
//! et al., "Redundancy in network traffic: findings and implications" (SIGMETRICS 2009); Aggarwal
//! et al., "EndRE" (NSDI 2010).
//!
//! Any sender can send packets through the decoder's port, and packets get lost. The encoder
//! therefore refers only to payloads that the decoder has confirmed, and the decoder caches only
//! payloads that the encoder has offered (`control`).
//!
//! The name of a packet is a keyed digest of its payload, so neither side has to number packets.
//! Unencoded packets carry nothing extra, and loss, reordering or duplicates cannot put counters
//! out of step. The decoder compares every restored payload with the digest before it forwards it.
//! See `docs/explanation/redundancy-elimination.md`.
//!
//! - [`select`]: selection of the windows with a fingerprint
//! - [`Store`]: the cache, one per application and shared by all workers; `index`: its fingerprints
//! - `outbox`: payloads to be offered to the decoder
//! - `encode`, `decode`: encoding and decoding of payloads; `bypass`: payloads that are skipped
//! - `encode_node`, `decode_node`: the same for packets in the graph; `rules`: selection of packets

mod bypass;
mod counters;
mod decode;
mod decode_node;
mod encode;
mod encode_node;
mod index;
mod outbox;
mod peer;
mod rules;
pub mod select;
mod store;
mod view;

#[cfg(test)]
mod link_tests;
#[cfg(test)]
mod node_tests;

pub use counters::{DecodeCounters, EncodeCounters};
pub use decode::{Decoded, Decoder, DecoderCache};
pub use decode_node::{DecodeNode, DecodeSection};
pub use encode::{EncodeSettings, Encoded, Encoder, EncoderCache, Offered, SHORTEST_OFFERED};
pub use encode_node::{EncodeNode, EncodeSection};
pub use peer::{Misses, Peer};
pub use rules::{Rules, SHORTEST_PAYLOAD};
pub use store::Store;
