//! Writes a pcap file (draft-ietf-opsawg-pcap), little-endian.

use super::pcap::{FILE_HEADER, MAGIC_MICROS, MAGIC_NANOS, RECORD_HEADER};
use super::{CaptureError, LinkType, MAX_PACKET, Problem};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Unit of the time stamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// Microseconds, which every reader supports.
    Micros,
    /// Nanoseconds.
    Nanos,
}

/// Writes packets to a pcap file. Call [`Writer::finish`] at the end: a writer that is only dropped
/// may lose the last packets without an error.
#[derive(Debug)]
pub struct Writer<W: Write = BufWriter<File>> {
    file: PathBuf,
    output: W,
    resolution: Resolution,
    packets: u64,
    offset: u64,
}

impl Writer<BufWriter<File>> {
    /// Creates or empties the file.
    ///
    /// # Errors
    /// Fails when it cannot be created or written.
    pub fn create(
        path: impl AsRef<Path>,
        link_type: LinkType,
        resolution: Resolution,
    ) -> Result<Self, CaptureError> {
        let file = path.as_ref().to_path_buf();
        match wattline_files::create(&file) {
            Ok(output) => Self::new(file, BufWriter::new(output), link_type, resolution),
            Err(error) => {
                Err(CaptureError { file, offset: 0, packet: 1, problem: Problem::Open(error) })
            }
        }
    }
}

impl<W: Write> Writer<W> {
    /// Writes the file header; `name` identifies the stream in errors.
    ///
    /// # Errors
    /// Fails when writing fails.
    pub fn new(
        name: impl Into<PathBuf>,
        output: W,
        link_type: LinkType,
        resolution: Resolution,
    ) -> Result<Self, CaptureError> {
        let magic = match resolution {
            Resolution::Micros => MAGIC_MICROS,
            Resolution::Nanos => MAGIC_NANOS,
        };
        let mut header = [0; FILE_HEADER];
        header[0..4].copy_from_slice(&magic.to_le_bytes());
        header[4..6].copy_from_slice(&2u16.to_le_bytes());
        header[6..8].copy_from_slice(&4u16.to_le_bytes());
        header[16..20].copy_from_slice(&MAX_PACKET.to_le_bytes());
        header[20..22].copy_from_slice(&link_type.0.to_le_bytes());
        let mut writer = Self { file: name.into(), output, resolution, packets: 0, offset: 0 };
        writer.put(&header)?;
        Ok(writer)
    }

    /// Appends a packet that was captured completely. `timestamp` counts from 1970 or from another
    /// start of the caller's choice. Its seconds must fit into 32 bits; larger values are capped.
    ///
    /// # Errors
    /// Fails when writing fails or when the packet is longer than [`MAX_PACKET`].
    pub fn write(&mut self, timestamp: Duration, data: &[u8]) -> Result<(), CaptureError> {
        self.write_cut(timestamp, data, data.len() as u32)
    }

    /// Appends a packet of which only the first bytes were captured.
    ///
    /// # Errors
    /// Fails as [`Writer::write`].
    pub fn write_cut(
        &mut self,
        timestamp: Duration,
        data: &[u8],
        original_length: u32,
    ) -> Result<(), CaptureError> {
        let captured = match u32::try_from(data.len()) {
            Ok(length) if length <= MAX_PACKET => length,
            _ => return Err(self.error(Problem::TooLong(data.len()))),
        };
        let seconds = u32::try_from(timestamp.as_secs()).unwrap_or(u32::MAX);
        let fraction = match self.resolution {
            Resolution::Micros => timestamp.subsec_micros(),
            Resolution::Nanos => timestamp.subsec_nanos(),
        };
        let mut header = [0; RECORD_HEADER];
        header[0..4].copy_from_slice(&seconds.to_le_bytes());
        header[4..8].copy_from_slice(&fraction.to_le_bytes());
        header[8..12].copy_from_slice(&captured.to_le_bytes());
        header[12..16].copy_from_slice(&original_length.max(captured).to_le_bytes());
        self.put(&header)?;
        self.put(data)?;
        self.packets += 1;
        Ok(())
    }

    /// Number of packets written so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Writes the buffered data and returns the stream.
    ///
    /// # Errors
    /// Fails when writing fails.
    pub fn finish(mut self) -> Result<W, CaptureError> {
        match self.output.flush() {
            Ok(()) => Ok(self.output),
            Err(error) => Err(self.error(Problem::Io(error))),
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), CaptureError> {
        match self.output.write_all(bytes) {
            Ok(()) => {
                self.offset += bytes.len() as u64;
                Ok(())
            }
            Err(error) => Err(self.error(Problem::Io(error))),
        }
    }

    fn error(&self, problem: Problem) -> CaptureError {
        CaptureError {
            file: self.file.clone(),
            offset: self.offset,
            packet: self.packets + 1,
            problem,
        }
    }
}
