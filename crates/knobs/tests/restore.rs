//! The machine is restored after anything: exit, crash at any byte, foreign changes, reboots, CPUs
//! that vanish, drivers that refuse.

mod common;
mod full_disk;

use common::{Driver, Fixture, limits_may_not_cross};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use wattline_knobs::restore::{self, Restored};
use wattline_knobs::{
    Access, AccessError, Machine, Outcome, Session, SessionError, SetError, Setting, journal,
    restore_commands, restore_now,
};

const SETTINGS: [&str; 8] = [
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq",
    "/sys/devices/system/cpu/cpufreq/policy1/scaling_max_freq",
    "/sys/devices/system/cpu/cpu0/cpuidle/state2/disable",
    "/sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us",
    "ethtool:eth9/adaptive-rx",
    "ethtool:eth9/rx-usecs",
];

fn setting(index: usize) -> Setting {
    SETTINGS[index].parse().unwrap()
}

fn undo(fixture: &Fixture) -> wattline_knobs::restore::Report {
    restore_now(&mut Machine::new(&fixture.tree), &fixture.tree, &fixture.state()).unwrap()
}

#[test]
fn the_old_value_is_on_disk_before_the_new_one_is_written() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let journal = fixture.journal();
    let driver = Driver::with_rule(&fixture, move |_, setting, value| {
        let text = fs::read_to_string(&journal).unwrap();
        let last = text.lines().last().unwrap();
        assert!(last.contains(&setting.to_string()) && last.contains(value), "{last}");
        assert!(last.contains("\"old\":\"3300000\"") && last.contains("\"boot\":\"00000000-"));
        Some(value.to_string())
    });
    let (mut session, _) = Session::begin(driver, &fixture.tree, &fixture.state()).unwrap();
    assert_eq!(session.set(&setting(2), "2400000").unwrap(), Outcome::Written);
    assert_eq!(session.set(&setting(2), "2400000").unwrap(), Outcome::Unchanged);
    session.keep();
}

#[test]
fn the_end_of_a_session_restores_in_reverse_order() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let before = fixture.snapshot();
    let driver = Driver::new(&fixture);
    let log = driver.log.clone();
    let (mut session, _) = Session::begin(driver, &fixture.tree, &fixture.state()).unwrap();
    session.set(&setting(0), "userspace").unwrap();
    session.set(&setting(6), "0").unwrap();
    session.set(&setting(7), "100").unwrap();
    log.borrow_mut().clear();
    drop(session);
    let expected = [
        "ethtool:eth9/rx-usecs = 3",
        "ethtool:eth9/adaptive-rx = 1",
        "cpufreq/policy0/scaling_governor = schedutil",
    ];
    assert_eq!(*log.borrow(), expected);
    assert_eq!(fixture.snapshot(), before);
    assert!(!fixture.journal().exists());
}

#[test]
fn an_interface_is_restored_under_its_present_name_and_another_of_its_old_name_is_not() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let usecs = |name: &str| format!("/ethtool/{name}/rx-usecs");
    let number = |name: &str, number: &str| {
        fixture.write(&format!("/sys/class/net/{name}/ifindex"), number);
    };
    let rename = |from: &str, to: &str| {
        for folder in ["/ethtool/", "/sys/class/net/"] {
            let at = |name: &str| fixture.tree.path(format!("{folder}{name}"));
            fs::rename(at(from), at(to)).unwrap();
        }
    };
    for killed in [false, true] {
        number("eth9", "7");
        fixture.write(&usecs("eth9"), "3");
        let machine = Machine::new(&fixture.tree);
        let (mut session, _) = Session::begin(machine, &fixture.tree, &fixture.state()).unwrap();
        session.set(&setting(7), "100").unwrap();
        rename("eth9", "wan7");
        number("eth9", "8");
        fixture.write(&usecs("eth9"), "100");
        assert_eq!(session.foreign(), [], "another interface's");
        assert_eq!(session.set(&setting(7), "200").unwrap(), Outcome::Written);
        if killed {
            session.keep();
            let commands = restore_commands(&fixture.tree, &fixture.state()).unwrap().commands;
            assert_eq!(commands, ["ethtool -C eth9 rx-usecs 100", "ethtool -C wan7 rx-usecs 3"]);
            assert!(undo(&fixture).is_clean());
        } else {
            drop(session);
        }
        for (name, value) in [("wan7", "3"), ("eth9", "100")] {
            assert_eq!(fixture.tree.text(usecs(name)).unwrap(), value, "{name}, killed: {killed}");
        }
        // The first is deleted, and the other has its name.
        fs::remove_dir_all(fixture.tree.path("/sys/class/net/wan7")).unwrap();
        fs::remove_dir_all(fixture.tree.path("/ethtool/wan7")).unwrap();
    }
}

#[test]
fn interdependent_limits_come_back() {
    let fixture = Fixture::copy("acpi-cpufreq");
    fixture.write(SETTINGS[1], "2400000");
    let before = fixture.snapshot();
    let driver = Driver::with_rule(&fixture, limits_may_not_cross);
    let (mut session, _) = Session::begin(driver, &fixture.tree, &fixture.state()).unwrap();
    session.set(&setting(1), "1600000").unwrap();
    session.set(&setting(2), "1600000").unwrap();
    // Raised and lowered once more, so that no order of single writes is the reverse.
    session.set(&setting(2), "3300000").unwrap();
    session.set(&setting(1), "3300000").unwrap();
    session.set(&setting(1), "1600000").unwrap();
    session.set(&setting(2), "1600000").unwrap();
    let report = session.finish();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(fixture.snapshot(), before);
}

/// intel_pstate: the governor `performance` locks the preference, and leaving it restores the
/// earlier preference.
#[test]
fn preference_locked_by_its_governor_is_no_failure() {
    let fixture = Fixture::copy("intel-pstate-hwp");
    let before = fixture.snapshot();
    let policy = "/sys/devices/system/cpu/cpufreq/policy0";
    let preference = fixture.path(&format!("{policy}/energy_performance_preference"));
    let governor = format!("{policy}/scaling_governor");
    let driver = Driver::with_rule(&fixture, move |tree, setting, value| {
        let locked = tree.text(&governor).unwrap() == "performance";
        if setting.to_string() == governor {
            let follows = if value == "performance" { value } else { "balance_performance" };
            fs::write(&preference, format!("{follows}\n")).unwrap();
        } else if locked {
            return None;
        }
        Some(value.to_string())
    });
    let (mut session, _) = Session::begin(driver, &fixture.tree, &fixture.state()).unwrap();
    let policy = &wattline_knobs::cpufreq::find(&fixture.tree).0[0];
    for outcome in session.apply(&policy.prefer("power").unwrap()) {
        assert_eq!(outcome.unwrap(), Outcome::Written);
    }
    // The session's own change of the governor moves the preference: no foreign change.
    for change in policy.govern("performance").unwrap() {
        assert_eq!(session.set(&change.setting, &change.value).unwrap(), Outcome::Written);
    }
    for outcome in session.apply(&policy.prefer("power").unwrap()) {
        assert_eq!(outcome.unwrap(), Outcome::Written);
    }
    let report = session.finish();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(fixture.snapshot(), before);
    assert!(!fixture.journal().exists());
}

#[test]
fn value_changed_by_the_driver_is_reported_and_restored() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let before = fixture.snapshot();
    let steps = |_: &_, _: &Setting, value: &str| {
        let usecs: u64 = value.parse().unwrap();
        Some((usecs / 2 * 2).to_string())
    };
    fixture.write("ethtool/eth9/rx-usecs", "4");
    let driver = Driver::with_rule(&fixture, steps);
    let (mut session, _) = Session::begin(driver, &fixture.tree, &fixture.state()).unwrap();
    let outcome = session.set(&setting(7), "25").unwrap();
    assert_eq!(outcome, Outcome::Altered { found: "24".into() });
    assert_eq!(session.set(&setting(7), "30").unwrap(), Outcome::Written);
    drop(session);
    assert_eq!(fixture.value("ethtool/eth9/rx-usecs"), "4");
    assert_ne!(fixture.snapshot(), before, "the fixture itself had 3");
}

#[test]
fn foreign_value_is_reported_and_left() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let mut session = fixture.session();
    session.set(&setting(2), "2400000").unwrap();
    session.set(&setting(7), "50").unwrap();
    fixture.write(SETTINGS[2], "1600001");
    let outcome = session.set(&setting(2), "3300000").unwrap();
    assert_eq!(outcome, Outcome::Foreign { found: "1600001".into() });
    let report = session.finish();
    assert!(!report.is_clean());
    let foreign = &report.lines[1];
    assert_eq!(foreign.result, Restored::Foreign { found: "1600001".into() });
    assert!(foreign.to_string().contains("echo 3300000 > /sys/"), "{foreign}");
    assert_eq!(fixture.value(SETTINGS[2]), "1600001");
    assert_eq!(fixture.value("ethtool/eth9/rx-usecs"), "3");
}

#[test]
fn second_writer_is_refused_and_the_first_is_named() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let session = fixture.session();
    let second = Session::begin(Driver::new(&fixture), &fixture.tree, &fixture.state());
    let Err(error @ SessionError::Busy { .. }) = second else { panic!("not refused") };
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
    drop(session);
    drop(fixture.session());
}

#[test]
fn after_a_reboot_nothing_is_undone() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let mut session = fixture.session();
    session.set(&setting(2), "2400000").unwrap();
    session.keep();
    fixture.reboot();
    let report = undo(&fixture);
    assert_eq!((report.lines.len(), report.outlived), (0, 2));
    assert_eq!(fixture.value(SETTINGS[2]), "2400000", "set under this boot");
    assert!(!fixture.journal().exists());
}

#[test]
fn vanished_cpu_takes_its_changes_along() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let mut session = fixture.session();
    session.set(&setting(5), "n/a").unwrap();
    session.set(&setting(7), "50").unwrap();
    fs::remove_dir_all(fixture.path("sys/devices/system/cpu/cpu1")).unwrap();
    let gone = session.set(&setting(5), "60").unwrap_err();
    assert!(matches!(gone, SetError::Access(AccessError::Missing(_))), "{gone}");
    let report = session.finish();
    assert!(report.is_clean());
    assert_eq!(report.lines[1].result, Restored::Gone);
    assert!(!fixture.path(SETTINGS[5]).exists(), "not created");
}

/// An interface of the same name may be here, with the very value that was set there.
#[test]
fn interfaces_of_another_network_namespace_are_not_touched() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let mut session = fixture.session();
    session.set(&setting(2), "2400000").unwrap();
    session.set(&setting(7), "50").unwrap();
    session.keep();
    let text = fs::read_to_string(fixture.journal()).unwrap();
    let of_interface = |line: &str| line.contains("ethtool") && line.contains("old");
    let moved = |line: &str| match of_interface(line) {
        true => line.replace('}', ",\"namespace\":7}"),
        false => line.to_owned(),
    };
    let text: Vec<String> = text.lines().map(|line| moved(line) + "\n").collect();
    fs::write(fixture.journal(), text.concat()).unwrap();
    let report = undo(&fixture);
    assert_eq!(report.lines[0].result, Restored::Restored);
    assert_eq!(report.lines[1].result, Restored::Elsewhere { namespace: 7 });
    assert_eq!((report.failures().count(), report.is_clean()), (1, false));
    assert_eq!(fixture.value("ethtool/eth9/rx-usecs"), "50");
    assert!(report.lines[1].to_string().contains("net:[7]"), "{}", report.lines[1]);
    assert!(fixture.journal().exists(), "for a restore over there");
}

#[test]
fn refusing_driver_leaves_no_trace_and_failed_restore_keeps_the_journal() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let refusing =
        Driver::with_rule(&fixture, |_, _, value| (value == "2400000").then(|| value.to_string()));
    let (mut session, _) = Session::begin(refusing, &fixture.tree, &fixture.state()).unwrap();
    assert!(matches!(session.set(&setting(7), "9"), Err(SetError::Access(_))));
    assert_eq!(session.set(&setting(2), "2400000").unwrap(), Outcome::Written);
    let report = session.finish();
    assert_eq!(report.failures().count(), 1, "{report:?}");
    assert!(fixture.journal().exists());
    // A new session under a driver that still refuses does not lose the old value.
    let refusing = Driver::with_rule(&fixture, |_, _, _| None);
    let begun = Session::begin(refusing, &fixture.tree, &fixture.state());
    assert!(matches!(begun, Err(SessionError::Unrestored(..))));
    // A working driver restores.
    drop(fixture.session());
    assert_eq!(fixture.value(SETTINGS[2]), "3300000");
}

#[test]
fn control_characters_and_several_lines_are_never_written() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let mut session = fixture.session();
    assert!(matches!(session.set(&setting(0), "a\nb"), Err(SetError::BadValue(_))));
    fixture.write(SETTINGS[0], "two\nlines");
    assert!(matches!(session.set(&setting(0), "b"), Err(SetError::BadValue(_))));
}

#[test]
fn damaged_lines_are_reported_and_kept_and_the_rest_is_restored() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let mut session = fixture.session();
    session.set(&setting(2), "2400000").unwrap();
    session.keep();
    let text = fs::read_to_string(fixture.journal()).unwrap();
    fs::write(fixture.journal(), format!("\0\0\0\n{text}")).unwrap();
    let report = undo(&fixture);
    assert_eq!((report.bad_lines.len(), report.lines.len()), (1, 1));
    assert_eq!(fixture.value(SETTINGS[2]), "3300000");
    assert!(fixture.journal().with_extension("journal.damaged").exists());
}

#[test]
fn commands_undo_the_session_by_hand() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let mut session = fixture.session();
    session.set(&setting(0), "powersave").unwrap();
    session.set(&setting(6), "0").unwrap();
    session.set(&setting(7), "100").unwrap();
    // While the session runs: printing needs no lock.
    let undo = restore_commands(&fixture.tree, &fixture.state()).unwrap();
    let expected = [
        "ethtool -C eth9 rx-usecs 3",
        "ethtool -C eth9 adaptive-rx on",
        "echo schedutil > /sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
    ];
    assert_eq!((undo.commands, undo.bad_lines), (expected.map(String::from).to_vec(), vec![]));
}

/// Generates a sequence of writes: setting, and one of three values.
fn writes() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0..SETTINGS.len(), 0..3usize), 1..10)
}

fn value(index: usize, choice: usize) -> String {
    match index {
        0 => ["userspace", "powersave", "schedutil"][choice].to_string(),
        4 | 6 => (choice % 2).to_string(),
        _ => ["1600000", "2400000", "3300000"][choice].to_string(),
    }
}

/// Settings in memory: thousands of restores in a test without waiting for a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Memory(BTreeMap<Setting, String>);

impl Memory {
    fn from_fixture(fixture: &Fixture) -> Self {
        let machine = Machine::new(&fixture.tree);
        let read = |index| (setting(index), machine.read(&setting(index)).unwrap());
        Self((0..SETTINGS.len()).map(read).collect())
    }
}

impl Access for Memory {
    fn read(&self, setting: &Setting) -> Result<String, AccessError> {
        self.0.get(setting).cloned().ok_or_else(|| AccessError::Missing(setting.clone()))
    }

    fn write(&mut self, setting: &Setting, value: &str) -> Result<(), AccessError> {
        self.0.insert(setting.clone(), value.to_string());
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// The journal is cut at every byte, with the machine as it is when the journal has that
    /// length; restoring always leads back.
    #[test]
    fn a_crash_at_any_byte_restores_the_right_values(writes in writes()) {
        let fixture = Fixture::copy("acpi-cpufreq");
        let before = Memory::from_fixture(&fixture);
        let mut session = fixture.session();
        // State of the machine from each length of the journal on.
        let mut states = vec![(0, before.clone())];
        for (index, choice) in &writes {
            session.set(&setting(*index), &value(*index, *choice)).unwrap();
            let length = fs::metadata(fixture.journal()).unwrap().len();
            states.push((usize::try_from(length).unwrap(), Memory::from_fixture(&fixture)));
        }
        session.keep();
        let journal = fs::read(fixture.journal()).unwrap();
        let boot = fixture.value("proc/sys/kernel/random/boot_id");
        let lines = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count();
        for cut in 0..=journal.len() {
            let done = states.iter().rposition(|(length, _)| *length <= cut).unwrap();
            // Once the intent of the next write is complete, that write may have happened.
            let begun = lines(&journal[..cut]) > lines(&journal[..states[done].0]);
            let next = if begun { done + 1 } else { done };
            for (_, machine) in &states[done..=next] {
                let mut machine = machine.clone();
                let contents = journal::parse(&journal[..cut], &boot);
                let is_whole = journal[..cut].last().is_none_or(|byte| *byte == b'\n');
                prop_assert_eq!(contents.bad_lines.is_empty(), is_whole, "cut at {}", cut);
                let lines = restore::restore(&mut machine, &contents.entries);
                prop_assert_eq!(&machine, &before, "cut at {}: {:?}", cut, lines);
            }
        }
    }

    /// Random bytes never make a restore write anything but a known setting, nor panic.
    #[test]
    fn a_journal_of_garbage_changes_nothing(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let fixture = Fixture::copy("acpi-cpufreq");
        let before = fixture.snapshot();
        fs::create_dir_all(fixture.state()).unwrap();
        fs::write(fixture.journal(), bytes).unwrap();
        restrict(&fixture);
        undo(&fixture);
        prop_assert_eq!(fixture.snapshot(), before);
    }
}

fn restrict(fixture: &Fixture) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(fixture.journal(), fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn third_partys_change_survives_the_restore_after_a_cut() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let before = fixture.snapshot();
    let mut session = fixture.session();
    for (index, choice) in [(2, 0), (7, 1), (0, 1), (7, 2)] {
        session.set(&setting(index), &value(index, choice)).unwrap();
    }
    session.keep();
    fixture.write(SETTINGS[7].replace("ethtool:", "ethtool/").as_str(), "77");
    let report = undo(&fixture);
    let foreign: Vec<_> =
        report.lines.iter().filter(|l| matches!(l.result, Restored::Foreign { .. })).collect();
    assert_eq!(foreign.len(), 1);
    let mut expected = before;
    expected.insert(fixture.path("ethtool/eth9/rx-usecs"), b"77\n".to_vec());
    assert_eq!(fixture.snapshot(), expected);
}

/// Reading is enough to detect an unavailable setting.
#[test]
fn a_read_only_file_is_a_missing_permission() {
    if rustix::process::geteuid().is_root() {
        wattline_needs::machine("root writes read-only files; the command's test drops its rights");
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::copy("acpi-cpufreq");
    fs::set_permissions(fixture.path(SETTINGS[2]), fs::Permissions::from_mode(0o444)).unwrap();
    let mut machine = Machine::new(&fixture.tree);
    let refused = machine.write(&setting(2), "1600000");
    assert!(matches!(refused, Err(AccessError::NoPermission(_))), "{refused:?}");
}
