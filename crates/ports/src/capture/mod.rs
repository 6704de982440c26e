//! Capture files as ports: packets are read from pcap or pcapng and written to pcap.
//!
//! They are replayed by their time stamps or as fast as possible. Packets of captures without
//! Ethernet headers (raw IP, BSD loopback, Linux cooked) get a header that is addressed to the
//! port, so that a router accepts them.

mod queue;
mod source;
mod status;

pub use queue::{CaptureOptions, CaptureQueue};
pub use status::CaptureStatus;
