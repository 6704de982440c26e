//! A process that restores the machine when the router is killed.
//!
//! It is another process of this program, with a pipe from the router as its standard input. Every
//! process closes the pipe last, however it dies; a byte before that reports that the machine is in
//! order. If both are killed, the journal remains: the next start, `wattline restore`, or the
//! unit's ExecStopPost then restores.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use wattline_knobs::restore::Report;
use wattline_knobs::{Bounded, Machine, OnExit, SessionError, leave};
use wattline_linux::sysfs::Tree;

/// The name of the hidden command.
pub const COMMAND: &str = "guard";
/// The dead router's lock is released with its last thread, a little after its pipe.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

/// The guarded side.
#[derive(Debug)]
pub struct Watchdog {
    child: Child,
}

impl Watchdog {
    /// Starts `program guard`, for the machine below `root`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, root: &Path, on_exit: OnExit) -> io::Result<Self> {
        Self::start_with(program, root, ["--on-exit", on_exit.name()])
    }

    /// Starts `program guard` with an option and its value.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_with(program: &Path, root: &Path, option: [&str; 2]) -> io::Result<Self> {
        let child = Command::new(program)
            .arg(COMMAND)
            .args(option)
            .arg("--root")
            .arg(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { child })
    }

    /// Returns its process ID.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Returns true once it has ended, as after it was killed.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends it a note, such as a process that it has to end.
    pub fn note(&mut self, line: &str) {
        if let Some(pipe) = &mut self.child.stdin {
            // A dead watchdog needs no notes.
            let _ = pipe.write_all(format!("{line}\n").as_bytes());
        }
    }

    /// Leaves the unrestored settings to it. Its pipe stays open until this process is gone: a
    /// thread held by a driver keeps a process, and its lock, alive.
    pub fn leave_the_rest(self) {
        std::mem::forget(self.child);
    }

    /// Reports that the machine is in order, and waits for the watchdog to exit.
    pub fn dismiss(mut self) {
        if let Some(mut pipe) = self.child.stdin.take() {
            // A dead watchdog needs no message.
            let _ = pipe.write_all(b".");
        }
        let _ = self.child.wait();
    }
}

/// Waits for the end of the pipe; returns the last note, `None` if all is in order.
pub fn outlive(mut pipe: impl Read) -> Option<String> {
    // Leaves the router's session: signals of a terminal to its group are not for this process.
    let _ = rustix::process::setsid();
    let (mut line, mut last, mut byte) = (Vec::new(), Vec::new(), [0]);
    loop {
        match pipe.read(&mut byte) {
            Ok(1..) if byte == *b"." => return None,
            Ok(1..) if byte == *b"\n" => last = std::mem::take(&mut line),
            Ok(1..) => line.extend(byte),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return Some(String::from_utf8_lossy(&last).into_owned()),
        }
    }
}

/// Runs the watchdog: waits for the end of the pipe, and then leaves the machine as asked, unless a
/// message says that all is in order.
///
/// # Errors
/// [`SessionError`]; single settings that fail are in the report.
pub fn guard(
    pipe: impl Read,
    tree: &Tree,
    state: &Path,
    on_exit: OnExit,
) -> Result<Report, SessionError> {
    if outlive(pipe).is_none() {
        return Ok(Report::default());
    }
    let end = Instant::now() + PATIENCE;
    loop {
        // A driver that hangs delays neither the rest nor this process.
        match leave(Bounded::new(Machine::new(tree)), tree, state, on_exit) {
            Err(SessionError::Busy { .. }) if Instant::now() < end => std::thread::sleep(LOOK),
            other => return other,
        }
    }
}
