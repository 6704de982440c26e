//! A window over a stream, which grows only as data arrives.

use std::io::{ErrorKind, Read, Result};

const INITIAL: usize = 256 * 1024;

/// The bytes of `input` from [`Buffer::offset`] on, as far as they have been read.
#[derive(Debug)]
pub(super) struct Buffer<R> {
    input: R,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
}

impl<R: Read> Buffer<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, bytes: vec![0; INITIAL], start: 0, end: 0, offset: 0 }
    }

    /// Returns the beginning of the window, in bytes from the start of the stream.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the window.
    pub(super) fn data(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Moves the start of the window forward; `count` must lie within it.
    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Reads until the window holds `wanted` bytes or the stream ends; true if it holds them. A
    /// length that a hostile file only announces costs no memory, since the buffer doubles only
    /// when it is full.
    pub(super) fn fill(&mut self, wanted: usize) -> Result<bool> {
        while self.end - self.start < wanted {
            if self.end == self.bytes.len() {
                if self.start > 0 {
                    self.bytes.copy_within(self.start..self.end, 0);
                    self.end -= self.start;
                    self.start = 0;
                } else {
                    self.bytes.resize(self.bytes.len() * 2, 0);
                }
            }
            match self.input.read(&mut self.bytes[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_and_grows() {
        let bytes: Vec<u8> = (0..3 * INITIAL).map(|i| (i % 251) as u8).collect();
        let mut buffer = Buffer::new(bytes.as_slice());
        assert!(buffer.fill(10).unwrap());
        buffer.consume(10);
        assert!(buffer.fill(2 * INITIAL).unwrap());
        assert_eq!(buffer.data()[..2 * INITIAL], bytes[10..10 + 2 * INITIAL]);
        assert_eq!(buffer.offset(), 10);
        assert!(!buffer.fill(3 * INITIAL).unwrap());
        assert_eq!(buffer.data(), &bytes[10..]);
    }
}
