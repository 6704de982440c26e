//! Interface between a protocol and the generator: writing requests and reading answers.

use thiserror::Error;

/// Outcome of a request that was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Done as requested.
    Done,
    /// Done: the server has no such key.
    Miss,
    /// The server reports a wrong request: memcached `ERROR`, `CLIENT_ERROR`; HTTP 4xx.
    ClientError,
    /// The server reports a failure of its own: memcached `SERVER_ERROR`; HTTP 5xx.
    ServerError,
}

/// Progress of reading an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// All input is consumed; the answer continues.
    More,
    /// The answer is complete. The rest of the input belongs to the next one.
    Answer {
        /// Outcome of the request.
        outcome: Outcome,
        /// The server closes the connection after it.
        last: bool,
    },
}

/// Violation of the protocol in an answer; the connection is unusable afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct ProtocolError(pub &'static str);

/// A protocol with its workload, as one thread uses it.
///
/// Requests of a connection are answered in order. A parser keeps a bounded number of bytes of an
/// incomplete answer, never a body.
pub trait Protocol: Send {
    /// Parser of a connection's answers.
    type Parser: Default + Send;
    /// State of a request that is needed to read its answer.
    type Expect: Copy + Send;
    /// Names of the operations, for counting.
    const OPERATIONS: &'static [&'static str];

    /// Appends the next request for a server, by its number in the list of targets.
    fn request(&mut self, target: usize, out: &mut Vec<u8>) -> Self::Expect;

    /// Returns the operation of a request, as an index into [`Protocol::OPERATIONS`].
    fn operation(expect: Self::Expect) -> usize;

    /// Continues to read an answer and removes the consumed bytes from the front of `input`.
    ///
    /// # Errors
    /// Fails when the bytes are no answer to the request.
    fn read(
        &self,
        parser: &mut Self::Parser,
        expect: Self::Expect,
        input: &mut &[u8],
    ) -> Result<Step, ProtocolError>;

    /// Returns the outcome of an answer if the end of the connection completes it.
    fn closed(&self, parser: &Self::Parser) -> Option<Outcome> {
        let _ = parser;
        None
    }
}
