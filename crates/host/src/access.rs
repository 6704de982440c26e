//! What may be written.

use rustix::fs::Access;
use wattline_linux::sysfs::Tree;

/// Whether a file is there and may be written, also by its file system.
pub(super) fn may_write(tree: &Tree, path: &str) -> bool {
    rustix::fs::access(tree.path(path), Access::WRITE_OK).is_ok()
}
