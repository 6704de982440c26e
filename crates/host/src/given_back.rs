//! Check for leftovers of an ended governor, long after it failed to restore them: a later governor
//! or `wattline restore` may have done so.

use std::path::Path;
use wattline_knobs::{STATE_DIRECTORY, restore_commands};
use wattline_linux::sysfs::Tree;

/// Returns true if the journal holds no setting to restore. Returns false if the journal cannot be
/// read or another process governs the machine: the entries are that process's then.
pub fn is_given_back(tree: &Tree) -> bool {
    let state = tree.path(Path::new(STATE_DIRECTORY));
    restore_commands(tree, &state)
        .is_ok_and(|left| left.commands.is_empty() && left.bad_lines.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_knobs::{Machine, Session};

    #[test]
    fn machine_is_given_back_once_no_journal_has_settings_to_restore() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        let knob = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq";
        for (path, text) in [("/proc/sys/kernel/random/boot_id", "b"), (knob, "3000000")] {
            let path = tree.path(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        assert!(is_given_back(&tree), "nothing was changed");
        let state = tree.path(STATE_DIRECTORY);
        let begin = || Session::begin(Machine::new(&tree), &tree, &state).unwrap().0;
        let mut session = begin();
        session.set(&knob.parse().unwrap(), "1000000").unwrap();
        assert!(!is_given_back(&tree));
        // It dies, and the next one restores what it left.
        session.keep();
        drop(begin());
        assert_eq!(tree.text(knob).unwrap(), "3000000");
        assert!(is_given_back(&tree));
        std::fs::write(state.join("knobs.journal"), "garbage\n").unwrap();
        assert!(!is_given_back(&tree), "its contents are unknown");
    }
}
