//! A directory as the root of paths: none leads out of it.

use crate::{Directory, reopen};
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Number of retries if a directory was renamed meanwhile.
const TRIES: usize = 64;

/// Symbolic links in a path below a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// Follows relative links that stay below the root, as in sysfs.
    Inside,
    /// Follows no link.
    None,
}

/// A directory with untrusted contents. A path below it never leads outside, whatever links it
/// contains and however fast they change: the kernel resolves it (openat2(2)).
///
/// Hard links cannot be told from files. [`Self::replace`] gives a name a new file, so the content
/// under its other names is unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Root {
    /// Makes a directory a root. Links in `path` itself are followed: the caller chose it.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Opens a regular file or a pipe.
    ///
    /// # Errors
    /// As opening a file fails; `EXDEV` for a path that leads out, `ELOOP` for a link that is not
    /// followed.
    pub fn open(&self, path: &Path, flags: OFlags, links: Links) -> io::Result<File> {
        let found = self.resolve(path, OFlags::PATH, links)?;
        reopen(found, &[FileType::RegularFile, FileType::Fifo], flags)
    }

    /// Returns the type of the file at `path`; `None` if there is none, or it is not below the
    /// root.
    pub fn file_type(&self, path: &Path) -> Option<FileType> {
        let found = self.resolve(path, OFlags::PATH, Links::Inside).ok()?;
        fstat(found).ok().map(|it| FileType::from_raw_mode(it.st_mode))
    }

    /// Returns the names in a directory.
    ///
    /// # Errors
    /// As opening and reading a directory fails.
    pub fn names(&self, path: &Path) -> io::Result<Vec<String>> {
        let found = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY, Links::Inside)?;
        let mut names = Vec::new();
        for entry in Dir::new(found)? {
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    /// Replaces the content of an existing file, completely or not at all. No link is followed.
    ///
    /// # Errors
    /// As opening, creating and renaming a file fails.
    pub fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let (parent, name) = split(path)?;
        let directory = self.directory(parent)?;
        // A file that is not writable, or has vanished, stays as it is.
        drop(self.open(path, OFlags::WRONLY, Links::None)?);
        directory.replace(name, bytes)
    }

    /// Opens a directory. No link is followed.
    ///
    /// # Errors
    /// As opening a directory fails.
    pub fn directory(&self, path: &Path) -> io::Result<Directory> {
        let found = self.resolve(path, OFlags::PATH | OFlags::DIRECTORY, Links::None)?;
        Ok(Directory::of(found, self.0.join(relative(path))))
    }

    /// Opens a directory, creating it and its parents if they are missing. No link is followed.
    ///
    /// # Errors
    /// As making and opening a directory fails.
    pub fn make_directory(&self, path: &Path) -> io::Result<Directory> {
        let mut below = PathBuf::new();
        let mut directory = self.directory(&below)?;
        for part in relative(path) {
            below.push(part);
            directory = match self.directory(&below) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    directory.make_directory(Path::new(part))?;
                    self.directory(&below)?
                }
                found => found?,
            };
        }
        Ok(directory)
    }

    fn resolve(&self, path: &Path, flags: OFlags, links: Links) -> io::Result<OwnedFd> {
        let flags = flags | OFlags::CLOEXEC;
        let root = rustix::fs::open(
            &self.0,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let mut how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        if links == Links::None {
            how |= ResolveFlags::NO_SYMLINKS;
        }
        let path = match relative(path) {
            path if path.as_os_str().is_empty() => Path::new("."),
            path => path,
        };
        let mut result = Err(Errno::AGAIN);
        for _ in 0..TRIES {
            result = openat2(&root, path, flags, Mode::empty(), how);
            if !matches!(result, Err(Errno::AGAIN | Errno::INTR)) {
                break;
            }
        }
        Ok(result?)
    }
}

/// Returns the path relative to the root.
fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

fn split(path: &Path) -> io::Result<(&Path, &Path)> {
    let parts = relative(path).parent().zip(path.file_name().map(Path::new));
    parts.ok_or_else(|| Errno::INVAL.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A root with a file outside, which must be neither changed nor shown.
    struct Fixture {
        folder: tempfile::TempDir,
        root: Root,
    }

    impl Fixture {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir_all(folder.path().join("root/sys/real")).unwrap();
            fs::create_dir(folder.path().join("outside")).unwrap();
            fs::write(folder.path().join("outside/file"), "secret").unwrap();
            fs::write(folder.path().join("root/sys/real/file"), "1").unwrap();
            let root = Root::new(folder.path().join("root"));
            Self { folder, root }
        }

        fn at(&self, below: &str) -> PathBuf {
            self.folder.path().join(below)
        }

        fn text(&self, path: &str) -> io::Result<String> {
            let mut text = String::new();
            let mut file = self.root.open(Path::new(path), OFlags::RDONLY, Links::Inside)?;
            file.read_to_string(&mut text).map(|_| text)
        }

        fn replace(&self, path: &str) -> io::Result<()> {
            self.root.replace(Path::new(path), b"written")
        }

        fn outside_is_unchanged(&self) -> bool {
            let names: Vec<_> = fs::read_dir(self.at("outside")).unwrap().collect();
            names.len() == 1 && fs::read(self.at("outside/file")).unwrap() == b"secret"
        }
    }

    #[test]
    fn link_inside_is_read_through_and_never_written_through() {
        let fixture = Fixture::new();
        symlink("../sys/real", fixture.at("root/sys/link")).unwrap();
        symlink("real/file", fixture.at("root/sys/name")).unwrap();
        for path in ["/sys/link/file", "/sys/name", "/sys/real/file", "sys/real/file"] {
            assert_eq!(fixture.text(path).unwrap(), "1", "{path}");
        }
        for path in ["/sys/link/file", "/sys/name"] {
            let error = fixture.replace(path).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()), "{path}");
        }
        fixture.replace("/sys/real/file").unwrap();
        assert_eq!(fixture.text("/sys/real/file").unwrap(), "written");
    }

    #[test]
    fn path_leading_outside_is_neither_read_nor_written() {
        let fixture = Fixture::new();
        symlink(fixture.at("outside"), fixture.at("root/sys/absolute")).unwrap();
        symlink("../../outside", fixture.at("root/sys/relative")).unwrap();
        symlink(fixture.at("outside/file"), fixture.at("root/sys/name")).unwrap();
        symlink("/proc/self/root", fixture.at("root/sys/magic")).unwrap();
        let outside = fixture.at("outside/file");
        let magic = format!("/sys/magic{}", outside.display());
        for path in [
            "/sys/absolute/file",
            "/sys/relative/file",
            "/sys/name",
            "/../outside/file",
            "/sys/../../outside/file",
            &magic,
        ] {
            assert!(fixture.text(path).is_err(), "{path}");
            assert!(fixture.replace(path).is_err(), "{path}");
            assert_eq!(fixture.root.file_type(Path::new(path)), None, "{path}");
            let parent = Path::new(path).parent().unwrap();
            if parent != Path::new("/sys") {
                assert!(fixture.root.names(parent).is_err(), "{path}");
                assert!(fixture.root.make_directory(&parent.join("new")).is_err(), "{path}");
            }
        }
        assert!(fixture.outside_is_unchanged());
    }

    #[test]
    fn links_next_to_the_replaced_file_are_not_followed() {
        let fixture = Fixture::new();
        symlink(fixture.at("outside/file"), fixture.at("root/sys/real/file.new")).unwrap();
        fixture.replace("/sys/real/file").unwrap();
        assert!(fixture.outside_is_unchanged());
        // A second name of a file outside keeps its content.
        fs::remove_file(fixture.at("root/sys/real/file")).unwrap();
        fs::hard_link(fixture.at("outside/file"), fixture.at("root/sys/real/file")).unwrap();
        fixture.replace("/sys/real/file").unwrap();
        assert!(fixture.outside_is_unchanged());
        assert_eq!(fixture.text("/sys/real/file").unwrap(), "written");
    }

    #[test]
    fn missing_file_is_not_made_and_missing_directories_are() {
        let fixture = Fixture::new();
        let error = fixture.replace("/sys/real/other").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(!fixture.at("root/sys/real/other").exists());
        let made = fixture.root.make_directory(Path::new("/var/lib/wattline")).unwrap();
        made.replace(Path::new("file"), b"x").unwrap();
        assert_eq!(fixture.text("/var/lib/wattline/file").unwrap(), "x");
    }

    #[test]
    fn link_swapped_in_meanwhile_is_not_followed() {
        let fixture = Fixture::new();
        let ended = AtomicBool::new(false);
        fs::create_dir(fixture.at("root/sys/spare")).unwrap();
        fs::write(fixture.at("root/sys/spare/file"), "1").unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (real, spare) = (fixture.at("root/sys/real"), fixture.at("root/sys/spare"));
                let link = fixture.at("root/sys/link");
                while !ended.load(Ordering::Relaxed) {
                    let _ = symlink("../../outside", &link);
                    let _ = fs::rename(&real, fixture.at("root/sys/aside"));
                    let _ = fs::rename(&link, &real);
                    let _ = fs::remove_file(&real);
                    let _ = fs::rename(fixture.at("root/sys/aside"), &real);
                    let _ = fs::write(spare.join("file"), "1");
                }
            });
            let (mut written, mut leaked) = (0, 0);
            for _ in 0..20_000 {
                written += usize::from(fixture.replace("/sys/real/file").is_ok());
                let text = fixture.text("/sys/real/file").ok();
                leaked += usize::from(text.as_deref() == Some("secret"));
            }
            // Before anything can fail: the scope waits for its thread.
            ended.store(true, Ordering::Relaxed);
            assert_eq!(leaked, 0);
            assert!(written > 0, "no write met the real directory");
        });
        assert!(fixture.outside_is_unchanged());
    }

    #[test]
    fn device_is_not_opened() {
        let fixture = Fixture::new();
        let mode = Mode::RUSR | Mode::WUSR;
        let path = fixture.at("root/sys/zero");
        let device = rustix::fs::makedev(1, 5);
        // Only root can create one.
        if rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::CharacterDevice, mode, device)
            .is_ok()
        {
            assert!(fixture.text("/sys/zero").is_err() && fixture.replace("/sys/zero").is_err());
        }
    }
}
