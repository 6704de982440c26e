//! Lines on their way to a file descriptor that may take none.
//!
//! A thread that logs puts a line into a queue of limited size. A thread of its own writes. Whoever logs waits
//! for that, so that a line is written when what follows it happens, but for a moment only: the
//! thread alone waits while the reader of a pipe stalls. A line that finds the queue full, and one that
//! cannot be written (no space, reader gone), is lost and counted.

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wattline_linux::privileges;

/// Bytes that may wait to be written.
const BYTES_MAX: usize = 1 << 20;
/// Size of a line in memory beside its text.
const OVERHEAD: usize = 64;
/// Time that whoever logs waits for the line to be written; of a reader that stalls, once.
const PROMPT: Duration = Duration::from_millis(50);
/// Time until a note of lost lines that could not be written is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Makes a line that says how many were lost.
pub(super) type LossNote = fn(u64) -> Vec<u8>;

/// A queue of lines. Its thread ends with the process.
pub(super) struct Queue {
    state: Mutex<State>,
    /// Signalled when there is something to write, and when everything is written.
    changed: Condvar,
    /// All lines that were lost so far.
    lost: AtomicU64,
    note: LossNote,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    bytes: usize,
    /// True while the thread has a line that is not in the queue any more.
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
    /// So many lines found no room here.
    Lost(u64),
}

impl Queue {
    /// A queue whose lines are written to `out`.
    ///
    /// # Errors
    /// When the process may have no further thread.
    pub fn start(out: OwnedFd, note: LossNote) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Self {
            state: Mutex::default(),
            changed: Condvar::new(),
            lost: AtomicU64::new(0),
            note,
        });
        let writer = Arc::clone(&queue);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            // It only writes to what is open. A failure leaves it the rights of the process.
            let _ = privileges::drop_all();
            writer.write_to(&out);
        })?;
        Ok(queue)
    }

    /// Adds a line, which ends with a line feed. Does not wait for a reader that stalls.
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

    /// Returns how many lines were lost.
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
        // Lost lines that the reader does not know of.
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

    /// Takes the next entry. Returns nothing if there is none and lost lines are to be reported.
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
    /// True after a line of which only the beginning was written.
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
                // Whoever opened it does not want to wait; this thread does.
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
    fn stalled_reader_loses_lines_and_hears_how_many() {
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
        // What was written before the loss comes first.
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
    fn writer_that_does_not_block_is_waited_for() {
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
    fn line_after_a_torn_one_begins_anew() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut out = Out { descriptor: &writer, torn: true };
        out.write(b"next\n").unwrap();
        let mut read = [0; 16];
        let count = rustix::io::read(&reader, &mut read).unwrap();
        assert_eq!(&read[..count], b"\nnext\n");
    }
}
