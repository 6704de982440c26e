//! Access to files, and the drivers of interfaces.

use rustix::fs::Access;
use wattline_linux::sysfs::Tree;

/// Returns true if a file exists and is writable, also by its file system.
pub(super) fn may_write(tree: &Tree, path: &str) -> bool {
    rustix::fs::access(tree.path(path), Access::WRITE_OK).is_ok()
}

/// Returns the driver of an interface.
pub(super) fn driver(tree: &Tree, interface: &str) -> Option<String> {
    let link = tree.path(format!("/sys/class/net/{interface}/device/driver"));
    let target = std::fs::read_link(link).ok()?;
    Some(target.file_name()?.to_str()?.to_owned())
}
