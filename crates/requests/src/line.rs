//! Lines of a stream that arrives in pieces.

use crate::protocol::ProtocolError;
use memchr::memchr;

/// Keeps the beginning of a line until its end arrives, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct LineReader {
    kept: Vec<u8>,
    complete: bool,
}

impl LineReader {
    /// Returns the next line without its line feed and the carriage return before it. Returns
    /// `None` and consumes the input if the line continues beyond it.
    pub fn next<'line, 'input: 'line>(
        &'line mut self,
        input: &mut &'input [u8],
        limit: usize,
    ) -> Result<Option<&'line [u8]>, ProtocolError> {
        const TOO_LONG: ProtocolError = ProtocolError("a line without end");
        if self.complete {
            self.kept.clear();
            self.complete = false;
        }
        let Some(length) = memchr(b'\n', input) else {
            if self.kept.len() + input.len() > limit {
                return Err(TOO_LONG);
            }
            self.kept.extend_from_slice(input);
            *input = &[];
            return Ok(None);
        };
        if self.kept.len() + length > limit {
            return Err(TOO_LONG);
        }
        let (line, rest) = (&input[..length], &input[length + 1..]);
        *input = rest;
        let line = if self.kept.is_empty() {
            line
        } else {
            self.kept.extend_from_slice(line);
            self.complete = true;
            &self.kept
        };
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

/// Parses a decimal number; `None` if it has characters other than digits or exceeds 64 bits.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit <= 9)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_depend_on_segmentation() {
        let stream = b"first\r\nsecond\nthird\r\n";
        for size in 1..stream.len() {
            let mut reader = LineReader::default();
            let mut found = Vec::new();
            for mut piece in stream.chunks(size) {
                while let Some(line) = reader.next(&mut piece, 64).unwrap() {
                    found.push(line.to_vec());
                }
            }
            assert_eq!(found, [&b"first"[..], b"second", b"third"], "pieces of {size}");
        }
    }

    #[test]
    fn line_without_end_is_refused_at_the_limit() {
        let mut reader = LineReader::default();
        let mut whole = &[b'x'; 65][..];
        assert!(reader.next(&mut whole, 64).is_err());
        let mut reader = LineReader::default();
        for _ in 0..64 {
            assert_eq!(reader.next(&mut &b"x"[..], 64), Ok(None));
        }
        assert!(reader.next(&mut &b"x"[..], 64).is_err());
    }

    #[test]
    fn decimal_accepts_digits_only() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        for wrong in [&b""[..], b"+1", b"-1", b" 1", b"1 ", b"18446744073709551616", b"1x", b"\xff"]
        {
            assert_eq!(decimal(wrong), None, "{wrong:?}");
        }
    }
}
