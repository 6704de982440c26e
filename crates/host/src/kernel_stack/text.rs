//! Files of the kernel that are read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use wattline_linux::sysfs::Tree;

/// A kernel file that is read repeatedly without being reopened or reallocated.
pub(super) struct Text {
    tree: Tree,
    path: String,
    /// Stays open on the running machine; a recording may replace the file each time.
    file: Option<File>,
    buffer: Vec<u8>,
}

impl Text {
    pub fn new(tree: &Tree, path: &str) -> Self {
        Self { tree: tree.clone(), path: path.to_owned(), file: None, buffer: vec![0; 256] }
    }

    /// Returns the number in the file.
    pub fn number(&mut self) -> Option<u64> {
        self.read().trim().parse().ok()
    }

    /// Returns the present text; empty if it cannot be read.
    pub fn read(&mut self) -> &str {
        /// Size for more than a thousand CPUs.
        const MOST: usize = 4 << 20;
        if self.file.is_none() || !self.tree.is_live() {
            self.file = self.tree.open(&self.path).ok();
        }
        let Some(file) = &self.file else { return "" };
        let mut length = 0;
        loop {
            let room = self.buffer.len() - length;
            match file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => break,
                Ok(more) => {
                    length += more;
                    if is_last(more, room) {
                        break;
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => {
                    // As for an interface that has gone and may come back.
                    self.file = None;
                    return "";
                }
            }
            if length == self.buffer.len() {
                if length >= MOST {
                    break;
                }
                self.buffer.resize(2 * length, 0);
            }
        }
        std::str::from_utf8(&self.buffer[..length]).unwrap_or_default()
    }
}

/// Returns true if a read of `bytes` into more room was the last. One more read would show it, but
/// costs half as much as reading a small file. A file of lines (seq_file(9)) stops short if its
/// next line does not fit into the rest of a page; with this much room left, it has ended.
fn is_last(bytes: usize, room: usize) -> bool {
    const SMALLEST_PAGE: usize = 4096;
    const LONGEST_LINE: usize = 512;
    bytes < room && bytes <= SMALLEST_PAGE - LONGEST_LINE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_any_length_are_read_whole() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        let mut file = Text::new(&tree, "/file");
        assert_eq!(file.read(), "", "there is none");
        for length in [0, 1, 255, 256, 257, 511, 512, 3583, 3584, 3585, 4096, 10_000, 100] {
            let text = "x".repeat(length);
            std::fs::write(tree.path("/file"), &text).unwrap();
            assert!(file.read() == text, "{length}");
        }
        std::fs::write(tree.path("/file"), " 17\n").unwrap();
        assert_eq!(file.number(), Some(17));
        // The kernel's own files, which do not report their length.
        let live = Tree::live();
        let mut own = Text::new(&live, "/proc/self/status");
        let expected = std::fs::read_to_string("/proc/self/status").unwrap();
        assert_eq!(own.read().lines().count(), expected.lines().count());
        let mut maps = Text::new(&live, "/proc/self/maps");
        let lines = maps.read().lines().count();
        assert!(
            lines.abs_diff(std::fs::read_to_string("/proc/self/maps").unwrap().lines().count()) < 5
        );
    }
}
