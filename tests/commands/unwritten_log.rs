//! A daemon whose log or output cannot be written goes on, answers, and ends on a signal.

use crate::copy::copy;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use wattline_daemon::socket::{Request, ask};
use wattline_needs::KillOnDrop;

/// A governor of a copied machine.
struct Governor {
    folder: TempDir,
    child: KillOnDrop,
}

impl Governor {
    fn start(program: &str, before: &[&str], stdout: Stdio, stderr: Stdio) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixtures =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/knobs/tests/fixtures");
        copy(&fixtures.join("acpi-cpufreq"), folder.path());
        let config = format!("[govern]\nsocket = \"{}/s.sock\"\n", folder.path().display());
        std::fs::write(folder.path().join("govern.toml"), config).unwrap();
        let mut command = Command::new(program);
        command.args(before).args(["govern", "--root"]).arg(folder.path());
        command.arg(folder.path().join("govern.toml"));
        let child = command.stdout(stdout).stderr(stderr).spawn().unwrap();
        let mut governor = Self { folder, child: KillOnDrop(child) };
        governor.until("it answers", |it| ask(&it.socket(), Request::Stats).is_ok());
        governor
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s.sock")
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Self) -> bool) {
        wattline_needs::until(what, || {
            assert_eq!(self.child.try_wait().unwrap(), None, "it ended before {what}");
            is_so(self)
        });
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Has it log errors: a configuration with a mistake is read again and again.
    fn log_errors(&mut self, count: usize) {
        std::fs::write(self.folder.path().join("govern.toml"), "nonsense").unwrap();
        for _ in 0..count {
            self.signal(Signal::HUP);
            // Answered after the signals before it.
            std::thread::sleep(Duration::from_millis(50));
            ask(&self.socket(), Request::Stats).unwrap();
        }
    }

    fn lost(&self) -> u64 {
        let stats = ask(&self.socket(), Request::Stats).unwrap();
        stats["log_lines_lost"].as_u64().unwrap()
    }

    fn end(&mut self) -> Option<i32> {
        self.signal(Signal::TERM);
        wattline_needs::until("its end", || self.child.try_wait().unwrap()).code()
    }
}

/// A pipe that is full, whose writer waits.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while rustix::io::write(&writer, &[b'x'; 4096]).is_ok() {}
    fcntl_setfl(&writer, OFlags::empty()).unwrap();
    (reader, writer)
}

#[test]
fn full_disk_ends_no_governor() {
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut governor = Governor::start(wattline_needs::program(), &[], Stdio::null(), full.into());
    governor.log_errors(3);
    governor.until("lines are counted as lost", |it| it.lost() >= 3);
    let metrics = ask(&governor.socket(), Request::Metrics).unwrap();
    let metrics = metrics.as_str().unwrap();
    let lost = metrics.lines().find_map(|line| line.strip_prefix("wattline_log_lines_lost_total "));
    assert!(lost.unwrap().parse::<f64>().unwrap() >= 3.0, "{metrics}");
    let shown = Command::new(wattline_needs::program())
        .args(["stats", "--socket"])
        .arg(governor.socket())
        .output();
    let shown = String::from_utf8(shown.unwrap().stdout).unwrap();
    assert!(shown.contains(" lines of the log were lost"), "{shown}");
    assert_eq!(governor.end(), Some(0));
}

/// A write beyond the limit would end the process by a signal.
#[test]
fn limit_on_file_size_ends_no_governor() {
    let mut log = tempfile::NamedTempFile::new().unwrap();
    log.write_all(&[b'x'; 200 << 10]).unwrap();
    let log = OpenOptions::new().append(true).open(log.path()).unwrap();
    let limited = ["-c", "ulimit -f 100; exec \"$0\" \"$@\"", wattline_needs::program()];
    let mut governor = Governor::start("sh", &limited, Stdio::null(), log.into());
    governor.log_errors(2);
    governor.until("lines are counted as lost", |it| it.lost() >= 2);
    assert_eq!(governor.end(), Some(0));
}

#[test]
fn closed_standard_error_ends_no_governor() {
    let closed = ["-c", "exec \"$0\" \"$@\" 2>&-", wattline_needs::program()];
    let mut governor = Governor::start("sh", &closed, Stdio::null(), Stdio::null());
    governor.log_errors(2);
    assert_eq!(governor.end(), Some(0));
}

#[test]
fn reader_that_is_gone_ends_no_governor() {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    drop(reader);
    let mut governor =
        Governor::start(wattline_needs::program(), &[], Stdio::null(), writer.into());
    governor.log_errors(2);
    governor.until("lines are counted as lost", |it| it.lost() >= 2);
    assert_eq!(governor.end(), Some(0));
}

#[test]
fn stalled_reader_blocks_no_governor() {
    let (reader, writer) = full_pipe();
    let mut governor =
        Governor::start(wattline_needs::program(), &[], Stdio::null(), writer.into());
    governor.log_errors(5);
    // Nothing is lost: there is room in memory.
    assert_eq!(governor.lost(), 0);
    assert_eq!(governor.end(), Some(0));
    drop(reader);
}

/// As in `wattline govern 2>&1 | reader`.
#[test]
fn stalled_reader_of_both_outputs_blocks_no_end() {
    let (reader, writer) = full_pipe();
    let both = writer.try_clone().unwrap();
    let mut governor = Governor::start(wattline_needs::program(), &[], both.into(), writer.into());
    governor.log_errors(2);
    // The account found no reader.
    assert_eq!(governor.end(), Some(74));
    drop(reader);
}

#[test]
fn returning_reader_gets_the_number_of_missed_lines() {
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("log");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Opening for both does not wait for the other side.
    let first = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let writer = OpenOptions::new().write(true).open(&fifo).unwrap();
    let mut governor =
        Governor::start(wattline_needs::program(), &[], Stdio::null(), writer.into());
    drop(first);
    governor.log_errors(3);
    governor.until("lines are lost", |it| it.lost() >= 3);
    let mut second = OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    let mut text = String::new();
    let mut bytes = [0; 4096];
    while !text.contains("log lines were lost") {
        let count = second.read(&mut bytes).unwrap();
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    second.flush().unwrap();
    assert_eq!(governor.end(), Some(0));
}

/// The watchdog process writes its errors to the same standard error.
#[test]
fn watchdog_restores_though_its_output_is_not_read() {
    let (reader, writer) = full_pipe();
    let mut governor =
        Governor::start(wattline_needs::program(), &[], Stdio::null(), writer.into());
    let journal = governor.folder.path().join("var/lib/wattline/knobs.journal");
    governor.until("something is set", |_| journal.exists());
    governor.child.kill().unwrap();
    governor.child.wait().unwrap();
    wattline_needs::until("nothing is restored", || !journal.exists());
    drop(reader);
}
