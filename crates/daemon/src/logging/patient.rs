//! Writing to a reader that may stall.

use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Bytes in one write: a pipe takes as many at once, or none.
const CHUNK: usize = 4096;

/// Writes all bytes. Gives up if the reader takes nothing for `patience`; the writing thread then
/// ends with the process.
///
/// # Errors
/// As writing fails; [`ErrorKind::TimedOut`] for a reader that stalls.
pub fn write_within(to: impl AsFd, bytes: Vec<u8>, patience: Duration) -> io::Result<()> {
    let mut file = std::fs::File::from(to.as_fd().try_clone_to_owned()?);
    let (progress, seen) = channel();
    std::thread::Builder::new().name("output".to_owned()).spawn(move || {
        for chunk in bytes.chunks(CHUNK) {
            let written = file.write_all(chunk);
            let failed = written.is_err();
            // The caller may have given up.
            if progress.send(written).is_err() || failed {
                return;
            }
        }
    })?;
    loop {
        match seen.recv_timeout(patience) {
            Ok(written) => written?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                return Err(io::Error::new(ErrorKind::TimedOut, "the reader takes no output"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn reader_that_stalls_is_given_up_and_a_slow_one_gets_everything() {
        let text = vec![b'x'; 300_000];
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let stalled = write_within(&writer, text.clone(), Duration::from_millis(100));
        assert_eq!(stalled.unwrap_err().kind(), ErrorKind::TimedOut);
        drop(reader);

        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let slow = std::thread::spawn(move || {
            let mut reader = std::fs::File::from(reader);
            let mut all = Vec::new();
            while (&mut reader).take(20_000).read_to_end(&mut all).unwrap() > 0 {
                std::thread::sleep(Duration::from_millis(5));
            }
            all
        });
        write_within(&writer, text.clone(), Duration::from_secs(60)).unwrap();
        drop(writer);
        assert!(slow.join().unwrap() == text);
    }

    #[test]
    fn reader_that_is_gone_is_an_error() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(reader);
        let gone = write_within(&writer, b"x".to_vec(), Duration::from_secs(60));
        assert_eq!(gone.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
