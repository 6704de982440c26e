//! Sources of packets and requests over time: captures, synthetic mixes, bursts, day profiles.
//!
//! A [`Source`] returns [`Packet`]s in order of time, one [`Block`] at a time. [`capture`] reads
//! and writes capture files; [`requests`] has the requests of clients to servers.
#![forbid(unsafe_code)]

pub mod capture;
mod flow_hash;
mod flows;
mod packet;
mod random;
pub mod rates;
pub mod requests;
mod sizes;
pub mod source;
pub mod spec;

pub use flows::{Popularity, Spread};
pub use packet::{Block, Packet};
pub use sizes::Sizes;
pub use source::Source;
pub use spec::Spec;
