//! Removal of namespaces, including those of killed runs.

use crate::command::LIMIT;
use crate::{Error, command};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Prefix of the names of all namespaces of experiments; the process id of the owner follows.
pub(crate) const PREFIX: &str = "wattline-";
/// Folder in which iproute2 mounts named namespaces.
pub(crate) const FOLDER: &str = "/run/netns";
/// Rounds of removing namespaces after a signal.
const ROUNDS: u32 = 3;

/// Kills all processes in a namespace. Errors are ignored: the [`reap`] of the next run tries
/// again.
pub(crate) fn kill_inhabitants(name: &str) {
    let pids = command::run(Command::new("ip").args(["netns", "pids", name]), LIMIT);
    let own = std::process::id();
    for pid in pids.unwrap_or_default().lines().filter_map(|line| line.trim().parse::<u32>().ok()) {
        let target = i32::try_from(pid).ok().and_then(Pid::from_raw);
        if let (true, Some(target)) = (pid != own, target) {
            let _ = kill_process(target, Signal::KILL);
        }
    }
}

fn remove_namespace(name: &str) {
    kill_inhabitants(name);
    let _ = command::run(Command::new("ip").args(["netns", "del", name]), LIMIT);
}

/// Removes the namespaces of experiments whose process has ended.
pub fn reap() {
    for name in namespaces() {
        if owner(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove_namespace(&name);
        }
    }
}

/// Runs `work`. From now on, SIGINT and SIGTERM end this process after killing the processes in its
/// namespaces and removing them. The exit status is 128 plus the signal's number, as in shells,
/// whatever `work` does without its namespaces.
///
/// # Errors
/// Fails when signal handlers cannot be installed.
pub fn clean_up_on_signals<T>(work: impl FnOnce() -> T) -> Result<T, Error> {
    let watching = |source| Error::io("watching for signals", source);
    let signalled = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&signalled)).map_err(watching)?;
    }
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).map_err(watching)?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            // Repeated, since the main thread may have created more meanwhile.
            for _ in 0..ROUNDS {
                namespaces()
                    .iter()
                    .filter(|name| owner(name) == Some(std::process::id()))
                    .for_each(|name| remove_namespace(name));
            }
            std::process::exit(128 + signal);
        }
    });
    let result = work();
    // The thread above is ending this process, so the result of `work` does not matter.
    while signalled.load(Ordering::Acquire) {
        std::thread::park();
    }
    Ok(result)
}

/// Returns the names of all existing namespaces of experiments, of any owner.
pub fn namespaces() -> Vec<String> {
    let Ok(folder) = std::fs::read_dir(FOLDER) else {
        return Vec::new();
    };
    folder
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| owner(name).is_some())
        .collect()
}

/// Returns the process that created a namespace; `None` if it is not of an experiment.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

/// Returns true if this process can build namespaces; otherwise reports that `test` is skipped.
pub fn can_build_namespaces(test: &str) -> bool {
    let able = rustix::process::geteuid().is_root() && command::installed("ip");
    if !able {
        wattline_needs::skip(Some(test), wattline_needs::Need::Rights, "root and iproute2");
    }
    able
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_namespaces_have_an_owner() {
        assert_eq!(owner("wattline-4711-0-router"), Some(4711));
        assert_eq!(owner("wattline-router"), None);
        assert_eq!(owner("blue"), None);
    }

    #[test]
    fn only_namespaces_of_ended_processes_are_removed() {
        if !can_build_namespaces("only_namespaces_of_ended_processes_are_removed") {
            return;
        }
        // A process that has ended: its id is free for the duration of this test.
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let dead = format!("{PREFIX}{pid}-0-dead");
        let living = format!("{PREFIX}{}-0-living", std::process::id());
        for name in [&dead, &living] {
            command::run(Command::new("ip").args(["netns", "add", name]), LIMIT).unwrap();
        }
        reap();
        let left = namespaces();
        remove_namespace(&living);
        assert!(!left.contains(&dead));
        assert!(left.contains(&living));
    }
}
