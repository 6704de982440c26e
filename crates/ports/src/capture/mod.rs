//! Capture files as ports: packets are read from pcap or pcapng and written to pcap.
//!
//! They are replayed by their time stamps or as fast as the worker goes. Captures without
//! Ethernet headers (raw IP, BSD loopback, Linux cooked) get one that is addressed to the
//! port, so that a router takes their packets.

mod queue;
mod source;
mod status;

pub use queue::{CaptureOptions, CaptureQueue};
pub use status::CaptureStatus;
