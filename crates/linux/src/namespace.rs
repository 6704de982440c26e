//! Network namespaces: laboratories of interfaces that vanish when they are dropped.
//!
//! They are made and named with iproute2's `ip netns`, so `ip netns exec` can use them.

use rustix::fd::AsFd;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Returns the number of this thread's network namespace: the inode of its file (namespaces(7)).
///
/// # Errors
/// Without `/proc`.
pub fn own_number() -> io::Result<u64> {
    number("/proc/thread-self/ns/net")
}

/// Returns the number of the namespace that a file stands for.
///
/// # Errors
/// When there is no such file.
pub fn number(path: impl AsRef<Path>) -> io::Result<u64> {
    Ok(std::fs::metadata(path)?.ino())
}

/// Reason why a namespace could not be made or entered, or a command in it failed.
#[derive(Debug, thiserror::Error)]
#[error("{action}: {reason}")]
pub struct NamespaceError {
    action: String,
    reason: String,
}

impl NamespaceError {
    fn new(action: impl Into<String>, reason: impl std::fmt::Display) -> Self {
        Self { action: action.into(), reason: reason.to_string().trim().to_owned() }
    }
}

/// A named network namespace, deleted when this is dropped, also by a panic. Its interfaces vanish
/// with it as soon as no process uses it any more.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a namespace with its loopback interface up.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN and CAP_NET_ADMIN, without iproute2, or if the name is taken.
    pub fn create(name: impl Into<String>) -> Result<Self, NamespaceError> {
        let name = name.into();
        run("ip", &["netns", "add", &name])?;
        let namespace = Self { name };
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Makes a namespace with a unique name for a test, and runs these lines of `ip` in it.
    ///
    /// # Errors
    /// As [`Self::create`] and [`Self::ip`].
    pub fn for_test(lines: &[&str]) -> Result<Self, NamespaceError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let namespace = Self::create(format!("wlt-{}-{number}", std::process::id()))?;
        lines.iter().try_for_each(|line| namespace.ip(line).map(drop))?;
        Ok(namespace)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in the namespace, with arguments divided at blanks.
    ///
    /// # Errors
    /// When it fails, with its error output.
    pub fn ip(&self, arguments: &str) -> Result<String, NamespaceError> {
        let mut all = vec!["-n", self.name.as_str()];
        all.extend(arguments.split_whitespace());
        run("ip", &all)
    }

    /// Sets a kernel parameter of the namespace, such as `net.ipv4.ip_forward`.
    ///
    /// # Errors
    /// When it does not exist or may not be written.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), NamespaceError> {
        // The dots of an interface's name are not distinguished: use names without.
        let path = PathBuf::from("/proc/sys").join(key.replace('.', "/"));
        let action = format!("setting {key} to {value}");
        self.enter(|| std::fs::write(path, value))?
            .map_err(|error| NamespaceError::new(action, error))
    }

    /// Runs a program in the namespace to its end and returns what it printed.
    ///
    /// # Errors
    /// When it cannot be run or fails, with its error output.
    pub fn run(&self, program: &str, arguments: &[&str]) -> Result<String, NamespaceError> {
        let mut all = vec!["netns", "exec", self.name.as_str(), program];
        all.extend(arguments);
        run("ip", &all)
    }

    /// Returns a command that will run in the namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Moves the calling thread into the namespace for good. Sockets and BPF links that it opens
    /// from then on belong to the namespace, and threads that it starts are in it too.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN.
    pub fn enter_thread(&self) -> Result<(), NamespaceError> {
        enter_thread(&self.name)
    }

    /// Runs `work` in the namespace on a thread of its own and returns its result. A panic of
    /// `work` continues here.
    ///
    /// # Errors
    /// When the namespace cannot be entered; `work` has not run then.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, NamespaceError> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| self.enter_thread().map(|()| work()));
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // An error has no remedy here; the next run uses another name.
        let _ = run("ip", &["netns", "delete", &self.name]);
    }
}

/// Moves the calling thread into the namespace with this name for good.
///
/// # Errors
/// When there is none, or without CAP_SYS_ADMIN.
pub fn enter_thread(name: &str) -> Result<(), NamespaceError> {
    let action = || format!("entering the network namespace {name}");
    let file = File::open(path_of(name)).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            NamespaceError::new(action(), "there is none of this name: see `ip netns list`")
        }
        _ => NamespaceError::new(action(), error),
    })?;
    move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
        .map_err(|error| NamespaceError::new(action(), error))
}

/// Returns the path of iproute2's handle on the namespace.
fn path_of(name: &str) -> PathBuf {
    PathBuf::from("/run/netns").join(name)
}

/// Returns the index of an interface in the calling thread's namespace.
///
/// # Errors
/// When it does not exist.
pub fn interface_index(name: &str) -> Result<u32, NamespaceError> {
    use rustix::net::{AddressFamily, SocketType, netdevice, socket};
    socket(AddressFamily::INET, SocketType::DGRAM, None)
        .and_then(|socket| netdevice::name_to_index(&socket, name))
        .map_err(|error| NamespaceError::new(format!("looking for interface {name}"), error))
}

fn run(program: &str, arguments: &[&str]) -> Result<String, NamespaceError> {
    let action = || format!("{program} {}", arguments.join(" "));
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| NamespaceError::new(action(), error))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(NamespaceError::new(action(), String::from_utf8_lossy(&output.stderr)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_namespace_is_reported_with_a_remedy() {
        let error = enter_thread("wl-nowhere").unwrap_err().to_string();
        let expected = "entering the network namespace wl-nowhere: there is none of this name: see \
                        `ip netns list`";
        assert_eq!(error, expected);
    }

    #[test]
    fn a_namespace_is_entered_by_one_thread_and_vanishes() {
        let name = format!("wl-test-{}", std::process::id());
        let namespace = match Namespace::create(&name) {
            Ok(namespace) => namespace,
            Err(error) => return wattline_needs::rights(&error),
        };
        let outside = interface_index("lo").unwrap();
        namespace.ip("link add wl0 type veth peer name wl1").unwrap();
        assert!(namespace.enter(|| interface_index("wl0")).unwrap().is_ok());
        assert!(interface_index("wl0").is_err());
        assert_eq!(interface_index("lo").unwrap(), outside);
        namespace.sysctl("net.ipv4.ip_forward", "1").unwrap();
        assert!(namespace.sysctl("net.no.such", "1").is_err());
        let error = namespace.ip("link show nothing").unwrap_err().to_string();
        assert!(error.contains("nothing"), "{error}");
        let path = path_of(&name);
        assert!(path.exists());
        drop(namespace);
        assert!(!path.exists());
    }
}
