//! Queue of lines for a file descriptor that may block.
//!
//! A thread that logs puts a line into a queue of limited size. A separate thread writes. The
//! logging thread waits briefly until its line is written, so that lines appear in time with the
//! events that follow; while the reader of a pipe stalls, only the writing thread waits. A line is
//! lost and counted if the queue is full or if it cannot be written (no space, reader gone).

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattline_linux::privileges;

/// Maximum number of bytes waiting to be written.
const BYTES_MAX: usize = 1 << 20;
/// Memory per line in addition to its text.
const OVERHEAD: usize = 64;
/// Time that a logging thread waits for the line to be written; once per stall of the reader.
const PROMPT: Duration = Duration::from_millis(50);
/// Time until a failed note of lost lines is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Formats a line that reports the number of lost lines.
pub(super) type LossNote = fn(u64) -> Vec<u8>;

/// A queue of lines. Its thread ends with the process.
pub(super) struct Queue {
    state: Mutex<State>,
    /// Signalled when there is something to write, and when everything is written.
    changed: Condvar,
    /// Total number of lost lines.
    lost: AtomicU64,
    note: LossNote,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// True while the thread holds a line that has left the queue.
    writing: bool,
    /// True after a line was not written promptly, until everything is.
    stalls: bool,
}

impl State {
    fn is_pending(&self) -> bool {
        self.writing || !self.entries.is_empty()
    }
}

enum Entry {
    Line(Vec<u8>),
    /// Number of lines that found no room here.
    Lost(u64),
}

impl Queue {
    /// Creates a queue whose lines are written to `out`.
    ///
    /// # Errors
    /// Fails if the process cannot create another thread.
    pub fn start(out: OwnedFd, note: LossNote) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            lost: AtomicU64::new(0),
            note,
        });
        let writer = Arc::clone(&queue);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            // The thread only writes to open descriptors. On failure it keeps the rights of the
            // process.
            let _ = privileges::drop_all();
            writer.write_to(&out);
        })?;
        Ok(queue)
    }

    /// Adds a line, which ends with a line feed. Does not wait for a stalled reader.
    pub fn push(&self, line: Vec<u8>) {
        let mut state = self.lock();
        if state.bytes + line.len() + OVERHEAD > BYTES_MAX {
            self.lost.fetch_add(1, Ordering::Relaxed);
            match state.entries.back_mut() {
                Some(Entry::Lost(count)) => *count += 1,
                _ => state.entries.push_back(Entry::Lost(1)),
            }
        } else {
            state.bytes += line.len() + OVERHEAD;
            state.entries.push_back(Entry::Line(line));
        }
        self.changed.notify_all();
        if !state.stalls {
            let waited = self.changed.wait_timeout_while(state, PROMPT, |it| it.is_pending());
            let (mut state, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            state.stalls = waited.timed_out();
        }
    }

    /// Returns the number of lost lines.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until all lines are written or lost, but no longer than `patience`.
    pub fn flush(&self, patience: Duration) {
        drop(self.changed.wait_timeout_while(self.lock(), patience, |it| it.is_pending()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_to(&self, out: &OwnedFd) {
        let mut out = Out { descriptor: out, torn: false };
        // Lost lines that have not been reported to the reader.
        let mut unreported = 0;
        loop {
            match self.next(unreported > 0) {
                Some(Entry::Lost(count)) => unreported += count,
                Some(Entry::Line(line)) => {
                    if !self.report(&mut out, &mut unreported) || out.write(&line).is_err() {
                        unreported += 1;
                        self.lost.fetch_add(1, Ordering::Relaxed);
                    }
                }
                None => drop(self.report(&mut out, &mut unreported)),
            }
        }
    }

    /// Writes a note of lost lines if there are any; returns false if that failed.
    fn report(&self, out: &mut Out<'_>, unreported: &mut u64) -> bool {
        if *unreported > 0 {
            if out.write(&(self.note)(*unreported)).is_err() {
                return false;
            }
            *unreported = 0;
        }
        true
    }

    /// Takes the next entry. Returns `None` if there is none and lost lines are to be reported.
    fn next(&self, must_report: bool) -> Option<Entry> {
        let mut state = self.lock();
        state.writing = false;
        let mut retry = None;
        loop {
            if let Some(entry) = state.entries.pop_front() {
                if let Entry::Line(line) = &entry {
                    state.bytes -= line.len() + OVERHEAD;
                }
                state.writing = true;
                return Some(entry);
            }
            state.stalls = false;
            self.changed.notify_all();
            if !must_report {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let now = Instant::now();
            let until = *retry.get_or_insert(now + RETRY);
            if now >= until {
                return None;
            }
            let waited = self.changed.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Destination of the lines.
struct Out<'a> {
    descriptor: &'a OwnedFd,
    /// True after a line was written only in part.
    torn: bool,
}

impl Out<'_> {
    /// Writes a whole line, waiting for the reader.
    fn write(&mut self, line: &[u8]) -> Result<(), Errno> {
        if self.torn {
            self.all(b"\n")?;
            self.torn = false;
        }
        self.all(line)
    }

    fn all(&mut self, mut bytes: &[u8]) -> Result<(), Errno> {
        while !bytes.is_empty() {
            match rustix::io::write(self.descriptor, bytes) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => {
                    self.torn = true;
                    bytes = &bytes[count..];
                }
                Err(Errno::INTR) => {}
                // The descriptor was opened as non-blocking; this thread waits.
                Err(Errno::AGAIN) => {
                    let mut polled = [PollFd::new(self.descriptor, PollFlags::OUT)];
                    match poll(&mut polled, None) {
                        Ok(_) | Err(Errno::INTR) => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.torn = false;
        Ok(())
    }
}

/// Returns a descriptor of the same file that stays open when the original is closed.
pub(super) fn duplicate(descriptor: impl AsFd) -> io::Result<OwnedFd> {
    descriptor.as_fd().try_clone_to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use std::os::unix::net::UnixStream;
    use wattline_needs::until;

    fn note(count: u64) -> Vec<u8> {
        format!("{count} lost\n").into_bytes()
    }

    #[test]
    fn stalled_reader_loses_lines_and_gets_their_number() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let queue = Queue::start(writer, note).unwrap();
        let begun = Instant::now();
        let (mut sent, text) = (0, "x".repeat(1 << 10));
        while queue.lost() < 10 {
            queue.push(format!("{sent} {text}\n").into_bytes());
            sent += 1;
        }
        assert!(begun.elapsed() < Duration::from_secs(30));
        let begun = Instant::now();
        queue.flush(Duration::from_millis(50));
        assert!(begun.elapsed() < Duration::from_secs(30), "a flush is bounded");
        let mut lines = BufReader::new(std::fs::File::from(reader)).lines();
        // Lines from before the loss come first.
        for number in 0..sent - 10 {
            assert_eq!(lines.next().unwrap().unwrap(), format!("{number} {text}"));
        }
        assert_eq!(lines.next().unwrap().unwrap(), "10 lost");
        queue.push(b"again\n".to_vec());
        assert_eq!(lines.next().unwrap().unwrap(), "again");
    }

    #[test]
    fn reader_that_is_gone_is_no_error() {
        let (reader, writer) = UnixStream::pair().unwrap();
        let queue = Queue::start(writer.into(), note).unwrap();
        drop(reader);
        for _ in 0..3 {
            queue.push(b"line\n".to_vec());
        }
        queue.flush(Duration::from_secs(60));
        until("all are lost", || queue.lost() == 3);
    }

    #[test]
    fn nonblocking_writer_is_waited_for() {
        let (mut reader, writer) = UnixStream::pair().unwrap();
        writer.set_nonblocking(true).unwrap();
        let queue = Queue::start(writer.into(), note).unwrap();
        let text = vec![b'x'; 600 << 10];
        queue.push(text.clone());
        let mut read = vec![0; text.len()];
        reader.read_exact(&mut read).unwrap();
        assert_eq!((read == text, queue.lost()), (true, 0));
    }

    /// A line that is cut ends before the next one begins.
    #[test]
    fn line_after_a_torn_one_starts_a_new_line() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut out = Out { descriptor: &writer, torn: true };
        out.write(b"next\n").unwrap();
        let mut read = [0; 16];
        let count = rustix::io::read(&reader, &mut read).unwrap();
        assert_eq!(&read[..count], b"\nnext\n");
    }
}
