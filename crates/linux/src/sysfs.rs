//! Files below `/sys`, `/proc` and `/dev`, read through a root, so that the recorded tree of
//! another machine can stand in for this one.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Attributes are at most a page; `/proc/cpuinfo` of a large machine is some hundred KiB.
const LONGEST_FILE: u64 = 1 << 20;

/// A machine's files: those of this one, or of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    root: PathBuf,
}

/// Why a file gave no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It does not exist, or its device has gone.
    #[error("{}: not there", .0.display())]
    Missing(PathBuf),
    /// It may not be read.
    #[error("{}: no permission to read it: run as root", .0.display())]
    NoPermission(PathBuf),
    /// Reading failed otherwise.
    #[error("{}: {reason}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        reason: String,
    },
    /// It holds something else than it should.
    #[error("{}: holds {value:?}, expected {expected}", path.display())]
    Garbage {
        /// The file.
        path: PathBuf,
        /// What it holds, shortened.
        value: String,
        /// What it should hold.
        expected: &'static str,
    },
}

impl Tree {
    /// This machine.
    pub fn live() -> Self {
        Self::at("/")
    }

    /// The tree below `root`, which holds `sys`, `proc` and so on.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// Whether this is the running machine, not a recording.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The file that stands for the absolute path `path`.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Whether something is at `path`.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The text of a file without surrounding white space.
    ///
    /// # Errors
    /// [`ReadError`]; also for a file longer than 1 MiB and for bytes that are no UTF-8.
    pub fn text(&self, path: impl AsRef<Path>) -> Result<String, ReadError> {
        let path = self.path(path);
        let mut bytes = Vec::new();
        // Non-blocking: a pipe that was put in the place of an attribute must not stop us.
        File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(&path)
            .and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut bytes))
            .map_err(|error| ReadError::of(&path, &error))?;
        if bytes.len() as u64 > LONGEST_FILE {
            let reason = format!("longer than {LONGEST_FILE} bytes");
            return Err(ReadError::Failed { path, reason });
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(text.trim().to_string()),
            Err(_) => Err(ReadError::Garbage {
                value: shortened(&String::from_utf8_lossy(&bytes)),
                path,
                expected: "text",
            }),
        }
    }

    /// A file that holds one number.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn number<T: FromStr>(&self, path: impl AsRef<Path>) -> Result<T, ReadError> {
        let path = path.as_ref();
        let text = self.text(path)?;
        text.parse().map_err(|_| ReadError::Garbage {
            path: self.path(path),
            value: shortened(&text),
            expected: "a number",
        })
    }

    /// Names in a directory in natural order (`cpu2` before `cpu10`); none where there is no
    /// such directory.
    pub fn entries(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.path(directory)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort_by_cached_key(|name| natural_key(name));
        names
    }

    /// Entries named `prefix` and a number, with that number.
    pub fn numbered(&self, directory: impl AsRef<Path>, prefix: &str) -> Vec<(u32, String)> {
        let numbered = |name: String| Some((name.strip_prefix(prefix)?.parse::<u32>().ok()?, name));
        self.entries(directory).into_iter().filter_map(numbered).collect()
    }

    /// A file that holds a list of CPUs, such as `/sys/devices/system/cpu/online`.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn cpus(&self, path: impl AsRef<Path>) -> Result<Vec<u32>, ReadError> {
        let path = path.as_ref();
        let text = self.text(path)?;
        cpu_list(&text).ok_or_else(|| ReadError::Garbage {
            path: self.path(path),
            value: shortened(&text),
            expected: "a list of CPUs such as 0-3,8",
        })
    }
}

impl ReadError {
    /// Names what the kernel answered for `path`.
    pub fn of(path: &Path, error: &io::Error) -> Self {
        let path = path.to_path_buf();
        match error.raw_os_error() {
            // ENODEV and ENXIO: the device behind the file has gone.
            Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENXIO) => Self::Missing(path),
            Some(libc::EACCES | libc::EPERM) => Self::NoPermission(path),
            _ => Self::Failed { path, reason: error.to_string() },
        }
    }
}

/// CPUs of a list as the kernel writes it (`0-3,8`, or with spaces as in `related_cpus`), in
/// ascending order; `None` when it is not one.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    // The largest NR_CPUS of any architecture: a hostile range must not eat the memory.
    const MOST_CPUS: u32 = 8192;
    let mut cpus = Vec::new();
    for part in text.split([',', ' ', '\n']).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last >= MOST_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Digits compare as numbers: text without them first, then the number.
fn natural_key(name: &str) -> Vec<(String, u64)> {
    let mut parts = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (text, after) = rest.split_at(digits);
        let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        let (number, after) = after.split_at(end);
        parts.push((text.to_string(), number.parse().unwrap_or(0)));
        rest = after;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_of_the_kernel_are_read_and_others_refused() {
        assert_eq!(cpu_list("0-3,8\n"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpu_list("4 1 0"), Some(vec![0, 1, 4]));
        assert_eq!(cpu_list(""), Some(vec![]));
        for wrong in ["3-1", "a", "0-4294967295", "-1", "0-"] {
            assert_eq!(cpu_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn files_are_read_below_the_root_and_errors_name_them() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        std::fs::create_dir_all(root.path().join("sys/a")).unwrap();
        for name in ["cpu10", "cpu2", "cpufreq"] {
            std::fs::write(root.path().join("sys/a").join(name), "7\n").unwrap();
        }
        std::fs::write(root.path().join("sys/a/bad"), "sieben\n").unwrap();
        assert_eq!(tree.number::<u64>("/sys/a/cpu2"), Ok(7));
        assert_eq!(tree.numbered("/sys/a", "cpu"), [(2, "cpu2".into()), (10, "cpu10".into())]);
        assert!(matches!(tree.number::<u64>("/sys/none"), Err(ReadError::Missing(_))));
        let error = tree.number::<u64>("/sys/a/bad").unwrap_err().to_string();
        assert!(error.ends_with("sys/a/bad: holds \"sieben\", expected a number"), "{error}");
    }

    #[test]
    fn a_pipe_in_the_place_of_a_file_does_not_block() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert_eq!(Tree::at(root.path()).text("/pipe"), Ok(String::new()));
    }
}
