//! Packet captures: reads and writes pcap and pcapng.
//!
//! A capture is data from outside. Reading it gives packets or one clear [`CaptureError`], whatever
//! it contains. It never panics, and memory is bounded.

mod buffer;
mod error;
mod found;
mod link_type;
mod pcap;
mod pcapng;
mod read;
mod write;
pub mod write_pcapng;

pub use error::{CaptureError, Problem};
pub use link_type::LinkType;
pub use read::{Reader, Record};
pub use write::{Resolution, Writer};

/// The longest packet that a capture may announce, in bytes: libpcap's `MAXIMUM_SNAPLEN`.
pub const MAX_PACKET: u32 = 262_144;
