//! Disks that fail at any call: at every moment of a crash, the file leads back; an orderly end
//! leads back without it.

use super::*;
use crate::journal::disk::Disk;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const BOOT: &str = "boot-a";
const POLICY: &str = "/sys/devices/system/cpu/cpufreq/policy0";

/// Result of the next call to the disk.
#[derive(Debug, Clone, Copy)]
enum Fault {
    None,
    /// Nothing is done, or this many bytes of a line.
    Fails(usize),
    /// Nothing is done, by this call and the following ones.
    Dead(u8),
}

#[derive(Debug, Default)]
struct Failing {
    file: Vec<u8>,
    faults: Vec<Fault>,
    dead: u8,
}

impl Failing {
    /// Returns the number of bytes to write before the call fails.
    fn call(&mut self) -> Result<(), (usize, io::Error)> {
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        if self.dead > 0 {
            self.dead -= 1;
            return Err((0, full()));
        }
        match self.faults.pop().unwrap_or(Fault::None) {
            Fault::None => Ok(()),
            Fault::Fails(done) => Err((done, full())),
            Fault::Dead(calls) => {
                self.dead = calls;
                Err((0, full()))
            }
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<Failing>>);

impl Disk for Shared {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        let (done, result) = match disk.call() {
            Ok(()) => (bytes.len(), Ok(())),
            Err((done, error)) => (done.min(bytes.len() - 1), Err(error)),
        };
        disk.file.extend(&bytes[..done]);
        result
    }
    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.call().map_err(|(_, error)| error)?;
        assert!(disk.file.len() as u64 >= length, "a file of zeros");
        disk.file.truncate(usize::try_from(length).unwrap());
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        self.0.lock().unwrap().call().map_err(|(_, error)| error)
    }
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.call().map_err(|(_, error)| error)?;
        disk.file = bytes.to_vec();
        Ok(())
    }
    fn sync_name(&mut self) -> io::Result<()> {
        self.sync()
    }
}

/// Settings in memory behind a driver that rounds down, and a governor that moves the limit of its
/// policy; each write checks that a crash now would lead back.
#[derive(Debug)]
struct Watched {
    values: BTreeMap<Setting, String>,
    before: BTreeMap<Setting, String>,
    disk: Shared,
}

const SETTINGS: [(&str, &str); 4] = [
    ("/scaling_governor", "schedutil"),
    ("/scaling_max_freq", "3300"),
    ("/scaling_min_freq", "1600"),
    ("ethtool:eth9/rx-usecs", "3"),
];

fn setting(index: usize) -> Setting {
    let name = SETTINGS[index].0;
    if name.starts_with('/') { format!("{POLICY}{name}") } else { name.into() }.parse().unwrap()
}

fn make(values: &mut BTreeMap<Setting, String>, setting_: &Setting, value: &str) {
    let rounded = |value: u64| if value % 100 == 3 { value } else { value / 100 * 100 };
    let made = value.parse().map_or_else(|_| value.to_owned(), |v: u64| rounded(v).to_string());
    values.insert(setting_.clone(), made);
    if *setting_ == setting(0) {
        let follows = if value == "powersave" { "1600" } else { "3300" };
        values.insert(setting(1), follows.into());
    }
}

impl Watched {
    /// Returns the settings after a restore if everything stopped now.
    fn after_a_crash(&self) -> BTreeMap<Setting, String> {
        let contents = journal::parse(&self.disk.0.lock().unwrap().file, BOOT);
        // An incompletely written line that could not yet be cut off: its write never began.
        assert!(contents.bad_lines.len() <= 1, "{:?}", contents.bad_lines);
        assert!(contents.bad_lines.iter().all(|line| line.contains("incomplete")));
        let mut machine = Plain(self.values.clone());
        restore::restore(&mut machine, &contents.entries);
        machine.0
    }
}

impl Access for Watched {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        Ok(self.values[setting].clone())
    }
    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError> {
        assert_eq!(self.after_a_crash(), self.before, "before {setting} = {value}");
        make(&mut self.values, setting, value);
        Ok(())
    }
}

struct Plain(BTreeMap<Setting, String>);

impl Access for Plain {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        Ok(self.0[setting].clone())
    }
    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError> {
        make(&mut self.0, setting, value);
        Ok(())
    }
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        6 => Just(Fault::None),
        2 => (0usize..200).prop_map(Fault::Fails),
        1 => (0u8..6).prop_map(Fault::Dead),
    ]
}

fn session(faults: Vec<Fault>, state: &Path) -> Session<Watched> {
    let tree = Tree::at(state);
    let boot_id = tree.path("/proc/sys/kernel/random/boot_id");
    std::fs::create_dir_all(boot_id.parent().unwrap()).unwrap();
    std::fs::write(boot_id, BOOT).unwrap();
    let values: BTreeMap<_, _> =
        (0..SETTINGS.len()).map(|index| (setting(index), SETTINGS[index].1.to_string())).collect();
    let disk = Shared::default();
    let access = Watched { before: values.clone(), values, disk: disk.clone() };
    let (mut session, _) = Session::begin(access, &tree, state).unwrap();
    session.journal =
        Journal::on(Box::new(disk.clone()), &journal::path(&session.state.directory), BOOT);
    // The settings that the governor moves are known beforehand.
    assert_eq!(session.set(&setting(1), "2000").unwrap(), Outcome::Written);
    disk.0.lock().unwrap().faults = faults;
    session
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn failing_disk_loses_no_old_value(
        faults in prop::collection::vec(fault(), 0..60),
        writes in prop::collection::vec((0..SETTINGS.len(), 0..5usize), 1..30),
    ) {
        let state = tempfile::tempdir().unwrap();
        let mut session = session(faults, state.path());
        for (index, choice) in writes {
            let value = match index {
                0 => ["powersave", "performance", "schedutil"][choice % 3].to_string(),
                3 => ["3", "203", "150", "170", "403"][choice].to_string(),
                _ => ["1600", "2450", "3300", "2471", "2000"][choice].to_string(),
            };
            let shown = session.access.values.clone();
            match session.set(&setting(index), &value) {
                Ok(Outcome::Written) => prop_assert_eq!(&session.access.values[&setting(index)], &value),
                Ok(Outcome::Unchanged | Outcome::Altered { .. }) => {}
                Ok(Outcome::Foreign { found }) => prop_assert!(false, "{found} was set here"),
                Err(SetError::Journal(_)) => prop_assert_eq!(&session.access.values, &shown),
                Err(SetError::NotRecorded { present: back, .. }) => {
                    prop_assert_eq!(&back, &shown.get(&setting(index)).cloned());
                }
                Err(other) => prop_assert!(false, "{other}"),
            }
            prop_assert_eq!(session.access.after_a_crash(), session.access.before.clone());
        }
        prop_assert!(session.foreign().is_empty());
        let report = session.restore();
        prop_assert!(report.failures().next().is_none());
        prop_assert_eq!(&session.access.values, &session.access.before);
        session.over = true;
    }
}
