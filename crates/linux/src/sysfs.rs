//! Files below `/sys`, `/proc` and `/dev`, read through a root, so that the recorded tree of
//! another machine can replace this one.

use rustix::fs::{FileType, OFlags};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use wattline_files::{Directory, Links, Root};

/// Attributes are at most a page; `/proc/cpuinfo` of a large machine is some hundred KiB.
const LONGEST_FILE: u64 = 1 << 20;

/// Files of this machine or of a recording. Recordings are not trusted: their links are followed
/// only for reading, and only below their root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    root: Root,
}

/// Failure to read a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The file does not exist, or its device is gone.
    #[error("{}: not there", .0.display())]
    Missing(PathBuf),
    /// Permission to read is missing.
    #[error("{}: no permission to read it: run as root", .0.display())]
    NoPermission(PathBuf),
    /// Reading failed otherwise.
    #[error("{}: {reason}", path.display())]
    Failed {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        reason: String,
    },
    /// The content is not of the expected form.
    #[error("{}: holds {value:?}, expected {expected}", path.display())]
    Garbage {
        /// The file.
        path: PathBuf,
        /// Its content, shortened.
        value: String,
        /// Expected content.
        expected: &'static str,
    },
}

impl Tree {
    /// Returns the files of this machine.
    pub fn live() -> Self {
        Self::at("/")
    }

    /// Returns the tree below `root`, which holds `sys`, `proc` and so on.
    pub fn at(root: impl Into<PathBuf>) -> Self {
        Self { root: Root::new(root) }
    }

    /// Returns true if this is the running machine, not a recording.
    pub fn is_live(&self) -> bool {
        self.root.path() == Path::new("/")
    }

    /// Returns the file that stands for the absolute path `path`, for messages and other programs.
    /// To open a file of a recording use [`Self::open`], which does not leave it.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.path().join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Returns true if something is at `path`.
    pub fn exists(&self, path: impl AsRef<Path>) -> bool {
        self.file_type(path.as_ref()).is_some()
    }

    /// Returns true if a directory is at `path`.
    pub fn is_directory(&self, path: impl AsRef<Path>) -> bool {
        self.file_type(path.as_ref()) == Some(FileType::Directory)
    }

    /// Returns true if a regular file is at `path`.
    pub fn is_file(&self, path: impl AsRef<Path>) -> bool {
        self.file_type(path.as_ref()) == Some(FileType::RegularFile)
    }

    fn file_type(&self, path: &Path) -> Option<FileType> {
        if self.is_live() {
            let found = rustix::fs::stat(self.path(path)).ok()?;
            return Some(FileType::from_raw_mode(found.st_mode));
        }
        self.root.file_type(path)
    }

    /// Returns the name of the target of a link on this machine, such as a device; `None` on a
    /// recording, which has no links.
    pub fn link_name(&self, path: impl AsRef<Path>) -> Option<String> {
        let target = self.is_live().then(|| std::fs::read_link(self.path(path)).ok())??;
        target.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// Opens a file for reading, without waiting if it is a pipe.
    ///
    /// # Errors
    /// As opening a file fails.
    pub fn open(&self, path: impl AsRef<Path>) -> io::Result<File> {
        // A pipe in the place of an attribute must not block.
        let flags = OFlags::NONBLOCK;
        if self.is_live() {
            let flags = flags.bits() as i32;
            return File::options().read(true).custom_flags(flags).open(self.path(path));
        }
        self.root.open(path.as_ref(), OFlags::RDONLY | flags, Links::Inside)
    }

    /// Writes another value to an existing attribute. No link is followed.
    ///
    /// # Errors
    /// As opening and writing a file fails.
    pub fn write(&self, path: impl AsRef<Path>, value: &str) -> io::Result<()> {
        let line = format!("{value}\n");
        if self.is_live() {
            // In one system call, as attributes require.
            let mut file = self.root.open(path.as_ref(), OFlags::WRONLY, Links::None)?;
            return file.write_all(line.as_bytes());
        }
        // A plain file is replaced by name, so that it gets the whole value or none, as an
        // attribute does.
        self.root.replace(path.as_ref(), line.as_bytes())
    }

    /// Removes the remains of an interrupted write of `path` to a recording.
    pub fn discard_unfinished(&self, path: impl AsRef<Path>) {
        let path = path.as_ref();
        let Some((parent, name)) = path.parent().zip(path.file_name()) else { return };
        if !self.is_live()
            && let Ok(directory) = self.directory(&self.path(parent))
        {
            let mut new = name.to_owned();
            new.push(".new");
            // A file that cannot be removed does no harm.
            let _ = directory.remove(Path::new(&new));
        }
    }

    /// Opens the directory `path` of this machine, as [`Self::path`] names it. Below the root of a
    /// recording no link is followed.
    ///
    /// # Errors
    /// As opening a directory fails.
    pub fn directory(&self, path: &Path) -> io::Result<Directory> {
        match self.recorded(path) {
            Some(below) => self.root.directory(below),
            None => Directory::open(path),
        }
    }

    /// As [`Self::directory`]; creates missing parts.
    ///
    /// # Errors
    /// As making and opening a directory fails.
    pub fn make_directory(&self, path: &Path) -> io::Result<Directory> {
        if let Some(below) = self.recorded(path) {
            return self.root.make_directory(below);
        }
        std::fs::create_dir_all(path)?;
        Directory::open(path)
    }

    /// Returns the path below the root of a recording; `None` for a path outside, which is the
    /// caller's.
    fn recorded<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        path.strip_prefix(self.root.path()).ok().filter(|_| !self.is_live())
    }

    /// Returns the text of a file without surrounding white space.
    ///
    /// # Errors
    /// [`ReadError`]; also for a file longer than 1 MiB and for bytes that are no UTF-8.
    pub fn text(&self, path: impl AsRef<Path>) -> Result<String, ReadError> {
        let mut bytes = Vec::new();
        let read =
            self.open(&path).and_then(|file| file.take(LONGEST_FILE + 1).read_to_end(&mut bytes));
        let path = self.path(path);
        read.map_err(|error| ReadError::of(&path, &error))?;
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

    /// Returns the number in a file.
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

    /// Returns the names in a directory in natural order (`cpu2` before `cpu10`); empty if there is
    /// no such directory.
    pub fn entries(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let mut names = self.names(directory.as_ref()).unwrap_or_default();
        names.sort_by_cached_key(|name| natural_key(name));
        names
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        if !self.is_live() {
            return self.root.names(directory);
        }
        let entries = std::fs::read_dir(self.path(directory))?;
        Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
    }

    /// Returns the entries named `prefix` and a number, with that number.
    pub fn numbered(&self, directory: impl AsRef<Path>, prefix: &str) -> Vec<(u32, String)> {
        let numbered = |name: String| Some((name.strip_prefix(prefix)?.parse::<u32>().ok()?, name));
        self.entries(directory).into_iter().filter_map(numbered).collect()
    }

    /// Returns the CPUs listed in a file such as `/sys/devices/system/cpu/online`.
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
    /// Converts the kernel's answer for `path`.
    pub fn of(path: &Path, error: &io::Error) -> Self {
        let path = path.to_path_buf();
        match error.raw_os_error() {
            // ENODEV and ENXIO: the device of the file is gone.
            Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENXIO) => Self::Missing(path),
            Some(libc::EACCES | libc::EPERM) => Self::NoPermission(path),
            // Occurs only within a recording (openat2).
            Some(libc::EXDEV) => {
                let reason = "leads out of the recorded tree, so it is not read".to_string();
                Self::Failed { path, reason }
            }
            _ => Self::Failed { path, reason: error.to_string() },
        }
    }
}

/// Returns the CPUs of a list in the kernel's form (`0-3,8`, or with spaces as in `related_cpus`),
/// in ascending order; `None` if the text is no such list.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    // The largest NR_CPUS of any architecture: a hostile range must not exhaust memory.
    const MOST_CPUS: u32 = 8192;
    let mut listed = [false; MOST_CPUS as usize];
    // A list that names each CPU singly is not longer. More parts would be parsed many times.
    let mut parts = 0;
    for part in text.split([',', ' ', '\n']).filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        parts += 1;
        if first > last || last >= MOST_CPUS || parts > MOST_CPUS {
            return None;
        }
        listed[first as usize..=last as usize].fill(true);
    }
    Some((0..MOST_CPUS).zip(listed).filter_map(|(cpu, listed)| listed.then_some(cpu)).collect())
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
    fn cpu_list_takes_no_more_than_all_cpus() {
        let all: Vec<u32> = (0..8192).collect();
        assert_eq!(cpu_list("0-8191,8191-8191,5,0-8191"), Some(all.clone()));
        assert_eq!(cpu_list(&"0-8191,".repeat(8192)), Some(all));
        assert_eq!(cpu_list(&"0-8191,".repeat(149_000)), None);
        assert_eq!(cpu_list(&" ".repeat(1 << 20)), Some(vec![]));
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
