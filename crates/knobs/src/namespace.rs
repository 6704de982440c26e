//! The network namespace of a change, by its number.

use wattline_linux::namespace::{number, own_number};
use wattline_linux::sysfs::Tree;

/// Returns the number of this thread's namespace; recorded trees have none.
pub fn present(tree: &Tree) -> Option<u64> {
    tree.is_live().then(|| own_number().ok()).flatten()
}

/// Returns true if a process is in a namespace, or a name below `/run/netns` keeps it.
pub fn exists(namespace: u64) -> bool {
    let inside = |folder: &str| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let processes = inside("/proc").map(|process| process.path().join("ns/net"));
    let names = inside("/run/netns").map(|name| name.path());
    processes.chain(names).any(|path| number(path).is_ok_and(|number| number == namespace))
}
