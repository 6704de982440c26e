//! Commands of a setting file: run without a shell, in their own process group, with a time limit.

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(5);
/// Bytes of output that are kept.
const KEPT: u64 = 64 << 10;

/// Runs a program with its arguments for at most `limit`, and returns its output. `group` is set to
/// the process group while it runs, and to zero afterwards.
///
/// # Errors
/// When it cannot be started, fails, or takes longer: its whole group is killed then.
pub fn run(
    words: &[String],
    limit: Duration,
    mut group: impl FnMut(u32),
) -> Result<String, String> {
    let shown = words.join(" ");
    let failed = |error: std::io::Error| format!("{shown}: {error}");
    let (program, arguments) = words.split_first().ok_or("a command is empty")?;
    // Not a pipe: a service that the command starts would keep it open.
    let memory =
        memfd_create("output", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut output = File::from(memory);
    let clone = |file: &File| file.try_clone().map_err(failed);
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(clone(&output)?)
        .stderr(clone(&output)?)
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    group(child.id());
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if Instant::now() < end => std::thread::sleep(LOOK),
            Ok(None) => {
                let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
                let _ = child.wait();
                break Err(format!("{shown}: not done within {} s", limit.as_secs_f64()));
            }
            Err(error) => break Err(failed(error)),
        }
    };
    group(0);
    let mut bytes = Vec::new();
    let read =
        output.seek(SeekFrom::Start(0)).and_then(|_| output.take(KEPT).read_to_end(&mut bytes));
    read.map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    let status = status?;
    if status.success() {
        return Ok(text);
    }
    let last = text.lines().last().map_or(String::new(), |line| format!(": {line}"));
    Err(format!("{shown}: ended with {status}{last}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, limit: u64) -> Result<String, String> {
        let words = ["sh", "-c", text].map(str::to_owned);
        run(&words, Duration::from_millis(limit), |_| ())
    }

    #[test]
    fn output_is_returned_and_each_failure_is_named() {
        assert_eq!(shell("echo out; echo err >&2", 10_000).as_deref(), Ok("out\nerr"));
        for (text, limit, says) in [
            ("echo why >&2; exit 3", 10_000, "ended with exit status: 3: why"),
            ("kill -9 $$", 10_000, "signal: 9"),
            ("sleep 3600", 100, "not done within 0.1 s"),
        ] {
            let error = shell(text, limit).unwrap_err();
            assert!(error.contains(says), "{says}: {error}");
        }
        let error = run(&["/no/program".to_owned()], LOOK, |_| ()).unwrap_err();
        assert!(error.contains("/no/program"), "{error}");
    }

    #[test]
    fn service_left_behind_by_a_command_delays_nothing() {
        let mut groups = Vec::new();
        let words = ["sh", "-c", "sleep 3600 & echo started"].map(str::to_owned);
        let done = run(&words, Duration::from_secs(10), |group| groups.push(group));
        assert_eq!(done.as_deref(), Ok("started"));
        let [first, 0] = groups[..] else { panic!("{groups:?}") };
        let group = Pid::from_raw(first as i32).unwrap();
        kill_process_group(group, Signal::KILL).unwrap();
    }

    /// The limit also ends the processes that the command started.
    #[test]
    fn limit_ends_the_whole_group() {
        let mut first = 0;
        let words = ["sh", "-c", "sleep 3600 & sleep 3600"].map(str::to_owned);
        let limit = Duration::from_millis(200);
        run(&words, limit, |group| first = first.max(group)).unwrap_err();
        let group = Pid::from_raw(first as i32).unwrap();
        wattline_needs::until("nothing of the group runs", || {
            rustix::process::test_kill_process_group(group).is_err()
        });
    }
}
