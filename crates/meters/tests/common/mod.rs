//! A copy of a fixture that a test may change.

use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wattline_kernel::sysfs::Tree;

pub struct Fixture {
    root: TempDir,
    pub tree: Tree,
}

impl Fixture {
    pub fn copy(name: &str) -> Self {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
        let root = tempfile::tempdir().unwrap();
        copy(&from, root.path());
        let tree = Tree::at(root.path());
        Self { root, tree }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub fn write(&self, path: &str, value: impl ToString) {
        fs::write(self.path(path), value.to_string() + "\n").unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
