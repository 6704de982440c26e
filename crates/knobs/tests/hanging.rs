//! A file whose writer never returns, as with a hung driver: a pipe without a reader.

mod common;

use common::Fixture;
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use wattline_knobs::restore::Restored;
use wattline_knobs::{
    Access, AccessError, Bounded, Machine, Session, SetError, Setting, restore_now,
};

/// While one call hangs, others have half of this: a busy machine is slow with files, too.
const PATIENCE: Duration = Duration::from_secs(2);
const SPEED: &str = "/sys/devices/system/cpu/cpufreq/policy1/scaling_setspeed";
const OTHER: &str = "/sys/devices/system/cpu/cpufreq/policy0/scaling_setspeed";

fn hang(fixture: &Fixture) -> PathBuf {
    let path = fixture.path(SPEED);
    fs::remove_file(&path).unwrap();
    mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    path
}

#[test]
fn hanging_write_is_journaled_named_and_restored_once_it_is_back() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let path = hang(&fixture);
    let access = || Bounded::within(Machine::new(&fixture.tree), PATIENCE);
    let (hung, other): (Setting, Setting) = (SPEED.parse().unwrap(), OTHER.parse().unwrap());
    let before = fixture.value(OTHER);

    let (mut session, _) = Session::begin(access(), &fixture.tree, &fixture.state()).unwrap();
    let error = session.set(&hung, "1600000").unwrap_err();
    assert!(matches!(error, SetError::Access(AccessError::Stuck { .. })), "{error}");
    assert!(error.to_string().starts_with(SPEED), "{error}");
    let journal = fs::read_to_string(fixture.journal()).unwrap();
    assert!(journal.contains(SPEED), "on disk before it was written: {journal}");
    session.set(&other, "2400000").unwrap();
    assert_eq!(fixture.value(OTHER), "2400000");
    assert_eq!(session.access().stuck().len(), 1);
    assert!(session.foreign().is_empty());

    let began = Instant::now();
    let report = session.leave().unwrap();
    assert!(began.elapsed() < Duration::from_secs(20), "it ends");
    let failed: Vec<_> = report.failures().collect();
    assert!(matches!(&failed[..], [line] if line.setting == hung), "{report:?}");
    assert!(failed[0].to_string().contains("has not answered"), "{}", failed[0]);
    assert_eq!(fixture.value(OTHER), before);
    assert!(fixture.journal().exists());

    // The driver accepts the pending write.
    let at_once = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let reader = File::options().read(true).custom_flags(at_once).open(&path).unwrap();
    wattline_needs::until("the writes come back", || {
        !fs::metadata(&path).is_ok_and(|it| !it.is_file())
    });
    drop(reader);
    let result = || restore_now(&mut access(), &fixture.tree, &fixture.state()).unwrap();
    let restored = result().lines.into_iter().find(|line| line.setting == hung).unwrap();
    assert!(
        matches!(restored.result, Restored::Restored | Restored::Untouched),
        "{:?}",
        restored.result
    );
    assert!(!fixture.journal().exists());
}

#[test]
fn hanging_restore_is_named_and_another_one_finishes_it() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let mut session = fixture.session();
    for setting in [SPEED, OTHER] {
        session.set(&setting.parse().unwrap(), "2400000").unwrap();
    }
    session.keep();
    // As after a kill before the value was read back.
    let journal = fs::read_to_string(fixture.journal()).unwrap();
    let lines: Vec<&str> = journal.lines().filter(|line| !line.contains("found")).collect();
    fs::write(fixture.journal(), lines.join("\n") + "\n").unwrap();
    let path = hang(&fixture);
    let restore = || {
        let machine = Machine::new(&fixture.tree);
        let mut access = Bounded::within(machine, PATIENCE);
        restore_now(&mut access, &fixture.tree, &fixture.state()).unwrap()
    };
    let report = restore();
    let failed: Vec<_> = report.failures().map(|line| line.setting.to_string()).collect();
    assert_eq!(failed, [SPEED], "{report:?}");
    assert!(fixture.value(OTHER) != "2400000" && fixture.journal().exists());
    // Removes the pipe in which the first one still hangs.
    fs::remove_file(&path).unwrap();
    fixture.write(SPEED, "2400000");
    assert_eq!(restore().failures().count(), 0);
    assert!(fixture.value(SPEED) != "2400000" && !fixture.journal().exists());
}
