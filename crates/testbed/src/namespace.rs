//! Network namespaces: machines for experiments, created and removed in milliseconds.

use crate::leftovers::PREFIX;
use crate::{Error, command, leftovers};
use rustix::io::Errno;
use std::process::Command;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use wattline_linux::namespace as kernel;
use wattline_linux::privileges::{self, Rights};

/// Time that a configuration command may take on a busy machine.
const CONFIGURE: Duration = Duration::from_secs(30);

/// Checks before an experiment that this process may create namespaces, configure interfaces and
/// open raw sockets.
///
/// # Errors
/// Returns [`Error::Privilege`] for `action`, the name of the experiment.
pub fn check_rights(action: &str) -> Result<(), Error> {
    let rights = Rights::present();
    let raw = !privileges::missing().contains(&"CAP_NET_RAW");
    if rights.administer && rights.set_cards && raw {
        return Ok(());
    }
    Err(Error::io(action, Errno::PERM))
}

/// A named network namespace; when dropped, it is removed and its processes are killed.
#[derive(Debug)]
pub struct Namespace {
    inner: kernel::Namespace,
}

impl Namespace {
    /// Creates a namespace with a unique name, which has only the loopback interface, up. The first
    /// call in a process removes leftovers of killed experiments.
    ///
    /// # Errors
    /// Fails without root or iproute2.
    pub fn create(role: &str) -> Result<Self, Error> {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        static REAP: Once = Once::new();
        REAP.call_once(leftovers::reap);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{role}", std::process::id());
        Ok(Self { inner: kernel::Namespace::create(name)? })
    }

    /// Returns the name for `ip netns`.
    pub fn name(&self) -> &str {
        self.inner.name()
    }

    /// Runs `ip` commands in the namespace, one per line.
    ///
    /// # Errors
    /// Fails at the first line that iproute2 refuses.
    pub fn ip(&self, lines: &str) -> Result<(), Error> {
        let mut batch = Command::new("ip");
        batch.args(["-n", self.name(), "-batch", "-"]);
        let output = command::run_to_end(&mut batch, CONFIGURE, &format!("{lines}\n"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::ProgramFailed {
            command: format!("ip -n {} -batch: {lines}", self.name()),
            status: output.status.to_string(),
            output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }

    /// Returns a command that will run in the namespace, with its view of `/sys`.
    pub fn command(&self, program: &str) -> Command {
        self.inner.command(program)
    }

    /// Runs a program in the namespace to its successful end and returns its output.
    ///
    /// # Errors
    /// Fails as [`command::run`].
    pub fn run(&self, program: &str, arguments: &[&str], limit: Duration) -> Result<String, Error> {
        command::run(self.command(program).args(arguments), limit)
    }

    /// Runs `work` in the namespace, on a separate thread, and returns its result. Sockets that it
    /// opens stay in the namespace wherever they are used later.
    ///
    /// # Errors
    /// Fails without the right to enter.
    pub fn enter<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        Ok(self.inner.enter(work)?)
    }

    /// Sets kernel parameters below `/proc/sys/net`, by path and value.
    ///
    /// # Errors
    /// Fails at the first parameter that the kernel refuses.
    pub fn sysctl(&self, settings: &[(&str, &str)]) -> Result<(), Error> {
        self.enter(|| {
            settings.iter().try_for_each(|(key, value)| {
                let path = format!("/proc/sys/net/{key}");
                std::fs::write(&path, value)
                    .map_err(|source| Error::io(format!("setting {path} to {value}"), source))
            })
        })?
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        leftovers::kill_inhabitants(self.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leftovers::{FOLDER, can_build_namespaces};

    #[test]
    fn changes_in_a_namespace_stay_there() {
        if !can_build_namespaces("changes_in_a_namespace_stay_there") {
            return;
        }
        let namespace = Namespace::create("inside").unwrap();
        namespace.ip("link add alone type veth peer name other\nlink set alone up").unwrap();
        namespace.sysctl(&[("ipv4/ip_forward", "1")]).unwrap();
        let inside = namespace.run("ip", &["-o", "link"], CONFIGURE).unwrap();
        assert!(inside.contains("alone"), "{inside}");
        let outside = command::run(Command::new("ip").args(["-o", "link"]), CONFIGURE).unwrap();
        assert!(!outside.contains("alone"), "{outside}");
        let forward =
            namespace.enter(|| std::fs::read_to_string("/proc/sys/net/ipv4/ip_forward")).unwrap();
        assert_eq!(forward.unwrap().trim(), "1");
    }

    #[test]
    fn refused_line_is_reported() {
        if !can_build_namespaces("refused_line_is_reported") {
            return;
        }
        let namespace = Namespace::create("refuse").unwrap();
        let error = namespace.ip("link set nosuch up").unwrap_err().to_string();
        assert!(error.contains("nosuch"), "{error}");
    }

    #[test]
    fn dropping_removes_the_namespace_and_its_processes() {
        if !can_build_namespaces("dropping_removes_the_namespace_and_its_processes") {
            return;
        }
        let namespace = Namespace::create("gone").unwrap();
        let path = format!("{FOLDER}/{}", namespace.name());
        let mut sleeper = command::spawn(namespace.command("sleep").arg("600")).unwrap();
        // `ip netns exec` enters before it executes the program: wait for that.
        while !namespace_pids(namespace.name()).contains(&sleeper.id().to_string()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(namespace);
        assert!(!std::path::Path::new(&path).exists());
        assert!(command::wait(&mut sleeper, CONFIGURE).unwrap().is_some());
    }

    fn namespace_pids(name: &str) -> String {
        command::run(Command::new("ip").args(["netns", "pids", name]), CONFIGURE).unwrap()
    }
}
