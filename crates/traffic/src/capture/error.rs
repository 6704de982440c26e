//! Errors in a capture, and their positions.

use super::{LinkType, MAX_PACKET};
use std::io;
use std::path::PathBuf;

/// Reason why a capture could not be read, with the position in the file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}{problem}", file.display(), self.place())]
pub struct CaptureError {
    /// Path of the file, or name given to the stream.
    pub file: PathBuf,
    /// Offset in bytes of the block or record that could not be read.
    pub offset: u64,
    /// Number of the packet that would have come next, from 1.
    pub packet: u64,
    /// Fault at that position.
    #[source]
    pub problem: Problem,
}

impl CaptureError {
    /// Position in words; empty for a file that could not be opened.
    fn place(&self) -> String {
        match self.problem {
            Problem::Open(_) => String::new(),
            _ => format!("byte {}, packet {}: ", self.offset, self.packet),
        }
    }
}

/// Fault of a capture.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file could not be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// The operating system reported an error while reading or writing.
    #[error("{0}")]
    Io(io::Error),
    /// The capture is empty.
    #[error("is empty; a pcap or pcapng capture is needed")]
    Empty,
    /// The magic number is that of neither format.
    #[error(
        "starts with {0:08x}, which is neither pcap (a1b2c3d4 or a1b23c4d, in either byte order) \
         nor pcapng (0a0d0d0a); tcpdump -w, dumpcap and editcap write those"
    )]
    NotACapture(u32),
    /// The version of the format is unknown.
    #[error("has version {major}.{minor}; {allowed} can be read (editcap converts others)")]
    Version {
        /// Major version found.
        major: u16,
        /// Minor version found.
        minor: u16,
        /// Versions that can be read.
        allowed: &'static str,
    },
    /// The file ends too early.
    #[error(
        "ends in the middle of a {what}: {wanted} bytes announced, {left} left \
         (was the capture cut off?)"
    )]
    Truncated {
        /// Part of the format.
        what: &'static str,
        /// Bytes that it needs.
        wanted: u64,
        /// Bytes that are left.
        left: u64,
    },
    /// A length field is out of range.
    #[error("{field} is {value}, allowed are {low} to {high}")]
    Length {
        /// Name of the field.
        field: &'static str,
        /// Value found.
        value: u64,
        /// Smallest allowed value.
        low: u64,
        /// Largest allowed value.
        high: u64,
    },
    /// A packet refers to an interface that was not described.
    #[error("refers to interface {interface}, but the section has described only {described}")]
    Interface {
        /// Interface number found, from 0.
        interface: u32,
        /// Number of described interfaces.
        described: usize,
    },
    /// A time stamp resolution that cannot be represented.
    #[error(
        "if_tsresol is {0}; allowed are 0 to 19 (powers of ten) and 128 to 191 (powers of two)"
    )]
    TimeResolution(u8),
    /// Any other violation of the format.
    #[error("holds a malformed {0}")]
    Malformed(&'static str),
    /// A packet is too long for a capture of this kind; the value is its length in bytes.
    #[error("a packet of {0} bytes; at most {MAX_PACKET} can be captured")]
    TooLong(usize),
    /// The capture has no packets, but some are needed.
    #[error("contains no packets; a replay needs at least one (was it recorded with a filter?)")]
    NoPackets,
    /// The reader cannot use packets of the capture's link type.
    #[error("contains {found} packets; {wanted} is needed here")]
    WrongLinkType {
        /// Link type found.
        found: LinkType,
        /// Link types that can be used.
        wanted: &'static str,
    },
}
