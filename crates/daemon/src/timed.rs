//! Reading and writing with a deadline, however slow the other side is.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes of one write. The kernel restarts its timeout for each piece of a longer one.
const CHUNK: usize = 16 << 10;

/// A connection whose reads and writes fail after a deadline.
pub(crate) struct Timed<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl<'a> Timed<'a> {
    /// Creates a connection that ends after `patience` unless more is given.
    pub fn new(stream: &'a UnixStream, patience: Duration) -> Self {
        Self { stream, deadline: Instant::now() + patience }
    }

    /// Sets the deadline: `patience` from now.
    pub fn give(&mut self, patience: Duration) {
        self.deadline = Instant::now() + patience;
    }

    /// Extends the deadline by time that the other side did not take.
    pub fn extend(&mut self, by: Duration) {
        self.deadline += by;
    }

    /// Returns the time until the deadline.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after it.
    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        (&mut &*self.stream).read(bytes)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        (&mut &*self.stream).write(&bytes[..bytes.len().min(CHUNK)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(300);

    #[test]
    fn trickling_bytes_do_not_prolong_a_read() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let writer = std::thread::spawn(move || {
            while (&theirs).write_all(b"x").is_ok() {
                std::thread::sleep(PAUSE);
            }
        });
        let begun = Instant::now();
        let mut all = Vec::new();
        assert!(Timed::new(&ours, PATIENCE).read_to_end(&mut all).is_err());
        assert!((PATIENCE..60 * PATIENCE).contains(&begun.elapsed()));
        drop(ours);
        writer.join().unwrap();
    }

    const PAUSE: Duration = Duration::from_millis(20);

    #[test]
    fn trickling_reader_does_not_prolong_a_write() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while (&theirs).read(&mut bytes).is_ok_and(|count| count > 0) {
                std::thread::sleep(PAUSE);
            }
        });
        let begun = Instant::now();
        let text = vec![b'x'; 64 << 20];
        assert!(Timed::new(&ours, PATIENCE).write_all(&text).is_err());
        assert!((PATIENCE..60 * PATIENCE).contains(&begun.elapsed()));
        drop(ours);
        reader.join().unwrap();
    }
}
