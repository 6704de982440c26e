//! Commands inside the guest, through the port on which `rig/init` listens.

use crate::Error;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Shortest time between two readings of the guest's clock.
const APART: Duration = Duration::from_millis(1500);
/// Time limit of a reading.
const READING: Duration = Duration::from_secs(60);
/// Pairs of readings after which a guest that answers too slowly is assumed to keep time.
const PAIRS: usize = 5;
/// Tolerated error of a clock, as a share.
const WRONG: f64 = 0.1;

/// Longest answer of a command in bytes.
const MOST: usize = 16 << 20;

/// A shell in the guest.
#[derive(Debug)]
pub struct Guest {
    stream: BufReader<UnixStream>,
}

/// Result of a command in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandResult {
    /// Exit code.
    pub status: i32,
    /// Standard output.
    pub output: String,
    /// Standard error.
    pub errors: String,
}

impl Guest {
    /// Creates the shell at the other end of `stream`.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// Runs a line of shell and returns its output.
    ///
    /// # Errors
    /// Fails when the command fails, or has not answered within `limit`; the shell is then
    /// unusable.
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

    /// Runs a line of shell whose failure is a valid result.
    ///
    /// # Errors
    /// Fails when the command has not answered within `limit`.
    pub fn attempt(&mut self, line: &str, limit: Duration) -> Result<CommandResult, Error> {
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
        // A line feed would begin a second command, whose answer would remain unread.
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
        Ok(CommandResult { status, output: text(output)?, errors: text(errors)? })
    }

    /// Checks that the guest's clock runs as fast as the host's. The guest's kernel calibrates the
    /// processor's counter at its start. On a busy host, which suspends the guest meanwhile, the
    /// result can be any value. Time-outs and loads in such a guest are many times too short.
    ///
    /// # Errors
    /// Fails when the clock runs wrong, with the kernel's messages about its clocks.
    pub fn keeps_time(&mut self) -> Result<(), Error> {
        let mut read = || {
            let before = Instant::now();
            let text = self.run("cut -d ' ' -f 1 /proc/uptime", READING)?;
            let seconds: f64 = text.trim().parse().unwrap_or(f64::NAN);
            Ok::<_, Error>((before, seconds, Instant::now()))
        };
        let mut passed = (0.0, 0.0..f64::INFINITY);
        let mut apart = APART;
        for _ in 0..PAIRS {
            let first = read()?;
            std::thread::sleep(apart);
            let last = read()?;
            let between = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64();
            passed = (last.1 - first.1, between(first.2, last.0)..between(first.0, last.2));
            if passed.1.end < (1.0 + WRONG) * passed.1.start {
                break;
            }
            apart *= 2;
        }
        let (guest, here) = passed;
        if keeps_time(guest, &here) {
            return Ok(());
        }
        let said = self.run("dmesg | grep -i -e tsc -e clocksource; true", READING)?;
        Err(Error::Rig {
            what: format!(
                "the guest's clock runs wrong: {guest:.2} s passed there, and {:.2} to {:.2} s here; its \
                 kernel says\n{said}",
                here.start, here.end
            ),
            console: String::new(),
        })
    }
}

/// Returns true if `guest` seconds may have passed in the guest while a time in the range `here`
/// passed outside.
fn keeps_time(guest: f64, here: &Range<f64>) -> bool {
    (here.start * (1.0 - WRONG)..=here.end * (1.0 + WRONG)).contains(&guest)
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
    fn output_errors_and_status_are_separated() {
        let ended = answering(b"3 6 4\nhello\nfie\n").attempt("x", LIMIT).unwrap();
        assert_eq!(
            ended,
            CommandResult { status: 3, output: "hello\n".into(), errors: "fie\n".into() }
        );
        let error = answering(b"3 0 4\nfie\n").run("x", LIMIT).unwrap_err().to_string();
        assert!(error.contains("`x (in the guest)` failed (exit status: 3): fie"), "{error}");
    }

    #[test]
    fn wrong_clock_is_noticed() {
        assert!(keeps_time(1.5, &(1.5..1.6)) && keeps_time(1.7, &(1.5..1.6)));
        assert!(!keeps_time(15.2, &(1.5..1.6)) && !keeps_time(1.2, &(1.5..1.6)));
        assert!(!keeps_time(f64::NAN, &(1.5..1.6)));
        // The same second twice.
        let mut guest = {
            let (ours, theirs) = UnixStream::pair().unwrap();
            std::thread::spawn(move || {
                let mut lines = BufReader::new(theirs.try_clone().unwrap());
                let mut line = String::new();
                while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
                    let _ = (&theirs).write_all(b"0 5 0\n7.50\n");
                }
            });
            Guest::new(ours)
        };
        let error = guest.keeps_time().unwrap_err().to_string();
        assert!(error.contains("the guest's clock runs wrong: 0.00 s passed there"), "{error}");
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
