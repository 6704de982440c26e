//! Recorded trees from strangers: whatever links they contain, nothing outside is written or shown.

mod common;

use common::Fixture;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::PathBuf;
use wattline_knobs::restore::Restored;
use wattline_knobs::{Machine, Session, SessionError, Setting, restore_commands, restore_now};

const KNOB: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq";
const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";

/// A recorded tree whose journal requests a write of a setting, and files outside.
struct Hostile {
    fixture: Fixture,
    outside: tempfile::TempDir,
}

impl Hostile {
    fn new() -> Self {
        let fixture = Fixture::copy("acpi-cpufreq");
        fs::create_dir_all(fixture.state()).unwrap();
        let hostile = Self { fixture, outside: tempfile::tempdir().unwrap() };
        for name in ["file", "scaling_max_freq", "knobs.journal", "knobs.lock"] {
            fs::write(hostile.outside(name), "precious\n").unwrap();
        }
        hostile.write_journal(KNOB);
        hostile
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.outside.path().join(name)
    }

    fn write_journal(&self, setting: &str) {
        let boot = self.fixture.value("/proc/sys/kernel/random/boot_id");
        let line = serde_json::json!({
            "boot": boot, "setting": setting, "old": "evil::0:0", "new": "3300000",
        });
        fs::write(self.fixture.journal(), format!("{line}\n")).unwrap();
    }

    /// Restores and begins a session, and returns true if the restore wrote `KNOB`.
    fn restore(&self) -> bool {
        let tree = &self.fixture.tree;
        let state = self.fixture.state();
        let _ = restore_commands(tree, &state);
        let report = restore_now(&mut Machine::new(tree), tree, &state);
        let _ = Session::begin(Machine::new(tree), tree, &state).map(|(mut session, _)| {
            let _ = session.set(&KNOB.parse::<Setting>().unwrap(), "1600000");
        });
        for entry in fs::read_dir(self.outside.path()).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(fs::read_to_string(&path).unwrap(), "precious\n", "{path:?}");
            assert!(path.metadata().unwrap().mode() & 0o7777 == 0o644, "{path:?}");
        }
        assert_eq!(
            fs::read_dir(self.outside.path()).unwrap().count(),
            4,
            "files were made outside"
        );
        report.is_ok_and(|report| report.lines.iter().any(|it| it.result == Restored::Restored))
    }
}

#[test]
fn journal_of_a_recorded_tree_is_restored_below_it() {
    let hostile = Hostile::new();
    assert!(hostile.restore());
    assert_eq!(hostile.fixture.value(KNOB), "evil::0:0");
}

#[test]
fn link_in_the_place_of_a_setting_or_of_a_directory_above_is_not_written_through() {
    for (link, to_file) in [
        (format!("{POLICY}/scaling_max_freq"), true),
        (POLICY.to_owned(), false),
        ("sys/devices/system/cpu".to_owned(), false),
    ] {
        for relative in [false, true] {
            let hostile = Hostile::new();
            let place = hostile.fixture.path(&link);
            let _ = fs::remove_dir_all(&place).or_else(|_| fs::remove_file(&place));
            let target =
                if to_file { hostile.outside("file") } else { hostile.outside.path().to_owned() };
            let target = if relative { climb(&target) } else { target };
            symlink(target, &place).unwrap();
            assert!(!hostile.restore(), "{link}");
        }
    }
}

/// Returns the same file by a path that climbs to the root directory.
fn climb(target: &std::path::Path) -> PathBuf {
    PathBuf::from("../".repeat(40)).join(target.strip_prefix("/").unwrap())
}

#[test]
fn link_next_to_a_setting_is_not_written_through() {
    let hostile = Hostile::new();
    let new = hostile.fixture.path(&format!("{POLICY}/scaling_max_freq.new"));
    symlink(hostile.outside("file"), new).unwrap();
    assert!(hostile.restore());
}

#[test]
fn second_name_of_a_file_outside_keeps_its_content() {
    let hostile = Hostile::new();
    let knob = hostile.fixture.path(KNOB);
    fs::remove_file(&knob).unwrap();
    fs::hard_link(hostile.outside("file"), &knob).unwrap();
    hostile.restore();
    // A lock is written in place, so a file with a second name is refused.
    let hostile = Hostile::new();
    fs::hard_link(hostile.outside("file"), hostile.fixture.state().join("knobs.lock")).unwrap();
    assert!(!hostile.restore());
}

#[test]
fn links_in_the_state_directory_are_not_followed() {
    for (name, works) in [
        ("knobs.lock", false),
        ("knobs.journal", false),
        ("knobs.journal.new", true),
        ("knobs.journal.damaged", true),
    ] {
        let hostile = Hostile::new();
        let place = hostile.fixture.state().join(name);
        let _ = fs::remove_file(&place);
        symlink(hostile.outside("file"), &place).unwrap();
        assert_eq!(hostile.restore(), works, "{name}");
        // A dangling link creates no file at its target.
        let _ = fs::remove_file(&place);
        symlink(hostile.outside("none"), &place).unwrap();
        hostile.restore();
    }
    for link in ["var/lib/wattline", "var/lib", "var"] {
        let hostile = Hostile::new();
        fs::remove_dir_all(hostile.fixture.path(link)).unwrap();
        symlink(hostile.outside.path(), hostile.fixture.path(link)).unwrap();
        assert!(!hostile.restore(), "{link}");
    }
}

#[test]
fn pipes_and_directories_in_the_state_directory_are_refused_without_waiting() {
    for name in ["knobs.lock", "knobs.journal"] {
        for is_pipe in [true, false] {
            let hostile = Hostile::new();
            let place = hostile.fixture.state().join(name);
            let _ = fs::remove_file(&place);
            match is_pipe {
                true => {
                    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                    rustix::fs::mkfifoat(rustix::fs::CWD, &place, mode).unwrap();
                }
                false => fs::create_dir(&place).unwrap(),
            }
            assert!(!hostile.restore(), "{name}");
        }
    }
}

#[test]
fn journal_with_other_files_writes_none_of_them() {
    for setting in [
        "/etc/passwd",
        "/sys/devices/system/cpu/../../../etc/passwd",
        "/sys/devices/system/cpu//cpufreq/policy0/scaling_max_freq",
        "ethtool:../rx-usecs",
        "/proc/irq/../../etc/smp_affinity_list",
    ] {
        let hostile = Hostile::new();
        hostile.write_journal(setting);
        assert!(!hostile.restore(), "{setting}");
    }
}

#[test]
fn refused_state_directory_is_named() {
    let hostile = Hostile::new();
    let lock = hostile.fixture.state().join("knobs.lock");
    symlink(hostile.outside("file"), &lock).unwrap();
    let tree = &hostile.fixture.tree;
    let refused = restore_now(&mut Machine::new(tree), tree, &hostile.fixture.state());
    let Err(SessionError::State { path, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(path, lock);
}
