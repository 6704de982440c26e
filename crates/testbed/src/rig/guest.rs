//! Commands inside the guest, through the port that `rig/init` listens at.

use crate::Error;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Most bytes that a command may answer.
const MOST: usize = 16 << 20;

/// A shell inside.
#[derive(Debug)]
pub struct Guest {
    stream: BufReader<UnixStream>,
}

/// What a command inside ended with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code.
    pub status: i32,
    /// Its standard output.
    pub output: String,
    /// Its standard error.
    pub errors: String,
}

impl Guest {
    /// The shell behind `stream`.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// Runs a line of shell and returns its output.
    ///
    /// # Errors
    /// When it fails, or has not answered within `limit`; the shell is of no use then.
    pub fn run(&mut self, line: &str, limit: Duration) -> Result<String, Error> {
        let ended = self.attempt(line, limit)?;
        if ended.status == 0 {
            return Ok(ended.output);
        }
        let said = if ended.errors.is_empty() { ended.output } else { ended.errors };
        Err(Error::ProgramFailed {
            command: format!("{line} (in the guest)"),
            status: format!("exit status: {}", ended.status),
            output: said.trim().to_owned(),
        })
    }

    /// Runs a line of shell whose failure is an answer too.
    ///
    /// # Errors
    /// When it has not answered within `limit`.
    pub fn attempt(&mut self, line: &str, limit: Duration) -> Result<Ended, Error> {
        let failed = |error: std::io::Error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::ProgramHangs {
                command: format!("{line} (in the guest)"),
                seconds: limit.as_secs(),
            },
            _ => Error::io(format!("running `{line}` in the guest"), error),
        };
        let stream = self.stream.get_mut();
        stream.set_read_timeout(Some(limit)).map_err(failed)?;
        stream.set_write_timeout(Some(limit)).map_err(failed)?;
        // A line feed would be a second command, whose answer nobody reads.
        writeln!(stream, "{}", line.replace('\n', ";")).map_err(failed)?;
        let mut head = String::new();
        self.stream.read_line(&mut head).map_err(failed)?;
        let (status, output, errors) = parse_head(&head).ok_or_else(|| Error::Rig {
            what: format!("`{line}` was answered {head:?} instead of a status and two lengths"),
            console: String::new(),
        })?;
        let mut text = |length| {
            let mut bytes = vec![0; length];
            self.stream.read_exact(&mut bytes).map_err(failed)?;
            Ok::<_, Error>(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Ended { status, output: text(output)?, errors: text(errors)? })
    }
}

fn parse_head(head: &str) -> Option<(i32, usize, usize)> {
    let mut words = head.split_whitespace();
    let status = words.next()?.parse().ok()?;
    let output: usize = words.next()?.parse().ok()?;
    let errors: usize = words.next()?.parse().ok()?;
    (output <= MOST && errors <= MOST).then_some((status, output, errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn answering(answer: &'static [u8]) -> Guest {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut line = String::new();
            BufReader::new(theirs.try_clone().unwrap()).read_line(&mut line).unwrap();
            (&theirs).write_all(answer).unwrap();
        });
        Guest::new(ours)
    }

    #[test]
    fn output_errors_and_status_come_apart() {
        let ended = answering(b"3 6 4\nhello\nfie\n").attempt("x", LIMIT).unwrap();
        assert_eq!(ended, Ended { status: 3, output: "hello\n".into(), errors: "fie\n".into() });
        let error = answering(b"3 0 4\nfie\n").run("x", LIMIT).unwrap_err().to_string();
        assert!(error.contains("`x (in the guest)` failed (exit status: 3): fie"), "{error}");
    }

    #[test]
    fn nonsense_and_silence_are_errors() {
        for answer in [&b"hello\n"[..], b"0 99999999999 0\n", b"0 5 0\nab", b""] {
            assert!(answering(answer).run("x", LIMIT).is_err(), "{answer:?}");
        }
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let error = Guest::new(ours).run("x", Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error, Error::ProgramHangs { .. }), "{error}");
    }
}
