//! Packet captures: pcap and pcapng in, pcap out.
//!
//! A capture is data from outside: whatever it holds, reading it ends in packets
//! or in one clear [`CaptureError`], never in a panic, and takes bounded memory.

mod buffer;
mod error;
mod found;
mod link_type;
mod pcap;
mod pcapng;
mod read;
mod write;

pub use error::{CaptureError, Problem};
pub use link_type::LinkType;
pub use read::{Reader, Record};
pub use write::{Resolution, Writer};

/// The longest packet that a capture may announce, in bytes: libpcap's `MAXIMUM_SNAPLEN`.
pub const MAX_PACKET: u32 = 262_144;
