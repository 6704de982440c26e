//! A copy of a fixture that a test may change.

#[path = "../../../knobs/tests/common/copy.rs"]
mod copy;

use copy::copy;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wattline_linux::sysfs::Tree;

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
