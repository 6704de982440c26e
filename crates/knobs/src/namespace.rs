//! Network namespaces, by the inodes of their files (namespaces(7)).

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use wattline_linux::sysfs::Tree;

/// Returns the number of this thread's; recorded trees have none.
pub fn present(tree: &Tree) -> Option<u64> {
    tree.is_live().then(|| number("/proc/thread-self/ns/net")).flatten()
}

/// Reads the number of the namespace that a file stands for.
fn number(path: impl AsRef<Path>) -> Option<u64> {
    std::fs::metadata(path).ok().map(|file| file.ino())
}

/// Whether a process is in a namespace, or a name below `/run/netns` keeps it.
pub fn exists(namespace: u64) -> bool {
    let inside = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let processes = inside("/proc").map(|process| process.path().join("ns/net"));
    let names = inside("/run/netns").map(|name| name.path());
    processes.chain(names).any(|path| number(path) == Some(namespace))
}
