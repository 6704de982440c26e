//! The program `perf`: its commands, and checks that it is installed and permitted.

use super::samples::Counts;
use super::side::FREQUENCY_HERTZ;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use wattline_testbed::Error;
use wattline_testbed::command;

/// The kernel's setting of permissions (Documentation/admin-guide/sysctl/kernel.rst).
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";
const HIDDEN: &str = "/proc/sys/kernel/kptr_restrict";
/// Perf's name of a function that it cannot resolve.
const UNKNOWN: &str = "[unknown]";
const PATIENCE: Duration = Duration::from_secs(30);

/// Messages of perf's versions if the kernel refuses perf_event_open(2): EACCES and EPERM by the
/// setting or by seccomp, ENOSYS in a sandbox without this system call.
const REFUSALS: [&str; 5] = [
    "perf_event_paranoid",
    "Operation not permitted",
    "Permission denied",
    "No permission",
    "Function not implemented",
];

const REMEDY: &str = "Run it as root outside containers; in a container, give it CAP_PERFMON and a \
                      seccomp profile that allows perf_event_open; or let all programs use perf: \
                      sysctl kernel.perf_event_paranoid=-1";

/// The sampling program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Perf {
    program: PathBuf,
}

impl Default for Perf {
    fn default() -> Self {
        Self::named("perf")
    }
}

impl Perf {
    /// Creates it from a name or path.
    pub fn named(program: impl Into<PathBuf>) -> Self {
        Self { program: program.into() }
    }

    /// Returns the name or path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Returns a command that starts the program.
    pub fn command(&self) -> Command {
        Command::new(&self.program)
    }

    /// Adds the arguments that sample all processors while a program runs. The caller appends the
    /// program's command line.
    pub(super) fn record(command: &mut Command, data: &Path) {
        command
            .args(["record", "--quiet", "--all-cpus", "--event", "cpu-clock", "--freq"])
            .arg(FREQUENCY_HERTZ.to_string())
            .arg("--output")
            .arg(data)
            .arg("--")
            .stdin(Stdio::null());
    }

    /// Samples all processors for a moment.
    ///
    /// # Errors
    /// Fails when the program is not installed, or when the kernel refuses.
    pub fn check(&self) -> Result<(), Error> {
        let folder = tempfile::tempdir().map_err(|source| Error::io("making a folder", source))?;
        let mut record = self.command();
        Self::record(&mut record, &folder.path().join("perf.data"));
        record.arg("true");
        command::run(&mut record, PATIENCE).map(drop).map_err(|error| match error {
            Error::ProgramFailed { output, .. }
                if REFUSALS.iter().any(|refusal| output.contains(refusal)) =>
            {
                Error::Forbidden {
                    what: "perf may not sample all processors".into(),
                    reason: reason(std::fs::read_to_string(PARANOID).ok().as_deref()),
                    remedy: REMEDY,
                }
            }
            other => other,
        })
    }
}

/// Returns the reason of a refusal; `paranoid` is the content of [`PARANOID`].
fn reason(paranoid: Option<&str>) -> String {
    match paranoid.map(str::trim) {
        Some(value) => {
            format!("the kernel refuses perf_event_open; kernel.perf_event_paranoid is {value}")
        }
        None => format!("the kernel refuses perf_event_open; {PARANOID} does not exist"),
    }
}

/// Checks that functions of the kernel have names; without names, nothing can be grouped.
pub(super) fn check_names(sides: &[&Counts]) -> Result<(), Error> {
    let samples: u64 = sides.iter().map(|side| side.total()).sum();
    let nameless: u64 = sides.iter().filter_map(|side| side.unclaimed.get(UNKNOWN)).sum();
    if nameless * 2 <= samples {
        return Ok(());
    }
    let restricted = std::fs::read_to_string(HIDDEN).unwrap_or_default();
    Err(Error::Forbidden {
        what: "perf cannot name the kernel's functions".into(),
        reason: format!(
            "{nameless} of {samples} samples have none; kernel.kptr_restrict is {}",
            restricted.trim()
        ),
        remedy: "Set sysctl kernel.kptr_restrict=0 while it runs",
    })
}

#[cfg(test)]
mod tests {
    use super::super::{Options, run};
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// Creates a script in place of perf.
    fn script(folder: &tempfile::TempDir, lines: &str) -> Perf {
        let path = folder.path().join("perf");
        std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        Perf::named(path)
    }

    fn paranoid() -> i32 {
        std::fs::read_to_string(PARANOID).ok().and_then(|it| it.trim().parse().ok()).unwrap_or(4)
    }

    /// Runs the real perf without root's capabilities.
    #[test]
    fn forbidden_perf_is_reported_before_the_command_begins() {
        if !command::installed("perf") || !command::installed("setpriv") {
            return wattline_needs::tool("perf and setpriv");
        }
        if paranoid() < 1 {
            return wattline_needs::machine("here perf is allowed to everybody");
        }
        let folder = tempfile::tempdir().unwrap();
        let without = if rustix::process::geteuid().is_root() {
            "exec setpriv --bounding-set=-perfmon,-sys_admin perf \"$@\""
        } else {
            "exec perf \"$@\""
        };
        let options = Options {
            io_bytes: vec![16_384],
            connections: 1,
            duration: Duration::from_secs(1),
            offloads: vec![true],
            forwarding: true,
            perf: script(&folder, without),
        };
        let mut steps = Vec::new();
        let error = run(&options, &mut |text| steps.push(text.to_owned())).unwrap_err();
        assert!(matches!(error, Error::Forbidden { .. }), "{error}");
        let text = error.to_string();
        for expected in [
            "perf may not sample all processors",
            &format!("kernel.perf_event_paranoid is {}", paranoid()),
            "CAP_PERFMON",
            "seccomp",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(steps.is_empty(), "nothing was measured: {steps:?}");
    }

    /// Messages of perf under seccomp, and on Debian's kernels with the setting 3.
    #[test]
    fn refusals_of_sandboxes_are_distinguished_from_other_failures() {
        let folder = tempfile::tempdir().unwrap();
        for refusal in [
            "Error:\nThe sys_perf_event_open() syscall returned with 38 (Function not implemented)",
            "Error: You may not have permission to collect stats. Consider tweaking \
             /proc/sys/kernel/perf_event_paranoid",
            "perf_event_open(...) failed: Operation not permitted",
        ] {
            let perf = script(&folder, &format!("echo '{refusal}' >&2; exit 255"));
            let error = perf.check().unwrap_err();
            assert!(matches!(error, Error::Forbidden { .. }), "{refusal}: {error}");
        }
        let perf = script(&folder, "echo 'WARNING: perf not found for kernel 6.99' >&2; exit 2");
        let error = perf.check().unwrap_err();
        assert!(matches!(error, Error::ProgramFailed { .. }), "{error}");
        assert!(error.to_string().contains("not found for kernel 6.99"), "{error}");
        let error = Perf::named("wattline-no-such-perf").check().unwrap_err();
        assert!(matches!(error, Error::ProgramMissing { .. }), "{error}");
    }

    #[test]
    fn reason_has_the_setting_if_present() {
        assert!(reason(Some("4\n")).ends_with("kernel.perf_event_paranoid is 4"));
        assert!(reason(None).contains("does not exist"));
    }

    #[test]
    fn hidden_function_names_are_an_error() {
        let counts = |unknown: u64, known: u64| {
            let mut counts = Counts::default();
            counts.groups.insert(super::super::Group::Unclaimed, unknown + known);
            counts.unclaimed.insert(UNKNOWN.to_owned(), unknown);
            counts
        };
        assert!(check_names(&[&counts(5, 20), &counts(1, 20)]).is_ok());
        let error = check_names(&[&counts(90, 10), &counts(80, 20)]).unwrap_err().to_string();
        assert!(error.contains("170 of 200") && error.contains("kptr_restrict"), "{error}");
    }
}
