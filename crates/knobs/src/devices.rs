//! Interfaces by their numbers, which survive a renaming.

use crate::journal::Entry;
use crate::mask::NET;
use crate::setting::Setting;
use wattline_linux::sysfs::Tree;

/// Returns the number of a setting's interface.
pub fn number(tree: &Tree, setting: &Setting) -> Option<u32> {
    named(tree, setting.interface()?)
}

fn named(tree: &Tree, interface: &str) -> Option<u32> {
    tree.number(format!("{NET}{interface}/ifindex")).ok()
}

/// Finds an entry under the present name of its interface; `None` if that has gone.
pub fn present(tree: &Tree, entry: &Entry) -> Option<Entry> {
    let mut entry = entry.clone();
    if entry.device.is_some() && number(tree, &entry.setting) != entry.device {
        let names = tree.entries(NET).into_iter();
        let name = names.into_iter().find(|name| named(tree, name) == entry.device)?;
        entry.setting.rename(name);
    }
    Some(entry)
}
