//! The log of a daemon, on standard error.
//!
//! A log that cannot be written neither ends nor blocks a daemon: lines are lost, counted
//! ([`lines_lost`]) and reported by a line of their own when writing works again. Under the journal
//! of systemd a line begins with its priority (sd-daemon(3)) and has no time, which the journal
//! adds.

mod patient;
mod queue;

pub use patient::write_within;

use queue::Queue;
use rustix::fs::fstat;
use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd;
use std::panic::PanicHookInfo;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tracing::{Level, Metadata};
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::SubscriberExt;
use wattline_report::plain;

/// Time that the end of a daemon waits for its last lines to be written.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Longest text of an event in bytes.
const TEXT_MAX: usize = 64 << 10;

/// The log of this process: it has one standard error.
static LOG: OnceLock<Log> = OnceLock::new();

struct Log {
    queue: Arc<Queue>,
    in_journal: bool,
}

/// The log while a daemon runs. Dropping it waits for the last lines, but not for long.
#[must_use]
pub struct Logging {
    level: Arc<AtomicU8>,
}

/// Starts logging to standard error, including panics of any thread.
///
/// # Errors
/// Fails if standard error cannot be duplicated, or the process cannot create another thread.
pub fn start(level: Level) -> io::Result<Logging> {
    let shown = Arc::new(AtomicU8::new(number(level)));
    let logging = Logging { level: Arc::clone(&shown) };
    // Only a test that runs two commands in one process could have started before.
    if LOG.get().is_some() {
        return Ok(logging);
    }
    ignore_size_limit()?;
    let queue = Queue::start(queue::duplicate(io::stderr())?, note)?;
    let in_journal = is_journal(io::stderr(), std::env::var("JOURNAL_STREAM").ok().as_deref());
    if LOG.set(Log { queue, in_journal }).is_err() {
        return Ok(logging);
    }
    // Dynamic, since the answer for a place in the code changes with a reload.
    let filter = dynamic_filter_fn(move |metadata, _| {
        number(*metadata.level()) <= shown.load(Ordering::Relaxed)
    });
    let format = tracing_subscriber::fmt()
        .with_writer(ToQueue)
        .with_max_level(Level::TRACE)
        .with_target(false)
        .with_ansi(false)
        // It would be written to standard error, waiting for the reader.
        .log_internal_errors(false)
        .with_timer(Clock { in_journal });
    let _ = tracing::subscriber::set_global_default(format.finish().with(filter));
    std::panic::set_hook(Box::new(log_panic));
    Ok(logging)
}

impl Logging {
    /// Returns a function that changes the level, at any time.
    pub fn set_level(&self) -> impl Fn(Level) + Send + 'static {
        let level = Arc::clone(&self.level);
        move |new| level.store(number(new), Ordering::Relaxed)
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        if let Some(log) = LOG.get() {
            log.queue.flush(LAST_LINES);
        }
    }
}

/// Returns the number of log lines lost since this process began.
pub fn lines_lost() -> u64 {
    LOG.get().map_or(0, |log| log.queue.lost())
}

fn number(level: Level) -> u8 {
    match level {
        Level::ERROR => 0,
        Level::WARN => 1,
        Level::INFO => 2,
        Level::DEBUG => 3,
        Level::TRACE => 4,
    }
}

/// Makes a write beyond RLIMIT_FSIZE fail, as on a full disk; otherwise the signal ends the
/// process.
fn ignore_size_limit() -> io::Result<()> {
    let seen = Arc::default();
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, seen).map(drop)
}

/// Returns true if a descriptor is the stream to the journal that systemd named (systemd.exec(5)).
fn is_journal(descriptor: impl AsFd, stream: Option<&str>) -> bool {
    let named = stream.and_then(|stream| stream.split_once(':'));
    let named = named.and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?)));
    let Some(named): Option<(u64, u64)> = named else { return false };
    fstat(descriptor).is_ok_and(|found| (found.st_dev, found.st_ino) == named)
}

/// The time of an event, unless the journal adds it.
struct Clock {
    in_journal: bool,
}

impl FormatTime for Clock {
    fn format_time(&self, to: &mut Writer<'_>) -> std::fmt::Result {
        if self.in_journal { Ok(()) } else { SystemTime.format_time(to) }
    }
}

/// Formats a line for an event: without control characters, further lines indented, so that no text
/// of an event passes for another event.
fn line(level: Level, text: &str, in_journal: bool) -> Vec<u8> {
    let priority = match level {
        _ if !in_journal => "",
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        Level::DEBUG | Level::TRACE => "<7>",
    };
    let text = plain(text.trim_end_matches('\n'));
    let mut lines = String::with_capacity(text.len() + 8);
    for (number, part) in text.split('\n').enumerate() {
        let indent = if number == 0 { "" } else { "    " };
        let part = if number == 0 && in_journal { part.trim_start() } else { part };
        // Writing into a string does not fail.
        let _ = writeln!(lines, "{priority}{indent}{part}");
    }
    lines.into_bytes()
}

/// Logs without the subscriber, which may have panicked or be busy.
fn log_directly(log: &Log, level: Level, message: &str) {
    let mut text = String::new();
    let _ = Clock { in_journal: log.in_journal }.format_time(&mut Writer::new(&mut text));
    let _ = write!(text, " {level:>5} {message}");
    log.queue.push(line(level, &text, log.in_journal));
}

fn note(lost: u64) -> Vec<u8> {
    let in_journal = LOG.get().is_some_and(|log| log.in_journal);
    let mut text = String::new();
    let _ = Clock { in_journal }.format_time(&mut Writer::new(&mut text));
    let lines = if lost == 1 { "line was" } else { "lines were" };
    let _ = write!(text, "  WARN {lost} log {lines} lost: standard error could not take them");
    line(Level::WARN, &text, in_journal)
}

/// Logs the message of a panic. The standard hook writes it to standard error and waits until it is
/// read.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let Some(log) = LOG.get() else { return };
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("without a name");
    let payload = panic.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let message = message.unwrap_or("a value that is no text");
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let mut text = format!("thread {name} panicked{place}: {message}");
    let trace = std::backtrace::Backtrace::capture();
    if trace.status() == std::backtrace::BacktraceStatus::Captured {
        let _ = write!(text, "\n{trace}");
    }
    log_directly(log, Level::ERROR, &text);
}

/// Writer of the subscriber's events.
struct ToQueue;

/// An event that is being formatted; it is queued when it is dropped.
struct Event {
    level: Level,
    text: Vec<u8>,
}

impl MakeWriter<'_> for ToQueue {
    type Writer = Event;

    fn make_writer(&self) -> Event {
        Event { level: Level::INFO, text: Vec::new() }
    }

    fn make_writer_for(&self, metadata: &Metadata<'_>) -> Event {
        Event { level: *metadata.level(), text: Vec::new() }
    }
}

impl io::Write for Event {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = TEXT_MAX.saturating_sub(self.text.len());
        self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Some(log) = LOG.get() {
            log.queue.push(line(self.level, &String::from_utf8_lossy(&self.text), log.in_journal));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(level: Level, text: &str, in_journal: bool) -> String {
        String::from_utf8(line(level, text, in_journal)).unwrap()
    }

    #[test]
    fn only_the_journal_gets_priorities() {
        assert_eq!(text(Level::ERROR, "12:00 ERROR a\nb\n", false), "12:00 ERROR a\n    b\n");
        assert_eq!(text(Level::ERROR, " ERROR a\nb\n", true), "<3>ERROR a\n<3>    b\n");
        for (level, priority) in [(Level::WARN, 4), (Level::INFO, 6), (Level::DEBUG, 7)] {
            assert_eq!(text(level, "x", true), format!("<{priority}>x\n"));
        }
    }

    #[test]
    fn foreign_text_makes_no_lines_and_controls_no_terminal() {
        let forged = text(Level::INFO, "port a\u{1b}[2J\n2026-01-01T00:00:00Z ERROR no", false);
        assert_eq!(forged, "port a\\u001b[2J\n    2026-01-01T00:00:00Z ERROR no\n");
    }

    #[test]
    fn stream_of_the_journal_is_recognised() {
        let file = tempfile::tempfile().unwrap();
        let found = fstat(&file).unwrap();
        let named = format!("{}:{}", found.st_dev, found.st_ino);
        assert!(is_journal(&file, Some(&named)));
        for other in [None, Some(""), Some("1"), Some("1:2"), Some("a:b")] {
            assert!(!is_journal(&file, other), "{other:?}");
        }
    }
}
