//! Parts that follow an answer on a connection of the control socket, each announced by a line of
//! JSON.
//!
//! `{"bytes":N}` is followed by N bytes; `{"event":…}` and `{"end":…}` are complete. The receiver
//! asks for the end by closing its sending side, and still gets the parts sent so far.

use super::timed::Timed;
use rustix::net::RecvFlags;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Longest line of a part.
const LONGEST_LINE: u64 = 1 << 20;
/// Longest answer before the parts, such as all routes.
const LONGEST_ANSWER: u64 = 256 << 20;
/// Time that the other side has to take a part.
const PATIENCE: Duration = Duration::from_secs(10);
/// Most bytes of one part.
const MOST_BYTES: u64 = 64 << 20;

/// Sending end. A part that the other side does not take in time, however slowly it reads, is an
/// error.
pub struct Outlet<'a> {
    stream: &'a UnixStream,
    timed: Timed<'a>,
}

impl<'a> Outlet<'a> {
    pub(super) fn new(stream: &'a UnixStream) -> Self {
        Self { stream, timed: Timed::new(stream, PATIENCE) }
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// Fails if the connection fails or is too slow.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.line(&json!({ "bytes": bytes.len() }))?;
        self.timed.write_all(bytes)
    }

    /// Sends a value.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn event(&mut self, event: &impl Serialize) -> io::Result<()> {
        self.line(&json!({ "event": event }))
    }

    /// Sends the end, with a final value.
    ///
    /// # Errors
    /// As [`Self::bytes`].
    pub fn end(&mut self, end: &impl Serialize) -> io::Result<()> {
        self.line(&json!({ "end": end }))
    }

    /// Returns true if the other side still wants more.
    pub fn is_wanted(&self) -> bool {
        let mut byte = [0; 1];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(self.stream, &mut byte, flags) {
            Ok((_, received)) => received > 0,
            Err(error) => error == rustix::io::Errno::AGAIN || error == rustix::io::Errno::INTR,
        }
    }

    fn line(&mut self, value: &Value) -> io::Result<()> {
        let mut text = value.to_string();
        text.push('\n');
        self.timed.give(PATIENCE);
        self.timed.write_all(text.as_bytes())
    }
}

/// A part that arrived.
#[derive(Debug, PartialEq)]
pub enum Part {
    /// Bytes of a file.
    Bytes(Vec<u8>),
    /// A value.
    Event(Value),
    /// The final value.
    End(Value),
}

/// Receiving end.
#[derive(Debug)]
pub struct Inlet {
    reader: BufReader<UnixStream>,
}

/// Handle to end the stream of an [`Inlet`] from another thread.
#[derive(Debug)]
pub struct Stopper(UnixStream);

impl Stopper {
    /// Asks for the end.
    pub fn stop(&self) {
        // On failure the connection has already ended.
        let _ = self.0.shutdown(Shutdown::Write);
    }
}

impl Inlet {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { reader: BufReader::new(stream) }
    }

    pub(super) fn wait_without_end(&self) -> io::Result<()> {
        self.reader.get_ref().set_read_timeout(None)
    }

    /// Returns a handle that asks for the end.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn stopper(&self) -> io::Result<Stopper> {
        self.reader.get_ref().try_clone().map(Stopper)
    }

    /// Returns the next part.
    ///
    /// # Errors
    /// Fails if the connection fails or ends without a final value, or if invalid data arrive.
    pub fn part(&mut self) -> io::Result<Part> {
        let mut line = self.line()?;
        if let Some(count) = line["bytes"].as_u64().filter(|count| *count <= MOST_BYTES) {
            let mut bytes = vec![0; count as usize];
            self.reader.read_exact(&mut bytes)?;
            return Ok(Part::Bytes(bytes));
        }
        for (name, part) in [("event", Part::Event as fn(Value) -> Part), ("end", Part::End)] {
            if let Some(value) = line.get_mut(name) {
                return Ok(part(value.take()));
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "it sent invalid data"))
    }

    /// Returns the answer, which comes before all parts.
    pub(super) fn answer(&mut self) -> io::Result<Value> {
        self.line_of(LONGEST_ANSWER)
    }

    fn line(&mut self) -> io::Result<Value> {
        self.line_of(LONGEST_LINE)
    }

    fn line_of(&mut self, longest: u64) -> io::Result<Value> {
        let mut line = String::new();
        if (&mut self.reader).take(longest).read_line(&mut line)? == 0 {
            let message = "it ended without its final value";
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        Ok(serde_json::from_str(&line)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_arrive_and_the_end_can_be_asked_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut outlet = Outlet::new(&ours);
        let mut inlet = Inlet::new(theirs);
        outlet.bytes(b"a\n\0b").unwrap();
        outlet.event(&json!({ "n": 1 })).unwrap();
        assert_eq!(inlet.part().unwrap(), Part::Bytes(b"a\n\0b".to_vec()));
        assert_eq!(inlet.part().unwrap(), Part::Event(json!({ "n": 1 })));
        assert!(outlet.is_wanted());
        inlet.stopper().unwrap().stop();
        assert!(!outlet.is_wanted());
        outlet.end(&json!("done")).unwrap();
        assert_eq!(inlet.part().unwrap(), Part::End(json!("done")));
        drop(ours);
        assert_eq!(inlet.part().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    /// Any input gives a part or an error.
    #[test]
    fn any_bytes_are_accepted() {
        bolero::check!().with_type::<Vec<u8>>().for_each(|bytes| {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(bytes).unwrap();
            drop(ours);
            let mut inlet = Inlet::new(theirs);
            while inlet.part().is_ok() {}
        });
    }
}
