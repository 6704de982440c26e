//! A copy of a recorded machine that a test may change, for every crate that reads or sets one.
#![allow(dead_code, reason = "each user takes a part of it")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wattline_linux::sysfs::Tree;

pub struct Fixture {
    pub root: TempDir,
    pub tree: Tree,
}

impl Fixture {
    /// Creates a machine without files.
    pub fn empty() -> Self {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::at(root.path());
        Self { root, tree }
    }

    /// Copies this folder.
    pub fn from_folder(folder: &Path) -> Self {
        let fixture = Self::empty();
        copy(folder, fixture.root.path());
        fixture
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub fn write(&self, path: &str, value: impl std::fmt::Display) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    }

    pub fn value(&self, path: &str) -> String {
        self.tree.text(path).unwrap()
    }

    pub fn files(&self) -> Vec<PathBuf> {
        files(&self.path(""))
    }

    /// Returns all files below `sys`, `ethtool` and `napi` with their contents.
    pub fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let folders = ["sys", "ethtool", "napi"].map(|top| self.path(top));
        let paths = folders.iter().flat_map(|folder| files(folder));
        paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
    }
}

pub fn copy(from: &Path, to: &Path) {
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

/// Returns all files below a folder; none without such a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}
