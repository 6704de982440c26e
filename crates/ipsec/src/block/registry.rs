//! Configuration files of the owners of blocking policies: the kernel has only a number for each.
//!
//! One file below `/run` for each owner holds the path of its configuration. It lasts as long as
//! the policies: both end with the machine. If it cannot be written, policies stay until they are
//! removed by name.

use std::ffi::OsStr;
use std::fs::{DirBuilder, read, remove_file, write};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use wattline_linux::netlink::xfrm::BlockOwner;

const FOLDER: &str = "/run/wattline/block";

fn entry(owner: BlockOwner) -> PathBuf {
    Path::new(FOLDER).join(format!("{:08x}", owner.number()))
}

/// Notes the configuration of an owner.
pub fn note(owner: BlockOwner, file: &Path) {
    let folder = DirBuilder::new().recursive(true).mode(0o755).create(FOLDER);
    let noted = folder.and_then(|()| write(entry(owner), file.as_os_str().as_bytes()));
    if let Err(error) = noted {
        tracing::debug!("{FOLDER}: {error}");
    }
}

/// Forgets an owner that has no policies any more.
pub fn forget(owner: BlockOwner) {
    // It may never have been noted.
    let _ = remove_file(entry(owner));
}

/// Returns the configuration of an owner.
pub fn configuration(owner: BlockOwner) -> Option<PathBuf> {
    Some(OsStr::from_bytes(&read(entry(owner)).ok()?).into())
}

/// Returns true if the configuration of an owner is known not to exist any more.
pub fn is_removed(owner: BlockOwner) -> bool {
    let exists = configuration(owner).map(|file| file.symlink_metadata());
    exists.is_some_and(|it| it.is_err_and(|error| error.kind() == io::ErrorKind::NotFound))
}
