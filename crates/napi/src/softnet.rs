//! Drops and cut polls of each CPU: `/proc/net/softnet_stat` (net/core/net-procfs.c,
//! `softnet_seq_show`). Each number has 32 bits and wraps.

use std::collections::BTreeMap;
use wattline_linux::sysfs::Tree;

/// Columns.
const DROPPED: usize = 1;
const SQUEEZED: usize = 2;
/// The CPU's number (Linux 5.10).
const CPU: usize = 12;

/// Counts of a CPU since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Softnet {
    /// Packets dropped because its backlog was full: packets of RPS and of devices without NAPI.
    pub dropped: u32,
    /// Soft interrupts that ended for lack of time or budget while packets waited.
    pub squeezed: u32,
}

/// Reads the counts of the online CPUs. Unknown lines are skipped.
pub fn read(tree: &Tree) -> BTreeMap<u32, Softnet> {
    let text = tree.text("/proc/net/softnet_stat").unwrap_or_default();
    text.lines().filter_map(parse).collect()
}

fn parse(line: &str) -> Option<(u32, Softnet)> {
    let words: Option<Vec<u32>> =
        line.split_ascii_whitespace().map(|word| u32::from_str_radix(word, 16).ok()).collect();
    let words = words?;
    let softnet = Softnet { dropped: *words.get(DROPPED)?, squeezed: *words.get(SQUEEZED)? };
    Some((*words.get(CPU)?, softnet))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_by_number_of_the_cpu() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/net")).unwrap();
        let line = |dropped, squeezed, cpu| {
            format!(
                "00000010 {dropped:08x} {squeezed:08x}{} {cpu:08x} 0 0\n",
                " 00000000".repeat(9)
            )
        };
        let text = line(3, 17, 0) + "nonsense\n" + &line(0, u32::MAX, 2);
        std::fs::write(root.path().join("proc/net/softnet_stat"), text).unwrap();
        let expected = [
            (0, Softnet { dropped: 3, squeezed: 17 }),
            (2, Softnet { dropped: 0, squeezed: u32::MAX }),
        ];
        assert_eq!(read(&Tree::at(root.path())), BTreeMap::from(expected));
        assert!(read(&Tree::at("/nowhere")).is_empty());
        assert!(!read(&Tree::live()).is_empty());
    }
}
