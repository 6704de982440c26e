//! Sources of packets and of requests in time: captures, synthetic mixes, bursts, day profiles.
//!
//! A [`Source`] gives [`Packet`]s in order of time, by the [`Block`]; what happens to them
//! is no concern of this crate. [`capture`] reads and writes capture files; [`requests`] has what
//! clients ask of servers.
#![forbid(unsafe_code)]

pub mod capture;
mod flow_hash;
mod flows;
mod packet;
mod random;
pub mod requests;
mod sizes;
pub mod source;
pub mod spec;

pub use flows::{Popularity, Spread};
pub use packet::{Block, Packet};
pub use sizes::Sizes;
pub use source::Source;
pub use spec::Spec;
