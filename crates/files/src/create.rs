//! Writing files that a command line or a configuration names, in directories that others may
//! write.

use crate::Directory;
use rustix::fs::{FileType, Mode, OFlags, fstat, ftruncate, stat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

/// Opens a file to write it from the start: a new one, or an existing one after emptying it. Pipes
/// and devices are opened as they are.
///
/// A link is not followed, and a file with several names is not emptied: another user may have put
/// it there to redirect this process's writes. Files that the process itself has open, such as
/// `/dev/stdout`, are the exception.
///
/// # Errors
/// As creating and opening a file fails.
pub fn create(path: &Path) -> io::Result<File> {
    if is_of_this_process(path) {
        return File::create(path);
    }
    match open(path, OFlags::CREATE | OFlags::EXCL) {
        Err(Errno::EXIST) => {}
        created => return Ok(created?),
    }
    let file = open_existing(path)?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
        ftruncate(&file, 0)?;
    }
    Ok(file)
}

/// Opens an existing file for writing, unchanged and with the same precautions as [`create`].
///
/// # Errors
/// As opening a file fails.
pub fn open_existing(path: &Path) -> io::Result<File> {
    let refused = |message: &str| Err(io::Error::new(ErrorKind::InvalidInput, message));
    let file = match open(path, OFlags::empty()) {
        Err(Errno::LOOP) => {
            return refused("is a symbolic link, which is not followed; name the file itself");
        }
        opened => opened?,
    };
    let found = fstat(&file)?;
    if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_nlink > 1 {
        return refused("has another name (hard link), whose content would change");
    }
    let is_own = [0, geteuid().as_raw()].contains(&found.st_uid);
    let parent = stat(parent_of(path))?;
    if !is_own && Mode::from_raw_mode(parent.st_mode).contains(Mode::WOTH) {
        return refused("is another user's, in a directory that everybody can write");
    }
    Ok(file)
}

/// Replaces the content of a file, completely or not at all; it is written as `NAME.new` and then
/// renamed.
///
/// # Errors
/// As creating, writing and renaming a file fails.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    Directory::open(parent_of(path))?.replace(name.as_ref(), bytes)
}

/// Returns true if the path names a file that the process has open, such as a file of the shell's
/// `>`.
pub fn is_of_this_process(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"].iter().any(|it| path.starts_with(it))
}

fn open(path: &Path, flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o666)).map(File::from)
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn link_and_file_with_another_name_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("victim"), "precious").unwrap();
        symlink(at("victim"), at("link")).unwrap();
        symlink(at("none"), at("dangling")).unwrap();
        for name in ["link", "dangling"] {
            let error = create(&at(name)).unwrap_err().to_string();
            assert!(error.contains("symbolic link"), "{name}: {error}");
        }
        replace(&at("link"), b"new").unwrap();
        assert_eq!(fs::read(at("link")).unwrap(), b"new");
        fs::hard_link(at("victim"), at("other")).unwrap();
        assert!(create(&at("other")).unwrap_err().to_string().contains("another name"));
        assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
        assert!(!at("none").exists());
        fs::remove_file(at("other")).unwrap();
        create(&at("victim")).unwrap().write_all(b"x").unwrap();
        assert_eq!(fs::read(at("victim")).unwrap(), b"x");
    }

    #[test]
    fn device_and_own_output_are_opened_as_they_are() {
        assert!(create(Path::new("/dev/null")).is_ok());
        assert!(is_of_this_process(Path::new("/dev/stdout")));
        assert!(!is_of_this_process(Path::new("/dev/null")));
    }

    #[test]
    fn file_of_another_user_in_a_shared_directory_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "theirs").unwrap();
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            assert!(create(&path).unwrap_err().to_string().contains("another user's"));
            assert_eq!(fs::read(&path).unwrap(), b"theirs");
        }
    }
}
