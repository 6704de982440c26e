//! The disk of the journal fills up, or turns read-only: a tmpfs of a few pages stands for it, in a
//! separate mount namespace.

use super::common::{Driver, Fixture};
use super::{SETTINGS, setting, undo};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use wattline_knobs::restore::Restored;
use wattline_knobs::{Machine, Outcome, Session, SetError, journal};

const INSIDE: &str = "WATTLINE_OWN_MOUNTS";
/// Journal, lock and their directory entries need less.
const DISK_BYTES: u32 = 64 << 10;
const MODERATION: &str = "ethtool/eth9/rx-usecs";

/// Reruns a test in its own mount namespace; returns true in that process.
fn alone(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let possible = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if !possible.is_ok_and(|status| status.success()) {
        wattline_needs::rights("root and unshare, for a mount namespace");
        return false;
    }
    let status = Command::new("unshare")
        .args(["--mount", "--propagation", "private"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", &format!("full_disk::{test}"), "--nocapture"])
        .env(INSIDE, "1")
        .status();
    assert!(status.unwrap().success(), "inside its mount namespace");
    false
}

fn mount(options: &str, at: &Path) {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", options, "wattline-test"]).arg(at);
    assert!(command.status().unwrap().success());
}

/// Creates a machine whose state directory is a small disk.
fn small_disk() -> Fixture {
    let fixture = Fixture::copy("acpi-cpufreq");
    fs::create_dir_all(fixture.state()).unwrap();
    mount(&format!("size={DISK_BYTES},mode=700"), &fixture.state());
    fixture
}

fn fill(fixture: &Fixture) {
    let filler = fs::File::create(fixture.state().join("filler")).unwrap();
    let mut chunk = 4096;
    while chunk > 0 {
        let written = std::io::Write::write(&mut &filler, &vec![0; chunk]);
        chunk = if written.is_ok() { chunk } else { chunk / 2 };
    }
}

fn make_room(fixture: &Fixture) {
    fs::remove_file(fixture.state().join("filler")).unwrap();
}

/// Sets one value after the other until the journal accepts no more; returns the number accepted.
fn until_full(session: &mut Session<Driver>) -> usize {
    for turn in 100..10_000 {
        match session.set(&setting(7), &turn.to_string()) {
            Ok(outcome) => assert_eq!(outcome, Outcome::Written),
            Err(SetError::Journal(_) | SetError::NotRecorded { .. }) => return turn - 100,
            Err(other) => panic!("{other}"),
        }
    }
    panic!("the disk never filled up");
}

/// Simulates a crash: file and settings stay, the lock goes.
fn crash(session: Session<Driver>) {
    session.keep();
}

fn whole(fixture: &Fixture) {
    let text = fs::read(fixture.journal()).unwrap();
    assert_eq!(text.last(), Some(&b'\n'), "a cut line is left");
    let boot = fixture.value("proc/sys/kernel/random/boot_id");
    let contents = journal::parse(&text, &boot);
    assert_eq!(contents.bad_lines, Vec::<String>::new());
}

#[test]
fn an_entry_after_a_full_disk_survives_a_crash() {
    if !alone("an_entry_after_a_full_disk_survives_a_crash") {
        return;
    }
    let fixture = small_disk();
    let before = fixture.snapshot();
    let mut session = fixture.session();
    assert_eq!(session.set(&setting(7), "99").unwrap(), Outcome::Written);
    fill(&fixture);
    let taken = until_full(&mut session);
    assert!(taken > 0, "nothing fitted into the rest of the page");
    let left = fixture.value(MODERATION);
    let last = (99 + taken).to_string();
    assert_eq!(left, last, "only values in the journal are set");
    whole(&fixture);
    // Full: an unchanged setting is not touched now.
    let refused = session.set(&setting(2), "2400000").unwrap_err();
    assert!(matches!(refused, SetError::Journal(_)), "{refused}");
    assert!(refused.to_string().contains("No space left"), "{refused}");
    assert_eq!(fixture.value(SETTINGS[2]), "3300000");
    make_room(&fixture);
    assert_eq!(session.set(&setting(2), "2400000").unwrap(), Outcome::Written);
    whole(&fixture);
    crash(session);
    let report = undo(&fixture);
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(fixture.snapshot(), before);
}

#[test]
fn the_end_of_a_session_on_a_full_disk_restores_everything() {
    if !alone("the_end_of_a_session_on_a_full_disk_restores_everything") {
        return;
    }
    let fixture = small_disk();
    let before = fixture.snapshot();
    let mut session = fixture.session();
    session.set(&setting(2), "2400000").unwrap();
    fill(&fixture);
    until_full(&mut session);
    make_room(&fixture);
    session.set(&setting(0), "powersave").unwrap();
    fill(&fixture);
    drop(session);
    assert_eq!(fixture.snapshot(), before);
    assert!(!fixture.journal().exists());
}

/// The lock names its holder, and a damaged journal is kept: neither may need room.
#[test]
fn a_full_disk_stops_no_restore() {
    if !alone("a_full_disk_stops_no_restore") {
        return;
    }
    let fixture = small_disk();
    let before = fixture.snapshot();
    let mut session = fixture.session();
    session.set(&setting(2), "2400000").unwrap();
    session.set(&setting(7), "99").unwrap();
    crash(session);
    let mut text = fs::read(fixture.journal()).unwrap();
    text.splice(0..0, b"damaged\n".iter().copied());
    fs::write(fixture.journal(), text).unwrap();
    fs::write(fixture.state().join("knobs.lock"), "").unwrap();
    fill(&fixture);
    let report = undo(&fixture);
    assert_eq!(report.bad_lines.len(), 1, "{report:?}");
    assert!(report.bad_lines[0].starts_with("line 1: "), "{report:?}");
    assert_eq!(report.journal_problem, None);
    assert_eq!(fixture.snapshot(), before);
    assert!(fixture.journal().with_extension("journal.damaged").exists());
    assert!(!fixture.journal().exists());
}

/// Many file systems turn read-only after an error of the disk.
#[test]
fn read_only_disk_stops_neither_end_nor_restore() {
    if !alone("read_only_disk_stops_neither_end_nor_restore") {
        return;
    }
    let fixture = small_disk();
    let before = fixture.snapshot();
    let mut session = fixture.session();
    session.set(&setting(2), "2400000").unwrap();
    remount_read_only(&fixture);
    // An open session keeps the directory from before the mount.
    crash(session);
    let report = undo(&fixture);
    assert_eq!(report.lines[0].result, Restored::Restored, "{report:?}");
    assert_eq!(fixture.snapshot(), before);
    let problem = report.journal_problem.clone().unwrap_or_default();
    assert!(problem.contains("Read-only") && problem.contains("knobs.journal"), "{problem}");
    assert!(!report.is_clean());
    let begun = Session::begin(Machine::new(&fixture.tree), &fixture.tree, &fixture.state());
    let Err(error) = begun else { panic!("a session without a journal") };
    assert!(error.to_string().contains("Read-only"), "{error}");
}

#[test]
fn irremovable_journal_stops_no_end() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let before = fixture.snapshot();
    let mut session = fixture.session();
    session.set(&setting(2), "2400000").unwrap();
    std::fs::remove_file(fixture.journal()).unwrap();
    std::fs::create_dir(fixture.journal()).unwrap();
    let report = session.finish();
    assert_eq!(report.lines[0].result, Restored::Restored, "{report:?}");
    assert_eq!(fixture.snapshot(), before);
    assert!(report.journal_problem.is_some_and(|it| it.contains("knobs.journal")));
}

/// Mounts it read-only from above: the file system itself would refuse while the journal is open.
fn remount_read_only(fixture: &Fixture) {
    let state = fixture.state();
    let bind = Command::new("mount").arg("--bind").args([&state, &state]).status().unwrap();
    assert!(bind.success());
    let options = ["-o", "remount,bind,ro"];
    assert!(Command::new("mount").args(options).arg(&state).status().unwrap().success());
}
