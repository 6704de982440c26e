//! Reads a capture of either format, one packet at a time.

use super::buffer::Buffer;
use super::found::need;
use super::pcap::Pcap;
use super::pcapng::{self, Pcapng};
use super::{CaptureError, LinkType, Problem};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;
use wattline_units::Time;

/// One packet of a capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// Time since the first packet of the capture; zero for a packet with an earlier time stamp.
    pub time: Time,
    /// Time since 1970 in the capture, truncated to nanoseconds; zero if it has none or an earlier
    /// one.
    pub timestamp: Duration,
    /// Length on the wire in bytes; at least `data.len()`.
    pub original_length: u32,
    /// Type of the link-layer header at the start of `data`.
    pub link_type: LinkType,
    /// Interface number within the section (pcapng), counted from 0; 0 for pcap.
    pub interface: u32,
    /// Captured bytes; fewer than `original_length` if the capture has a snap length.
    pub data: &'a [u8],
}

#[derive(Debug)]
enum Format {
    Pcap(Pcap),
    Pcapng(Pcapng),
    /// After an error or the end of the capture.
    Ended,
}

/// Reads pcap (microseconds or nanoseconds, either byte order) and pcapng.
///
/// Memory is bounded, whatever the file announces. The reader returns all packets before an error,
/// and none after it.
#[derive(Debug)]
pub struct Reader<R = File> {
    file: PathBuf,
    buffer: Buffer<R>,
    format: Format,
    /// Bytes of the last returned record, still in the buffer.
    pending: usize,
    packets: u64,
    first: Option<i128>,
    latest: i128,
}

impl Reader<File> {
    /// Opens a capture file.
    ///
    /// # Errors
    /// Fails when the file cannot be opened or read, or is no capture.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CaptureError> {
        let file = path.as_ref().to_path_buf();
        match File::open(&file) {
            Ok(input) => Self::new(file, input),
            Err(error) => {
                Err(CaptureError { file, offset: 0, packet: 1, problem: Problem::Open(error) })
            }
        }
    }
}

impl<R: Read> Reader<R> {
    /// Reads a capture from any stream; `name` identifies it in errors.
    ///
    /// # Errors
    /// Fails when the stream cannot be read or does not begin like a capture.
    pub fn new(name: impl Into<PathBuf>, input: R) -> Result<Self, CaptureError> {
        let mut reader = Self {
            file: name.into(),
            buffer: Buffer::new(input),
            format: Format::Ended,
            pending: 0,
            packets: 0,
            first: None,
            latest: 0,
        };
        match recognise(&mut reader.buffer) {
            Ok(format) => reader.format = format,
            Err(problem) => return Err(reader.error(problem)),
        }
        Ok(reader)
    }

    /// Returns the next packet; `None` at the end.
    ///
    /// # Errors
    /// Returns the fault of the capture and its position; after that, `None`.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        self.buffer.consume(self.pending);
        self.pending = 0;
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(&mut self.buffer),
            Format::Pcapng(pcapng) => pcapng.next(&mut self.buffer),
            Format::Ended => Ok(None),
        };
        let found = match found {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.format = Format::Ended;
                return Ok(None);
            }
            Err(problem) => {
                self.format = Format::Ended;
                return Err(self.error(problem));
            }
        };
        self.packets += 1;
        self.pending = found.block;
        // A packet without a time stamp gets the time of the one before it.
        let picos = found.picos.unwrap_or(self.latest);
        self.latest = picos;
        let since_first = picos - *self.first.get_or_insert(picos);
        Ok(Some(Record {
            time: Time::from_picos(saturate(since_first)),
            timestamp: Duration::from_nanos(saturate(picos / 1_000)),
            original_length: found.original_length,
            link_type: found.link_type,
            interface: found.interface,
            data: &self.buffer.data()[found.data],
        }))
    }

    /// Number of packets returned so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Name of the file, as given.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Error about the last returned packet, for a caller that cannot use it.
    pub fn reject(&self, problem: Problem) -> CaptureError {
        CaptureError {
            file: self.file.clone(),
            offset: self.buffer.offset(),
            packet: self.packets.max(1),
            problem,
        }
    }

    fn error(&self, problem: Problem) -> CaptureError {
        CaptureError {
            file: self.file.clone(),
            offset: self.buffer.offset(),
            packet: self.packets + 1,
            problem,
        }
    }
}

fn saturate(value: i128) -> u64 {
    u64::try_from(value.max(0)).unwrap_or(u64::MAX)
}

fn recognise<R: Read>(buffer: &mut Buffer<R>) -> Result<Format, Problem> {
    if !buffer.fill(1).map_err(Problem::Io)? {
        return Err(Problem::Empty);
    }
    need(buffer, 4, "magic number")?;
    let head = buffer.data();
    let magic = u32::from_le_bytes([head[0], head[1], head[2], head[3]]);
    match magic {
        pcapng::SECTION_HEADER => Ok(Format::Pcapng(Pcapng::default())),
        _ if Pcap::recognises(magic) => Pcap::open(buffer).map(Format::Pcap),
        _ => Err(Problem::NotACapture(magic.swap_bytes())),
    }
}
