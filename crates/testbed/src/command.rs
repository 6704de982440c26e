//! Runs programs with a time limit and reports their errors.

use crate::Error;
use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Interval between two checks of a running program.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Time limit of a command that sets something up or takes it down: commands that change interfaces
/// wait for each other on the whole machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Runs a command to its end and returns its standard output.
///
/// # Errors
/// Fails when the program is not installed, fails, or is still running after `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Result<String, Error> {
    let output = run_to_end(command, limit, "")?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    Err(Error::ProgramFailed {
        command: line(command),
        status: output.status.to_string(),
        output: String::from_utf8_lossy(said).trim().to_owned(),
    })
}

/// Runs a command whose failure is a valid result (a ping without a reply), with `input` on its
/// standard input.
///
/// # Errors
/// Fails when the program is not installed or is still running after `limit`.
pub fn run_to_end(command: &mut Command, limit: Duration, input: &str) -> Result<Output, Error> {
    command.stdin(if input.is_empty() { Stdio::null() } else { Stdio::piped() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command)?;
    // Separate reader threads: a full pipe would block the program.
    let stdout = child.stdout.take().map(|pipe| std::thread::spawn(move || drain(pipe)));
    let stderr = child.stderr.take().map(|pipe| std::thread::spawn(move || drain(pipe)));
    if let Some(mut pipe) = child.stdin.take() {
        // A program that does not read its input reports the reason on its standard error.
        let _ = pipe.write_all(input.as_bytes());
    }
    let status = wait(&mut child, limit)
        .map_err(|source| Error::io(format!("waiting for `{}`", line(command)), source))?;
    let Some(status) = status else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(Error::ProgramHangs { command: line(command), seconds: limit.as_secs() });
    };
    let collect = |reader: Option<std::thread::JoinHandle<Vec<u8>>>| {
        reader.and_then(|thread| thread.join().ok()).unwrap_or_default()
    };
    Ok(Output { status, stdout: collect(stdout), stderr: collect(stderr) })
}

/// Starts a command.
///
/// # Errors
/// Fails when the program is not installed or cannot be started.
pub fn spawn(command: &mut Command) -> Result<Child, Error> {
    command.spawn().map_err(|source| {
        if source.kind() == std::io::ErrorKind::NotFound {
            Error::ProgramMissing { program: command.get_program().to_string_lossy().into_owned() }
        } else {
            Error::io(format!("starting `{}`", line(command)), source)
        }
    })
}

/// Waits for a program to end, at most `limit`; `None` if it is still running.
///
/// # Errors
/// Fails when the operating system does.
pub fn wait(
    child: &mut Child,
    limit: Duration,
) -> std::io::Result<Option<std::process::ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Returns true if a program of this name can be started.
pub fn installed(program: &str) -> bool {
    // Debian keeps `ethtool` and `bird` in folders outside an unprivileged PATH.
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(Into::into))
        .any(|folder| folder.join(program).is_file())
}

/// Returns a command of an installed program, or of one that `make tools` unpacked into
/// `target/tools` with its libraries.
pub fn program(name: &str) -> Option<Command> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let unpacked = target().map(|target| target.join("tools/usr"));
    find(
        name,
        std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(Into::into)),
        unpacked.as_deref(),
    )
}

/// Returns the folder `target` of the running build, in which `make tools` also unpacks. An
/// installed program has none: as root it would otherwise run any program that a user puts into its
/// former build folder.
pub(crate) fn target() -> Option<PathBuf> {
    target_of(&std::env::current_exe().ok()?)
}

fn target_of(running: &Path) -> Option<PathBuf> {
    Some(running.ancestors().find(|it| it.ends_with("target"))?.to_owned())
}

/// Finds a program, first in `folders`, then below `unpacked`.
fn find(
    name: &str,
    mut folders: impl Iterator<Item = PathBuf>,
    unpacked: Option<&Path>,
) -> Option<Command> {
    let there = |folder: PathBuf| Some(folder.join(name)).filter(|path| path.is_file());
    if let Some(path) = folders.find_map(there) {
        return Some(Command::new(path));
    }
    let unpacked = unpacked?;
    let mut command =
        Command::new(["bin", "sbin"].map(|it| unpacked.join(it)).into_iter().find_map(there)?);
    let mut libraries: OsString =
        unpacked.join(format!("lib/{}-linux-gnu", std::env::consts::ARCH)).into();
    if let Some(others) = std::env::var_os("LD_LIBRARY_PATH") {
        libraries.push(":");
        libraries.push(others);
    }
    command.env("LD_LIBRARY_PATH", libraries);
    Some(command)
}

fn drain(mut pipe: impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Output read before an error is still useful.
    let _ = pipe.read_to_end(&mut bytes);
    bytes
}

fn line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_a_program_is_returned() {
        let output = run(Command::new("echo").arg("hello"), Duration::from_secs(10)).unwrap();
        assert_eq!(output, "hello\n");
    }

    #[test]
    fn input_reaches_a_program_with_much_output() {
        let input = "a line\n".repeat(50_000);
        let output = run_to_end(&mut Command::new("cat"), Duration::from_secs(30), &input).unwrap();
        assert_eq!(output.stdout.len(), input.len());
    }

    #[test]
    fn error_has_command_status_and_output() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such link >&2; exit 3"]);
        let error = run(&mut command, Duration::from_secs(10)).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("no such link"), "{error}");
    }

    #[test]
    fn missing_program_is_named() {
        let error = run(&mut Command::new("wattline-no-such"), Duration::from_secs(1)).unwrap_err();
        assert!(
            matches!(error, Error::ProgramMissing { program } if program == "wattline-no-such")
        );
        assert!(!installed("wattline-no-such") && installed("sh"));
    }

    #[test]
    fn installed_program_has_precedence_and_unpacked_one_gets_its_libraries() {
        let folder = tempfile::tempdir().unwrap();
        let [installed, unpacked] = ["installed", "unpacked"].map(|name| folder.path().join(name));
        for bin in [installed.clone(), unpacked.join("sbin")] {
            std::fs::create_dir_all(&bin).unwrap();
        }
        std::fs::write(unpacked.join("sbin/served"), "").unwrap();
        let look = || find("served", std::iter::once(installed.clone()), Some(&unpacked)).unwrap();
        let command = look();
        assert_eq!(command.get_program(), unpacked.join("sbin/served"));
        let (name, value) = command.get_envs().next().unwrap();
        assert_eq!(name, "LD_LIBRARY_PATH");
        assert!(value.unwrap().to_str().unwrap().starts_with(unpacked.to_str().unwrap()));
        std::fs::write(installed.join("served"), "").unwrap();
        assert_eq!(look().get_program(), installed.join("served"));
        assert!(program("wattline-no-such").is_none() && program("sh").is_some());
    }

    #[test]
    fn only_a_program_in_its_build_folder_uses_that_folder() {
        let target = |running: &str| target_of(Path::new(running));
        let ours = Some(PathBuf::from("/src/wattline/target"));
        assert_eq!(target("/src/wattline/target/release/wattline"), ours);
        assert_eq!(target("/src/wattline/target/debug/deps/suite-1a2b"), ours);
        assert_eq!(target("/usr/bin/wattline"), None);
        assert!(super::target().is_some());
    }

    #[test]
    fn hanging_program_is_stopped() {
        let error = run(Command::new("sleep").arg("600"), Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, Error::ProgramHangs { .. }), "{error}");
    }
}
