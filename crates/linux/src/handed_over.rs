//! Descriptors that the service manager passes to a daemon at its start: its sockets
//! (sd_listen_fds(3)), and those that the previous daemon left in the manager's store
//! (sd_pid_notify_with_fds(3)).

#![allow(unsafe_code)]

use rustix::fd::{BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::FdFlags;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of the first descriptor (`SD_LISTEN_FDS_START`).
const FIRST: i32 = 3;

/// Returns all descriptors with the names under which they were stored. The first call takes them,
/// and later calls return nothing. Child programs do not inherit them.
pub fn take() -> Vec<(String, OwnedFd)> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let own = variable("LISTEN_PID") == std::process::id().to_string();
    if !own || TAKEN.swap(true, Ordering::AcqRel) {
        return Vec::new();
    }
    let names = names(&variable("LISTEN_FDS"), &variable("LISTEN_FDNAMES"));
    (FIRST..).zip(names).filter_map(|(number, name)| Some((name, take_one(number)?))).collect()
}

/// Returns a name for each of `count` descriptors.
fn names(count: &str, names: &str) -> Vec<String> {
    // No manager passes more than a process may have open.
    let count = count.parse::<usize>().ok().filter(|count| *count <= 65_536).unwrap_or(0);
    let mut names = names.split(':').map(str::to_owned);
    (0..count).map(|_| names.next().unwrap_or_default()).collect()
}

fn take_one(number: i32) -> Option<OwnedFd> {
    // SAFETY: only the number is used, and the kernel returns EBADF if it is not open.
    let there =
        rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::CLOEXEC);
    there.ok()?;
    // SAFETY: the descriptor is open, and passed by the manager to this process (LISTEN_PID) for
    // the first caller, which is this call because of `TAKEN`.
    Some(unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_descriptor_has_a_name_whatever_the_environment_says() {
        assert_eq!(names("3", "a:b"), ["a", "b", ""]);
        assert_eq!(names("1", "a:b"), ["a"]);
        for (count, listed) in [("", ""), ("-1", "a"), ("99999999999", "a"), ("two", "a:b")] {
            assert_eq!(names(count, listed), [""; 0], "{count}");
        }
    }

    #[test]
    fn descriptors_for_another_process_are_not_taken() {
        // The test runner's own descriptors would be closed otherwise.
        assert!(take().is_empty());
    }
}
