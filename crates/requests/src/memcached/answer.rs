//! Incremental parser of memcached's answers.

use crate::line::{LineReader, decimal};
use crate::protocol::{Outcome, ProtocolError, Step};
use serde::Serialize;
use std::str::FromStr;

/// Longest valid answer line: memcached's own are below 2,048 bytes.
const LINE_LIMIT: usize = 2_048;
/// Longest valid value: memcached accepts none above (option `-I`).
const VALUE_LIMIT: u64 = 1 << 30;

/// Command set of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// `get` and `set`.
    Text,
    /// `mg` and `ms`.
    Meta,
}

impl FromStr for Dialect {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "text" => Ok(Self::Text),
            "meta" => Ok(Self::Meta),
            _ => Err("expected text or meta".into()),
        }
    }
}

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reading a key's value.
    Get,
    /// Storing a value.
    Set,
}

/// State of a request until its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expect {
    /// Operation of the request.
    pub operation: Operation,
    /// Number of its key.
    pub key: u32,
}

/// Parser of one connection's answers.
#[derive(Debug, Default)]
pub struct AnswerParser {
    line: LineReader,
    state: State,
}

#[derive(Debug, Default, Clone, Copy)]
enum State {
    /// At the beginning of an answer.
    #[default]
    First,
    /// This many bytes of a value are to come, then its line end.
    Value(u64),
    /// This many bytes of a value's line end were read.
    ValueEnd(usize),
    /// The value was read, `END` is to come.
    End,
}

impl AnswerParser {
    /// Continues to read the answer to a request for `key`.
    ///
    /// # Errors
    /// Fails when the bytes are no answer to it.
    pub fn read(
        &mut self,
        dialect: Dialect,
        operation: Operation,
        key: &[u8],
        input: &mut &[u8],
    ) -> Result<Step, ProtocolError> {
        loop {
            match self.state {
                State::First => {
                    let Some(line) = self.line.next(input, LINE_LIMIT)? else {
                        return Ok(Step::More);
                    };
                    match first_line(dialect, operation, key, line)? {
                        First::Answer(outcome) => return Ok(answer(outcome)),
                        First::Value(length) => self.state = State::Value(length),
                    }
                }
                State::Value(remaining) => {
                    // The smaller of both fits into either type.
                    let taken = remaining.min(input.len() as u64);
                    *input = &input[taken as usize..];
                    if taken < remaining {
                        self.state = State::Value(remaining - taken);
                        return Ok(Step::More);
                    }
                    self.state = State::ValueEnd(0);
                }
                State::ValueEnd(matched) => {
                    let Some((first, rest)) = input.split_first() else {
                        return Ok(Step::More);
                    };
                    if b"\r\n"[matched] != *first {
                        return Err(ProtocolError("a value that is longer than said"));
                    }
                    *input = rest;
                    self.state = match (matched, dialect) {
                        (0, _) => State::ValueEnd(1),
                        (_, Dialect::Text) => State::End,
                        (_, Dialect::Meta) => {
                            self.state = State::First;
                            return Ok(answer(Outcome::Done));
                        }
                    };
                }
                State::End => {
                    let Some(line) = self.line.next(input, LINE_LIMIT)? else {
                        return Ok(Step::More);
                    };
                    if line != b"END" {
                        return Err(ProtocolError("a value that END does not follow"));
                    }
                    self.state = State::First;
                    return Ok(answer(Outcome::Done));
                }
            }
        }
    }
}

fn answer(outcome: Outcome) -> Step {
    Step::Answer { outcome, last: false }
}

enum First {
    Answer(Outcome),
    Value(u64),
}

fn first_line(
    dialect: Dialect,
    operation: Operation,
    key: &[u8],
    line: &[u8],
) -> Result<First, ProtocolError> {
    let outcome = match (dialect, operation, line) {
        (Dialect::Text, Operation::Get, b"END") | (Dialect::Meta, Operation::Get, b"EN") => {
            Outcome::Miss
        }
        (Dialect::Text, Operation::Set, b"STORED") => Outcome::Done,
        (Dialect::Meta, Operation::Set, _) if first_word(line) == b"HD" => Outcome::Done,
        // A plain set is always stored unless the server has an error.
        (Dialect::Text, Operation::Set, b"NOT_STORED") => Outcome::ServerError,
        (Dialect::Meta, Operation::Set, _) if first_word(line) == b"NS" => Outcome::ServerError,
        _ if first_word(line) == b"SERVER_ERROR" => Outcome::ServerError,
        _ if matches!(first_word(line), b"ERROR" | b"CLIENT_ERROR") => Outcome::ClientError,
        (Dialect::Text, Operation::Get, _) => return text_value(key, line).map(First::Value),
        (Dialect::Meta, Operation::Get, _) => return meta_value(key, line).map(First::Value),
        _ => return Err(ProtocolError("an answer that no request of this kind has")),
    };
    Ok(First::Answer(outcome))
}

fn first_word(line: &[u8]) -> &[u8] {
    line.split(|byte| *byte == b' ').next().unwrap_or_default()
}

const WRONG_KEY: ProtocolError = ProtocolError("a value of another key than asked for");

/// Parses the length from `VALUE <key> <flags> <bytes> [<cas>]`.
fn text_value(key: &[u8], line: &[u8]) -> Result<u64, ProtocolError> {
    let mut words = line.split(|byte| *byte == b' ');
    if words.next() != Some(b"VALUE") {
        return Err(ProtocolError("an answer to get that is neither VALUE nor END"));
    }
    if words.next() != Some(key) {
        return Err(WRONG_KEY);
    }
    let _flags = words.next();
    length(words.next())
}

/// Parses the length from `VA <bytes> k<key>`; the request has the flag `k`, which returns the key.
fn meta_value(key: &[u8], line: &[u8]) -> Result<u64, ProtocolError> {
    let mut words = line.split(|byte| *byte == b' ');
    if words.next() != Some(b"VA") {
        return Err(ProtocolError("an answer to mg that is neither VA nor EN"));
    }
    let length = length(words.next())?;
    if words.find_map(|flag| flag.strip_prefix(b"k")) != Some(key) {
        return Err(WRONG_KEY);
    }
    Ok(length)
}

fn length(word: Option<&[u8]>) -> Result<u64, ProtocolError> {
    word.and_then(decimal)
        .filter(|length| *length <= VALUE_LIMIT)
        .ok_or(ProtocolError("a value whose length is not a number up to 1 GiB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the steps of a stream that arrives in pieces of some size.
    fn read(
        dialect: Dialect,
        operation: Operation,
        stream: &[u8],
        size: usize,
    ) -> Result<Vec<Outcome>, ProtocolError> {
        let mut parser = AnswerParser::default();
        let mut outcomes = Vec::new();
        for mut piece in stream.chunks(size) {
            while !piece.is_empty() {
                if let Step::Answer { outcome, .. } =
                    parser.read(dialect, operation, b"key", &mut piece)?
                {
                    outcomes.push(outcome);
                }
            }
        }
        Ok(outcomes)
    }

    #[test]
    fn answers_do_not_depend_on_segmentation() {
        use Outcome::{ClientError, Done, Miss, ServerError};
        let gets = b"VALUE key 0 7\r\nab\r\nEND\r\nEND\r\nEND\r\nVALUE key 1 0 77\r\n\r\nEND\r\n\
            SERVER_ERROR out of memory\r\nERROR\r\n";
        let sets = b"STORED\r\nCLIENT_ERROR bad data chunk\r\nNOT_STORED\r\n";
        let meta = b"VA 2 kkey\r\nab\r\nEN\r\nVA 0 kkey\r\n\r\n";
        let meta_sets = b"HD\r\nNS\r\nSERVER_ERROR too large\r\n";
        for size in 1..gets.len() {
            let read = |dialect, operation, stream| read(dialect, operation, stream, size).unwrap();
            // The first value contains the bytes of an END line.
            assert_eq!(
                read(Dialect::Text, Operation::Get, &gets[..]),
                [Done, Miss, Done, ServerError, ClientError]
            );
            assert_eq!(
                read(Dialect::Text, Operation::Set, &sets[..]),
                [Done, ClientError, ServerError]
            );
            assert_eq!(read(Dialect::Meta, Operation::Get, &meta[..]), [Done, Miss, Done]);
            assert_eq!(
                read(Dialect::Meta, Operation::Set, &meta_sets[..]),
                [Done, ServerError, ServerError]
            );
        }
    }

    #[test]
    fn hostile_answers_are_refused() {
        let endless = vec![b'x'; 1 << 20];
        for stream in [
            &b"STORED\r\n"[..],
            b"VALUE other 0 2\r\nab\r\nEND\r\n",
            b"VALUE key 0 -1\r\n",
            b"VALUE key 0 18446744073709551616\r\n",
            b"VALUE key 0 1073741825\r\n",
            b"VALUE key 0\r\n",
            b"VALUE\r\n",
            b"\r\n",
            b"VALUE key 0 1\r\nab\r\nEND\r\n",
            b"VALUE key 0 1\r\na\r\nEND!\r\n",
            b"\xff\xfe\x00\r\n",
            &endless,
        ] {
            assert!(read(Dialect::Text, Operation::Get, stream, 7).is_err(), "{stream:?}");
        }
        for stream in [&b"VA 2\r\nab\r\n"[..], b"VA x kkey\r\n", b"VA 2 kother\r\n", b"HD\r\n"] {
            assert!(read(Dialect::Meta, Operation::Get, stream, 7).is_err(), "{stream:?}");
        }
    }

    #[test]
    fn any_bytes_are_read_independently_of_segmentation_in_bounded_memory() {
        bolero::check!().with_type::<(bool, bool, u8, Vec<u8>)>().for_each(
            |(meta, set, size, bytes)| {
                let dialect = if *meta { Dialect::Meta } else { Dialect::Text };
                let operation = if *set { Operation::Set } else { Operation::Get };
                let whole = read(dialect, operation, bytes, bytes.len().max(1));
                let pieces = read(dialect, operation, bytes, usize::from(*size).max(1));
                assert_eq!(whole.is_ok(), pieces.is_ok());
                if whole.is_ok() {
                    assert_eq!(whole, pieces);
                }
            },
        );
    }
}
