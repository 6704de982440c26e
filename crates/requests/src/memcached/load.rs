//! Storing all keys before the measurement, so that gets find what they ask for.

use super::answer::{AnswerParser, Expect, Operation};
use super::workload::Workload;
use crate::protocol::{Outcome, ProtocolError, Step};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use thiserror::Error;

/// Sets sent before their answers are read.
const BATCH: usize = 64;

/// Why the keys could not be stored.
#[derive(Debug, Error)]
pub enum LoadError {
    /// No connection, or a broken one.
    #[error("{address}: loading keys: {error}")]
    Io {
        /// The server.
        address: SocketAddr,
        /// What happened.
        error: io::Error,
    },
    /// Something else answers there.
    #[error("{address}: loading keys: {error}; is this memcached?")]
    Protocol {
        /// The server.
        address: SocketAddr,
        /// What was wrong.
        error: ProtocolError,
    },
}

/// Stores every key once in a server, over one connection, and waits for all answers: sets that
/// were stored, sets that the server refused.
///
/// # Errors
/// When the server cannot be reached, goes away, does not answer within `timeout`, or is no
/// memcached.
pub fn load(
    workload: &Workload,
    address: SocketAddr,
    timeout: Duration,
) -> Result<(u64, u64), LoadError> {
    let io_error = |error| LoadError::Io { address, error };
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
