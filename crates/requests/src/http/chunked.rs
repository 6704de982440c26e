//! Skips a body in the chunked transfer coding as it arrives (RFC 9112, section 7.1).

use crate::line::LineReader;
use crate::protocol::ProtocolError;

/// Largest length of a chunk's size line with its extensions, or of a trailer field.
const LINE_LIMIT: usize = 4_096;
/// Largest length of all trailer fields together.
const TRAILER_LIMIT: usize = 32_768;
/// Bytes of size lines that are accepted before the first byte of a body, and for each of its
/// bytes: size lines of tiny chunks may be longer than the chunks.
const OVERHEAD_START: u64 = 65_536;
const OVERHEAD_PER_BYTE: u64 = 64;

/// Reader of one body.
#[derive(Debug, Default)]
pub(super) struct Chunked {
    state: State,
    /// Bytes of chunks, and bytes of size lines.
    content: u64,
    overhead: u64,
    trailer: usize,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    #[default]
    Size,
    Data(u64),
    DataEnd,
    Trailer,
}

impl Chunked {
    /// Continues to read; returns true when the body is complete.
    pub fn read(
        &mut self,
        line: &mut LineReader,
        input: &mut &[u8],
    ) -> Result<bool, ProtocolError> {
        loop {
            match self.state {
                State::Data(remaining) => {
                    // The smaller of both fits into either type.
                    let taken = remaining.min(input.len() as u64);
                    *input = &input[taken as usize..];
                    if taken < remaining {
                        self.state = State::Data(remaining - taken);
                        return Ok(false);
                    }
                    self.state = State::DataEnd;
                }
                State::Size => {
                    let Some(text) = line.next(input, LINE_LIMIT)? else { return Ok(false) };
                    let size = size(text)?;
                    self.overhead += text.len() as u64;
                    self.content = self.content.saturating_add(size);
                    let borne = self.content.saturating_mul(OVERHEAD_PER_BYTE);
                    if self.overhead > borne.saturating_add(OVERHEAD_START) {
                        return Err(ProtocolError("chunk extensions without end"));
                    }
                    self.state = if size == 0 { State::Trailer } else { State::Data(size) };
                }
                State::DataEnd => {
                    let Some(text) = line.next(input, LINE_LIMIT)? else { return Ok(false) };
                    if !text.is_empty() {
                        return Err(ProtocolError("a chunk that is longer than its size"));
                    }
                    self.state = State::Size;
                }
                State::Trailer => {
                    let Some(text) = line.next(input, LINE_LIMIT)? else { return Ok(false) };
                    if text.is_empty() {
                        *self = Self::default();
                        return Ok(true);
                    }
                    self.trailer += text.len() + 2;
                    if self.trailer > TRAILER_LIMIT {
                        return Err(ProtocolError("a trailer without end"));
                    }
                }
            }
        }
    }
}

/// Parses the number at the beginning of a size line, before extensions.
fn size(line: &[u8]) -> Result<u64, ProtocolError> {
    const WRONG: ProtocolError = ProtocolError("a chunk without a size in hexadecimal");
    let end = line.iter().position(|byte| matches!(byte, b';' | b' ' | b'\t'));
    let digits = &line[..end.unwrap_or(line.len())];
    if digits.is_empty() || digits.len() > 16 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(WRONG);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| WRONG)?;
    u64::from_str_radix(digits, 16).map_err(|_| WRONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns true if the body was complete, and the number of bytes left after it.
    fn read(stream: &[u8], size: usize) -> Result<(bool, usize), ProtocolError> {
        let (mut body, mut line) = (Chunked::default(), LineReader::default());
        let mut at = 0;
        while at < stream.len() {
            let piece = &stream[at..(at + size).min(stream.len())];
            let mut input = piece;
            if body.read(&mut line, &mut input)? {
                return Ok((true, stream.len() - at - (piece.len() - input.len())));
            }
            at += piece.len();
        }
        Ok((false, 0))
    }

    #[test]
    fn bodies_do_not_depend_on_segmentation() {
        let stream = b"4\r\nWiki\r\nA;name=\"v\"\r\n0123456789\r\n0\r\nExpires: never\r\n\r\nnext";
        for size in 1..stream.len() {
            assert_eq!(read(stream, size), Ok((true, 4)), "pieces of {size}");
        }
        assert_eq!(read(&stream[..30], 7), Ok((false, 0)));
    }

    #[test]
    fn hostile_bodies_are_refused() {
        let endless_trailer = [&b"0\r\n"[..], &b"a: b\r\n".repeat(10_000)].concat();
        let extensions = format!("1;{}\r\nx\r\n", "e".repeat(4_000)).repeat(100).into_bytes();
        for stream in [
            &b"10000000000000000\r\n"[..],
            b"-1\r\n",
            b"\r\n",
            b"g\r\n",
            b"1\r\nab\r\n",
            b"0x1\r\n",
            &vec![b'0'; 5_000],
            &endless_trailer,
            &extensions,
        ] {
            let shown = &stream[..stream.len().min(20)];
            assert!(read(stream, 999).is_err(), "{shown:?}");
        }
        // The largest size is valid; the generator only counts it down.
        assert_eq!(read(b"ffffffffffffffff\r\nx", 3), Ok((false, 0)));
    }
}
