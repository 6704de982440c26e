//! The virtual hardware lab: an emulated machine, observable from outside, with real Linux drivers
//! for features that a virtual machine lacks (frequency, idle states, a card with queues, power).
//! `docs/explanation/rig.md` lists its real and emulated parts.
//!
//! [`Rig`] holds the packages unpacked by `rig/fetch`; [`image`] packs the guest; [`Machine`] boots
//! it, [`guest`] runs commands inside, [`monitor`] reads its registers from outside. Tests of the
//! program turn every knob and compare the two (`tests/rig/checks/`).

pub mod agent;
pub mod conformance;
pub mod guest;
pub mod image;
pub mod machine;
pub mod monitor;
pub mod traffic;

pub use machine::{Machine, Options};

use crate::{Error, command};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

/// Time for a download over a slow line.
const FETCH: Duration = Duration::from_secs(1800);
/// Exit code of `rig/fetch` if a package is unavailable.
const UNAVAILABLE: i32 = 69;

/// Emulator, guest kernel and programs, as unpacked by `rig/fetch`.
#[derive(Debug, Clone)]
pub struct Rig {
    /// Folder of the unpacked packages.
    root: PathBuf,
    /// Folder of the guest's kernel: the same, or a separate one.
    kernel_root: PathBuf,
    /// The guest kernel's release, which names its files.
    release: String,
}

impl Rig {
    /// Finds the packages fetched earlier; `None` if there are none.
    pub fn find() -> Option<Self> {
        let folder = folder();
        let text = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
        text("fetched")?;
        let root = folder.join("root");
        Some(Self { kernel_root: root.clone(), root, release: text("kernel")?.trim().to_owned() })
    }

    /// Returns the rig with Debian's newest kernel of a series, `6.1`, `6.12` or `6.18`, for the
    /// guest; fetches it if missing.
    ///
    /// # Errors
    /// Fails as [`Self::fetch`].
    pub fn with_kernel(&self, series: &str) -> Result<Self, Error> {
        let mut fetch = Command::new(source().join("rig/fetch-kernel"));
        fetch.arg(series).env("WATTLINE_RIG", folder());
        let output = fetched(&mut fetch)?;
        let folder = folder().join("kernels").join(series);
        let Ok(release) = std::fs::read_to_string(folder.join("kernel")) else {
            return Err(failed("rig/fetch-kernel", &output));
        };
        let (root, kernel_root) = (self.root.clone(), folder.join("root"));
        Ok(Self { root, kernel_root, release: release.trim().to_owned() })
    }

    /// Returns TuneD with its Python, if `rig/fetch-tuned` has fetched it.
    pub fn tuned(&self) -> Option<PathBuf> {
        Some(folder().join("tuned")).filter(|folder| folder.join("usr/sbin/tuned-adm").exists())
    }

    /// Returns the release of the guest's kernel, as in `uname -r`.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Fetches missing packages, without root and without installing anything.
    ///
    /// # Errors
    /// Returns [`Error::Rig`] with the missing packages and the requirements, if they are
    /// unavailable.
    pub fn fetch() -> Result<Self, Error> {
        let mut fetch = Command::new(source().join("rig/fetch"));
        fetch.env("WATTLINE_RIG", folder());
        let output = fetched(&mut fetch)?;
        Self::find().ok_or_else(|| failed("rig/fetch", &output))
    }

    /// Returns the path of an unpacked program, or of the machine's own.
    fn program(&self, name: &str) -> PathBuf {
        ["usr/bin", "usr/sbin", "bin", "sbin", "usr/lib/ipsec"]
            .iter()
            .map(|below| self.root.join(below).join(name))
            .chain(
                ["/usr/bin", "/usr/sbin", "/bin", "/usr/lib/ipsec"]
                    .iter()
                    .map(|at| Path::new(at).join(name)),
            )
            .find(|path| path.is_file())
            .unwrap_or_else(|| PathBuf::from(name))
    }

    /// Returns a command of such a program, with the library path of the unpacked packages.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.program(name));
        self.set_environment(&mut command);
        command
    }

    /// Sets the paths of unpacked libraries and of the emulator's modules. The emulator refuses
    /// modules of another build, which this machine may have; `rig/fetch` makes sure that it does
    /// not search for them.
    fn set_environment(&self, command: &mut Command) {
        command.env("LD_LIBRARY_PATH", self.libraries());
        command.env("QEMU_MODULE_DIR", self.root.join("usr/lib/x86_64-linux-gnu/qemu"));
    }

    /// Returns the library path of unpacked programs.
    fn libraries(&self) -> std::ffi::OsString {
        let folders = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/ipsec"];
        let folders = folders.map(|folder| self.root.join(folder));
        std::env::join_paths(folders).unwrap_or_default()
    }

    fn kernel(&self) -> PathBuf {
        self.kernel_root.join(format!("boot/vmlinuz-{}", self.release))
    }

    fn modules(&self) -> PathBuf {
        self.kernel_root.join("lib/modules").join(&self.release)
    }
}

/// Runs a script that fetches packages; returns its output, unless it could not run.
fn fetched(script: &mut Command) -> Result<Output, Error> {
    let output = command::run_to_end(script, FETCH, "")?;
    if output.status.code() == Some(UNAVAILABLE) {
        let what = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Rig { what, console: String::new() });
    }
    Ok(output)
}

fn failed(script: &str, output: &Output) -> Error {
    Error::ProgramFailed {
        command: script.to_owned(),
        status: output.status.to_string(),
        output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    }
}

/// Returns the folder of the sources: the lab only runs from a checkout, by cargo, which sets it,
/// or by hand. The folder is not compiled in, so that the same sources give the same program
/// anywhere.
fn source() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(|it| Path::new(&it).join("../.."));
    manifest.or_else(|| Some(command::target()?.parent()?.to_owned())).unwrap_or_default()
}

/// Returns the folder into which `rig/fetch` unpacks.
fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("WATTLINE_RIG") {
        return folder.into();
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    source().join(target).join("rig")
}
