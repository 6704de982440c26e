//! What can be wrong with a capture, and where.

use super::{LinkType, MAX_PACKET};
use std::io;
use std::path::PathBuf;

/// Why a capture could not be read, with the place in the file.
#[derive(Debug, thiserror::Error)]
#[error("{}: {}{problem}", file.display(), self.place())]
pub struct CaptureError {
    /// The file, or the name that was given to the stream.
    pub file: PathBuf,
    /// Where the block or record begins that could not be read, in bytes from the start.
    pub offset: u64,
    /// The packet that would have come next, counted from 1.
    pub packet: u64,
    /// What is wrong there.
    #[source]
    pub problem: Problem,
}

impl CaptureError {
    /// Nowhere in a file that could not be opened.
    fn place(&self) -> String {
        match self.problem {
            Problem::Open(_) => String::new(),
            _ => format!("byte {}, packet {}: ", self.offset, self.packet),
        }
    }
}

/// What is wrong with a capture.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The file could not be opened.
    #[error("cannot be opened: {0}")]
    Open(io::Error),
    /// The operating system reported an error while reading or writing.
    #[error("{0}")]
    Io(io::Error),
    /// Nothing in it at all.
    #[error("is empty; a pcap or pcapng capture is needed")]
    Empty,
    /// Neither format's magic number.
    #[error(
        "starts with {0:08x}, which is neither pcap (a1b2c3d4 or a1b23c4d, in either byte order) \
         nor pcapng (0a0d0d0a); tcpdump -w, dumpcap and editcap write those"
    )]
    NotACapture(u32),
    /// A version of the format that is not known.
    #[error("has version {major}.{minor}; {allowed} can be read (editcap converts others)")]
    Version {
        /// As found.
        major: u16,
        /// As found.
        minor: u16,
        /// What can be read.
        allowed: &'static str,
    },
    /// The file ends too early.
    #[error(
        "ends in the middle of a {what}: {wanted} bytes announced, {left} left \
         (was the capture cut off?)"
    )]
    Truncated {
        /// Which part of the format.
        what: &'static str,
        /// Bytes that it has to have.
        wanted: u64,
        /// Bytes that there are.
        left: u64,
    },
    /// A length field out of range.
    #[error("{field} is {value}, allowed are {low} to {high}")]
    Length {
        /// Which field.
        field: &'static str,
        /// As found.
        value: u64,
        /// Smallest allowed.
        low: u64,
        /// Largest allowed.
        high: u64,
    },
    /// A packet refers to an interface that was not described.
    #[error("refers to interface {interface}, but the section has described only {described}")]
    Interface {
        /// As found, counted from 0.
        interface: u32,
        /// How many there are.
        described: usize,
    },
    /// A time stamp resolution that cannot be represented.
    #[error(
        "if_tsresol is {0}; allowed are 0 to 19 (powers of ten) and 128 to 191 (powers of two)"
    )]
    TimeResolution(u8),
    /// Anything else that breaks the format.
    #[error("holds a malformed {0}")]
    Malformed(&'static str),
    /// A packet that does not fit a capture of this kind.
    #[error("a packet of {0} bytes; at most {MAX_PACKET} can be captured")]
    TooLong(usize),
    /// A capture without packets where some are needed.
    #[error("holds no packet")]
    NoPackets,
    /// The capture's packets are of a kind that the reader cannot use.
    #[error("holds {found} packets; {wanted} is needed here")]
    WrongLinkType {
        /// As found.
        found: LinkType,
        /// What would do.
        wanted: &'static str,
    },
}
