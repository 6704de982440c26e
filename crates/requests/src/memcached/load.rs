//! Stores all keys before the measurement, so that gets find them.

use super::answer::{AnswerParser, Expect, Operation};
use super::workload::Workload;
use crate::protocol::{Outcome, ProtocolError, Step};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use thiserror::Error;

/// Sets sent before their answers are read.
const BATCH: usize = 64;

/// Reason why the keys could not be stored.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The connection failed.
    #[error("{address}: loading keys: {error}")]
    Io {
        /// The server.
        address: SocketAddr,
        /// Error of the system.
        error: io::Error,
    },
    /// The server does not answer.
    #[error(
        "no answer from {address} within {} s: loading keys: does memcached run there?",
        timeout.as_secs_f64()
    )]
    NoAnswer {
        /// The server.
        address: SocketAddr,
        /// Elapsed wait.
        timeout: Duration,
    },
    /// The answer is not memcached's.
    #[error("{address}: loading keys: {error}; is this memcached?")]
    Protocol {
        /// The server.
        address: SocketAddr,
        /// Error of the protocol.
        error: ProtocolError,
    },
}

/// Stores every key once in a server, over one connection, and waits for all answers. Returns the
/// numbers of stored and of refused sets.
///
/// # Errors
/// Fails when the server cannot be reached, closes the connection, does not answer within
/// `timeout`, or is not memcached.
pub fn load(
    workload: &Workload,
    address: SocketAddr,
    timeout: Duration,
) -> Result<(u64, u64), LoadError> {
    // A socket reports its timeout as "would block" (socket(7), SO_RCVTIMEO).
    let io_error = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            LoadError::NoAnswer { address, timeout }
        }
        _ => LoadError::Io { address, error },
    };
    let mut stream = TcpStream::connect_timeout(&address, timeout).map_err(io_error)?;
    stream.set_read_timeout(Some(timeout)).map_err(io_error)?;
    stream.set_write_timeout(Some(timeout)).map_err(io_error)?;
    stream.set_nodelay(true).map_err(io_error)?;

    let dialect = workload.options().dialect;
    let keys: Vec<u32> = (0..workload.options().keys).collect();
    let mut parser = AnswerParser::default();
    let (mut out, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    let (mut stored, mut refused) = (0, 0);
    for batch in keys.chunks(BATCH) {
        out.clear();
        for key in batch {
            workload.write(Expect { operation: Operation::Set, key: *key }, &mut out);
        }
        stream.write_all(&out).map_err(io_error)?;
        let mut answered = 0;
        while answered < batch.len() {
            let length = stream.read(&mut buffer).map_err(io_error)?;
            if length == 0 {
                return Err(io_error(io::ErrorKind::UnexpectedEof.into()));
            }
            let mut input = &buffer[..length];
            while !input.is_empty() {
                let Some(key) = batch.get(answered) else {
                    let error = ProtocolError("more answers than requests");
                    return Err(LoadError::Protocol { address, error });
                };
                let step = parser.read(dialect, Operation::Set, workload.key(*key), &mut input);
                match step.map_err(|error| LoadError::Protocol { address, error })? {
                    Step::More => {}
                    Step::Answer { outcome: Outcome::Done | Outcome::Miss, .. } => {
                        stored += 1;
                        answered += 1;
                    }
                    Step::Answer { .. } => {
                        refused += 1;
                        answered += 1;
                    }
                }
            }
        }
    }
    Ok((stored, refused))
}

#[cfg(test)]
mod tests {
    use super::super::{Dialect, WorkloadOptions};
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn silent_server_is_reported_with_the_timeout() {
        // The kernel accepts the connection; nothing reads from it.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = silent.local_addr().unwrap();
        let workload = Workload::new(WorkloadOptions::etc(Dialect::Text, 10, 1)).unwrap();
        let error = load(&workload, address, Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, LoadError::NoAnswer { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with(&format!("no answer from {address} within 0.05 s")), "{text}");
    }
}
