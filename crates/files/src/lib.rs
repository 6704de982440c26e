//! Files that may come from other users: reading them up to a limit, finding them below a directory
//! without leaving it, and creating new ones in directories that others can write.
#![forbid(unsafe_code)]

mod create;
mod directory;
mod read;
mod root;

pub use create::{create, is_of_this_process, open_existing, replace};
pub use directory::Directory;
pub use read::{MOST_TEXT, read, read_text};
pub use root::{Links, Root};

use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Reopens a file from an `O_PATH` descriptor, unless its type is not among `allowed`: merely
/// opening a device can have effects.
fn reopen(found: impl AsFd, allowed: &[FileType], flags: OFlags) -> io::Result<File> {
    let kind = FileType::from_raw_mode(fstat(&found)?.st_mode);
    match kind {
        kind if allowed.contains(&kind) => {}
        FileType::Symlink => return Err(Errno::LOOP.into()),
        FileType::Directory => return Err(Errno::ISDIR.into()),
        _ => {
            let message = "is not a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
    }
    let path = format!("/proc/self/fd/{}", found.as_fd().as_raw_fd());
    let flags = flags | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}
