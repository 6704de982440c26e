//! Trees of machines, for the tests of the platform `host`.
#![allow(dead_code, reason = "each test file uses a part of it")]

#[path = "../../../knobs/tests/common/copy.rs"]
mod copy;

use copy::copy;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use wattline_governor::machine::{Machine, Taken};
use wattline_governor::step::between;
use wattline_host::{Host, HostOptions, Layout, NoWorkers, Port, Scope};
use wattline_knobs::{Machine as Settings, Session};
use wattline_linux::privileges::Rights;
use wattline_linux::sysfs::Tree;
use wattline_policy::OperatingPoint;

pub const CPUS: &str = "/sys/devices/system/cpu";

pub struct Fixture {
    pub root: TempDir,
    pub tree: Tree,
}

impl Fixture {
    pub fn copy(name: &str) -> Self {
        let knobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../knobs/tests/fixtures");
        let root = tempfile::tempdir().unwrap();
        copy(&knobs.join(name), root.path());
        let tree = Tree::at(root.path());
        Self { root, tree }
    }

    /// With a card of four queues.
    pub fn with_card(name: &str) -> Self {
        let fixture = Self::copy(name);
        fixture.write("/ethtool/eth9/redirect-table", &["0,1,2,3"; 32].join(","));
        fixture.write("/ethtool/eth9/combined-channels", "4");
        fixture
    }

    pub fn write(&self, path: &str, value: &str) {
        let path = self.tree.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{value}\n")).unwrap();
    }

    pub fn value(&self, path: &str) -> String {
        self.tree.text(path).unwrap()
    }

    pub fn session(&self) -> Session<Settings> {
        let state = self.tree.path("/var/lib/wattline");
        Session::begin(Settings::new(&self.tree), &self.tree, &state).unwrap().0
    }

    pub fn options(&self, cpus: &[u32]) -> HostOptions {
        let port = Port { interface: Some("eth9".into()), queues: 4, cores: Vec::new() };
        HostOptions {
            tree: self.tree.clone(),
            layout: Layout { workers: 2, cpus: cpus.to_vec(), ports: vec![port] },
            ring_size: Some(2048),
            busy_poll: false,
            sample: wattline_units::Span::from_millis(1),
            uncore: false,
            meters: false,
            rights: Rights::ALL,
            override_limits: false,
            may_raise: true,
            preferences: false,
            scope: Scope::ROUTER,
        }
    }

    pub fn host(&self, cpus: &[u32]) -> Host<Session<Settings>> {
        Host::new(self.options(cpus), self.session(), Box::new(NoWorkers)).unwrap()
    }

    pub fn host_of_one(&self) -> Host<Session<Settings>> {
        let mut options = self.options(&[0]);
        options.layout.workers = 1;
        Host::new(options, self.session(), Box::new(NoWorkers)).unwrap()
    }

    pub fn snapshot(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        for top in ["sys", "ethtool", "napi"] {
            collect(&self.root.path().join(top), &mut files);
        }
        files
    }

    pub fn table(&self) -> Vec<u32> {
        let text = self.value("/ethtool/eth9/redirect-table");
        text.split(',').map(|queue| queue.parse().unwrap()).collect()
    }
}

pub fn collect(directory: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(directory).into_iter().flatten().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            collect(&entry.path(), files);
        } else {
            files.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
}

pub fn take_all(host: &mut impl Machine, from: &OperatingPoint, to: &OperatingPoint) {
    let mut steps = Vec::new();
    between(&host.platform().clone(), from, to, &mut steps);
    for step in &steps {
        assert_eq!(host.take(step), Taken::Done, "{step:?}");
    }
}
