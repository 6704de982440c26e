//! A copy of a fixture, and drivers that misbehave.
#![allow(dead_code, reason = "each test file uses a part of it")]

mod fixture;

pub use fixture::Fixture;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use wattline_knobs::{Access, AccessError, Machine, Session, Setting};
use wattline_linux::sysfs::Tree;

impl Fixture {
    pub fn copy(name: &str) -> Self {
        Self::from_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name))
    }

    pub fn state(&self) -> PathBuf {
        self.path("var/lib/wattline")
    }

    pub fn journal(&self) -> PathBuf {
        self.state().join("knobs.journal")
    }

    pub fn reboot(&self) {
        let other = "00000000-0000-4000-8000-000000000002";
        self.write("proc/sys/kernel/random/boot_id", other);
    }

    pub fn session(&self) -> Session<Driver> {
        Session::begin(Driver::new(self), &self.tree, &self.state()).unwrap().0
    }

    pub fn put_back(&self, snapshot: &BTreeMap<PathBuf, Vec<u8>>) {
        for (path, bytes) in snapshot {
            fs::write(path, bytes).unwrap();
        }
    }
}

/// Effect of a write in a test: `None` refuses it, otherwise this value is stored.
type Rule = dyn Fn(&Tree, &Setting, &str) -> Option<String>;

/// The files of a fixture behind a driver that keeps a log of writes and may alter or refuse them.
pub struct Driver {
    machine: Machine,
    pub log: Rc<RefCell<Vec<String>>>,
    rule: Box<Rule>,
}

impl Driver {
    pub fn new(fixture: &Fixture) -> Self {
        Self::with_rule(fixture, |_, _, value| Some(value.to_string()))
    }

    pub fn with_rule(
        fixture: &Fixture,
        rule: impl Fn(&Tree, &Setting, &str) -> Option<String> + 'static,
    ) -> Self {
        Self { machine: Machine::new(&fixture.tree), log: Rc::default(), rule: Box::new(rule) }
    }
}

impl Access for Driver {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        self.machine.read(setting)
    }

    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError> {
        let short = setting.to_string().replace("/sys/devices/system/cpu/", "");
        self.log.borrow_mut().push(format!("{short} = {value}"));
        match (self.rule)(self.machine.tree(), setting, value) {
            Some(value) => self.machine.write(setting, &value),
            None => Err(AccessError::Refused {
                setting: setting.clone(),
                reason: "Invalid argument".into(),
            }),
        }
    }
}

/// Enforces that frequency limits do not cross, as the kernel does.
pub fn limits_may_not_cross(tree: &Tree, setting: &Setting, value: &str) -> Option<String> {
    let path = setting.to_string();
    let other = |from: &str, to: &str| {
        path.ends_with(from).then(|| tree.number::<u64>(path.replace(from, to)).unwrap())
    };
    let asked = value.parse::<u64>().ok();
    let crosses = match (other("max_freq", "min_freq"), other("min_freq", "max_freq")) {
        (Some(minimum), _) => asked.is_some_and(|maximum| maximum < minimum),
        (_, Some(maximum)) => asked.is_some_and(|minimum| minimum > maximum),
        _ => false,
    };
    (!crosses).then(|| value.to_string())
}
