//! Interface of a protocol to the generator: writing requests and reading answers.

use thiserror::Error;

/// Outcome of a request that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done as asked.
    Done,
    /// Done: the server has no such key.
    Miss,
    /// The server says that the request is wrong: memcached `ERROR`, `CLIENT_ERROR`; HTTP 4xx.
    ClientError,
    /// The server says that it failed: memcached `SERVER_ERROR`; HTTP 5xx.
    ServerError,
}

/// Progress of reading an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All input is consumed; the answer goes on.
    More,
    /// The answer is complete. What is left of the input belongs to the next one.
    Answer {
        /// Outcome of the request.
        outcome: Outcome,
        /// The server closes the connection after it.
        last: bool,
    },
}

/// An answer that breaks the protocol; the connection is of no use afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ProtocolError(pub &'static str);

/// A protocol with its workload, as one thread uses it.
///
/// Requests of a connection are answered in order. A parser keeps what it has to remember of an
/// incomplete answer: a bounded number of bytes, never a body.
pub trait Protocol: Send {
    /// The state of a connection's reading.
    type Parser: Default + Send;
    /// State of a request that is needed to read its answer.
    type Expect: Copy + Send;
    /// Names of the operations, for counting.
    const OPERATIONS: &'static [&'static str];

    /// Appends the next request for a server, by its number in the list of targets.
    fn request(&mut self, target: usize, out: &mut Vec<u8>) -> Self::Expect;

    /// The operation of a request, as a number in [`Protocol::OPERATIONS`].
    fn operation(expect: Self::Expect) -> usize;

    /// Reads on in an answer; takes what it consumes from the front of `input`.
    ///
    /// # Errors
    /// When the bytes are no answer to the request.
    fn read(
        &self,
        parser: &mut Self::Parser,
        expect: Self::Expect,
        input: &mut &[u8],
    ) -> Result<Step, ProtocolError>;

    /// The outcome of an answer that the end of the connection completes, if it does.
    fn closed(&self, parser: &Self::Parser) -> Option<Outcome> {
        let _ = parser;
        None
    }
}
