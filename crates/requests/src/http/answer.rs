//! Incremental parser of HTTP responses (RFC 9112, sections 4 to 7).

use super::chunked::Chunked;
use crate::line::{LineReader, decimal};
use crate::protocol::{Outcome, ProtocolError, Step};
use memchr::memchr_iter;
use std::mem::MaybeUninit;

/// Largest length of status line and header fields together.
const HEAD_LIMIT: usize = 65_536;
/// Largest number of header fields.
const FIELDS: usize = 128;

/// Parser of one connection's answers.
#[derive(Debug, Default)]
pub struct HttpParser {
    state: State,
    /// Beginning of a head whose end has not arrived.
    head: Vec<u8>,
    line: LineReader,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    /// This many bytes are to come.
    Length(u64, Ending),
    Chunked(Chunked, Ending),
    /// The body ends with the connection.
    UntilClosed(Outcome),
}

/// Properties of an answer's end, known from its head.
#[derive(Debug, Clone, Copy)]
struct Ending {
    outcome: Outcome,
    last: bool,
}

impl HttpParser {
    /// Continues to read an answer; an answer to a `HEAD` request has no body.
    ///
    /// # Errors
    /// Fails when the bytes are no HTTP/1 answer, or their lengths contradict each other.
    pub fn read(&mut self, to_head: bool, input: &mut &[u8]) -> Result<Step, ProtocolError> {
        loop {
            match &mut self.state {
                State::Head => match self.read_head(to_head, input)? {
                    Some(state) => self.state = state,
                    None => return Ok(Step::More),
                },
                State::Length(remaining, ending) => {
                    // The smaller of both fits into either type.
                    let taken = (*remaining).min(input.len() as u64);
                    *input = &input[taken as usize..];
                    *remaining -= taken;
                    if *remaining > 0 {
                        return Ok(Step::More);
                    }
                    let ending = *ending;
                    return Ok(self.complete(ending));
                }
                State::Chunked(body, ending) => {
                    if !body.read(&mut self.line, input)? {
                        return Ok(Step::More);
                    }
                    let ending = *ending;
                    return Ok(self.complete(ending));
                }
                State::UntilClosed(_) => {
                    *input = &[];
                    return Ok(Step::More);
                }
            }
        }
    }

    /// Returns the outcome of an answer whose body ends with the connection.
    pub(super) fn closed(&self) -> Option<Outcome> {
        match self.state {
            State::UntilClosed(outcome) => Some(outcome),
            _ => None,
        }
    }

    fn complete(&mut self, ending: Ending) -> Step {
        self.state = State::Head;
        Step::Answer { outcome: ending.outcome, last: ending.last }
    }

    /// Returns the state after the head; `None` if the head is incomplete, and after an interim
    /// answer.
    fn read_head(
        &mut self,
        to_head: bool,
        input: &mut &[u8],
    ) -> Result<Option<State>, ProtocolError> {
        while !input.is_empty() {
            // Each byte is searched once for the blank line, so a head that arrives byte by byte is
            // not parsed repeatedly.
            let kept = self.head.len();
            let Some(end) = blank_line(&self.head, input) else {
                if kept + input.len() > HEAD_LIMIT {
                    return Err(ProtocolError("header fields without end"));
                }
                self.head.extend_from_slice(input);
                *input = &[];
                return Ok(None);
            };
            if kept + end > HEAD_LIMIT {
                return Err(ProtocolError("header fields without end"));
            }
            let (rest_of_head, rest) = input.split_at(end);
            *input = rest;
            let state = if kept == 0 {
                parse_head(to_head, rest_of_head)?
            } else {
                self.head.extend_from_slice(rest_of_head);
                let state = parse_head(to_head, &self.head)?;
                self.head.clear();
                state
            };
            // An interim answer (RFC 9110, section 15.2) is followed by the answer itself.
            if state.is_some() {
                return Ok(state);
            }
        }
        Ok(None)
    }
}

/// Returns the end in `input`, after the line feed of the first empty line, of the head whose
/// beginning was `kept`.
fn blank_line(kept: &[u8], input: &[u8]) -> Option<usize> {
    let before = |at: usize, back: usize| match at.checked_sub(back) {
        Some(index) => Some(input[index]),
        None => kept.len().checked_sub(back - at).map(|index| kept[index]),
    };
    let ends = |at: &usize| match before(*at, 1) {
        Some(b'\n') => true,
        Some(b'\r') => before(*at, 2) == Some(b'\n'),
        _ => false,
    };
    memchr_iter(b'\n', input).find(ends).map(|at| at + 1)
}

/// Parses a head; returns none after an interim answer.
fn parse_head(to_head: bool, head: &[u8]) -> Result<Option<State>, ProtocolError> {
    // Uninitialised: clearing would write 4 kB per answer.
    let mut fields = [const { MaybeUninit::uninit() }; FIELDS];
    let mut response = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    match parser.parse_response_with_uninit_headers(&mut response, head, &mut fields) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(ProtocolError("a head that is cut off")),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(ProtocolError("more than 128 header fields"));
        }
        Err(_) => return Err(ProtocolError("no HTTP/1 answer")),
    }
    let (Some(code), Some(minor)) = (response.code, response.version) else {
        return Err(ProtocolError("no HTTP/1 answer"));
    };
    let outcome = match code {
        // No change of protocol was requested.
        101 => return Err(ProtocolError("an answer that switches protocols")),
        100..200 => return Ok(None),
        200..400 => Outcome::Done,
        400..500 => Outcome::ClientError,
        500..600 => Outcome::ServerError,
        _ => return Err(ProtocolError("a status code outside 100 to 599")),
    };
    let Framing { length, chunked, close, keep_alive } = framing(response.headers)?;
    // RFC 9112, section 9.3.
    let last = close || (minor == 0 && !keep_alive);
    let ending = Ending { outcome, last };
    // RFC 9112, section 6.3.
    Ok(Some(if to_head || code == 204 || code == 304 {
        State::Length(0, ending)
    } else if chunked {
        State::Chunked(Chunked::default(), ending)
    } else if let Some(length) = length {
        State::Length(length, ending)
    } else {
        State::UntilClosed(outcome)
    }))
}

#[derive(Default)]
struct Framing {
    length: Option<u64>,
    chunked: bool,
    close: bool,
    keep_alive: bool,
}

fn framing(fields: &[httparse::Header<'_>]) -> Result<Framing, ProtocolError> {
    let mut framing = Framing::default();
    for field in fields {
        let values = || field.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        if field.name.eq_ignore_ascii_case("content-length") {
            for value in values() {
                let length = decimal(value)
                    .ok_or(ProtocolError("a Content-Length that is not a number up to 2^64 - 1"))?;
                if framing.length.is_some_and(|known| known != length) {
                    return Err(ProtocolError("two lengths that differ"));
                }
                framing.length = Some(length);
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            for value in values() {
                if framing.chunked || !value.eq_ignore_ascii_case(b"chunked") {
                    return Err(ProtocolError("a Transfer-Encoding other than chunked"));
                }
                framing.chunked = true;
            }
        } else if field.name.eq_ignore_ascii_case("connection") {
            framing.close |= values().any(|value| value.eq_ignore_ascii_case(b"close"));
            framing.keep_alive |= values().any(|value| value.eq_ignore_ascii_case(b"keep-alive"));
        }
    }
    if framing.chunked && framing.length.is_some() {
        // May be an attempt at request smuggling or response splitting (RFC 9112, section 6.3).
        return Err(ProtocolError("both Content-Length and Transfer-Encoding"));
    }
    Ok(framing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        stream: &[u8],
        size: usize,
    ) -> Result<(Vec<(Outcome, bool)>, HttpParser), ProtocolError> {
        let mut parser = HttpParser::default();
        let mut answers = Vec::new();
        for mut piece in stream.chunks(size) {
            while !piece.is_empty() {
                if let Step::Answer { outcome, last } = parser.read(false, &mut piece)? {
                    answers.push((outcome, last));
                }
            }
        }
        Ok((answers, parser))
    }

    #[test]
    fn answers_do_not_depend_on_segmentation() {
        use Outcome::{ClientError, Done, ServerError};
        let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
            HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n\
            HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
            HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 0\r\n\r\n\
            HTTP/1.0 200 OK\nContent-Length: 2\nConnection: keep-alive\n\nok\
            HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let expected = [
            (Done, false),
            (Done, false),
            (ClientError, false),
            (ServerError, true),
            (Done, false),
            (Done, true),
        ];
        for size in 1..stream.len() {
            let (answers, parser) = read(stream, size).unwrap();
            assert_eq!(answers, expected, "pieces of {size}");
            assert_eq!(parser.closed(), None);
        }
    }

    #[test]
    fn body_without_length_ends_with_the_connection() {
        let (answers, parser) = read(b"HTTP/1.1 200 OK\r\n\r\nany\r\n\r\nthing", 4).unwrap();
        assert_eq!((answers.len(), parser.closed()), (0, Some(Outcome::Done)));
    }

    #[test]
    fn answer_to_head_has_no_body() {
        let mut parser = HttpParser::default();
        let mut input = &b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHTTP"[..];
        let step = parser.read(true, &mut input);
        assert_eq!(step, Ok(Step::Answer { outcome: Outcome::Done, last: false }));
        assert_eq!(input, b"HTTP");
    }

    #[test]
    fn hostile_answers_are_refused() {
        let fields = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"a: b\r\n".repeat(20_000)].concat();
        let many = [b"HTTP/1.1 200 OK\r\n".to_vec(), b"a: b\r\n".repeat(200), b"\r\n".to_vec()];
        for stream in [
            &b"SSH-2.0-OpenSSH\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            b"HTTP/1.1 999 What\r\n\r\n",
            b"HTTP/2 200\r\n\r\n",
            b"\x00\x01\x02\n\n",
            &fields,
            &many.concat(),
        ] {
            let shown = String::from_utf8_lossy(&stream[..stream.len().min(60)]);
            assert!(read(stream, 777).is_err(), "{shown}");
        }
        // The largest length is valid; the generator only counts it down.
        let huge = b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\nx";
        assert!(read(huge, 10).unwrap().0.is_empty());
    }

    #[test]
    fn any_bytes_are_read_independently_of_segmentation_in_bounded_memory() {
        let starts: [&[u8]; 3] =
            [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"];
        bolero::check!().with_type::<(u8, u8, Vec<u8>)>().for_each(|(start, size, bytes)| {
            let stream = [starts[usize::from(*start) % starts.len()], bytes].concat();
            let whole = read(&stream, stream.len().max(1));
            let pieces = read(&stream, usize::from(*size).max(1));
            assert_eq!(whole.is_ok(), pieces.is_ok());
            if let (Ok((whole, _)), Ok((pieces, parser))) = (whole, pieces) {
                assert_eq!(whole, pieces);
                assert!(parser.head.len() <= HEAD_LIMIT);
            }
        });
    }
}
