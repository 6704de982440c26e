//! A writer killed at any moment: after a restore, every file is as before.

mod common;

use common::Fixture;
use std::process::{Command, Stdio};
use std::time::Duration;
use wattline_knobs::restore::{Report, Restored};
use wattline_knobs::{Machine, Session, restore_now};
use wattline_linux::sysfs::Tree;

const MODERATION: &str = "ethtool/eth9/rx-usecs";
const ROOT: &str = "WATTLINE_KILLED_WRITER";

/// Returns the number of rounds; the full thousand with `WATTLINE_KILLS=1000`.
fn rounds() -> u64 {
    std::env::var("WATTLINE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// The writer: run as a separate process by the test below, otherwise a no-op.
#[test]
fn writer() {
    let Ok(root) = std::env::var(ROOT) else { return };
    let tree = Tree::at(&root);
    let state = tree.path("/var/lib/wattline");
    let (mut session, _) = Session::begin(Machine::new(&tree), &tree, &state).unwrap();
    let cpu = "/sys/devices/system/cpu";
    let frequencies = ["1600000", "2400000", "3300000"];
    for turn in 0usize.. {
        let policy = turn % 2;
        let frequency = frequencies[turn % 3];
        for (setting, value) in [
            (format!("{cpu}/cpufreq/policy{policy}/scaling_max_freq"), frequency),
            (format!("{cpu}/cpufreq/policy{policy}/scaling_min_freq"), frequency),
            (format!("{cpu}/cpu{policy}/cpuidle/state2/disable"), ["0", "1"][turn / 2 % 2]),
            ("ethtool:eth9/rx-usecs".to_string(), ["10", "20", "30", "40"][turn % 4]),
            ("ethtool:eth9/redirect-table".to_string(), ["0,0,0,0", "0,1,0,1"][turn % 2]),
            ("ethtool:eth9/combined-channels".to_string(), ["2", "1"][turn / 3 % 2]),
            ("ethtool:eth9/queue-1/rx-usecs".to_string(), ["50", "60", "70"][turn % 3]),
            ("napi:eth9/queue-1/gro-flush-timeout".to_string(), ["200000", "0"][turn % 2]),
        ] {
            session.set(&setting.parse().unwrap(), value).unwrap();
        }
    }
}

#[test]
fn a_kill_at_any_moment_leaves_no_trace() {
    let fixture = Fixture::copy("acpi-cpufreq");
    for (file, value) in [
        ("ethtool/eth9/redirect-table", "0,1,2,3"),
        ("ethtool/eth9/combined-channels", "4"),
        ("ethtool/eth9/queue-1/rx-usecs", "3"),
        ("napi/eth9/queue-1/gro-flush-timeout", "0"),
    ] {
        std::fs::create_dir_all(fixture.path(file).parent().unwrap()).unwrap();
        fixture.write(file, value);
    }
    let before = fixture.snapshot();
    let third = "sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us";
    let original = fixture.value(MODERATION);
    let (mut restored, mut left) = (0, 0);
    for round in 0..rounds() {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer", "--nocapture"])
            .env(ROOT, fixture.path(""))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // In every fifth round another program sets a changed knob before the restore.
        let third_party = round % 5 == 4;
        wattline_needs::until("the writer writes", || {
            !third_party || fixture.value(MODERATION) != original
        });
        // Spread over its start, its first writes with their flushes, and its later ones.
        std::thread::sleep(Duration::from_micros(round * 7_919 % 60_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        if third_party {
            fixture.write(MODERATION, "99");
        }
        let mut machine = Machine::new(&fixture.tree);
        let report = restore_now(&mut machine, &fixture.tree, &fixture.state()).unwrap();
        restored += report.lines.len();
        if third_party {
            left += left_to_a_third_party(&report, &fixture.value(MODERATION), round);
            fixture.put_back(&before);
        } else {
            assert!(report.is_clean(), "round {round}: {report:?}");
        }
        // Leftovers of a kill between the two steps of a plain file's write; attributes have none.
        remove_unfinished(&fixture.path(""));
        assert_eq!(fixture.snapshot(), before, "round {round}");
    }
    println!("{restored} settings restored and {left} left in {} rounds", rounds());
    assert!(restored > 0, "no round came as far as a write");
    assert!(left > 0, "no round had a setting that another program set after the writer");
    // An untouched setting keeps the value that another program sets.
    fixture.write(third, "60");
    restore_now(&mut Machine::new(&fixture.tree), &fixture.tree, &fixture.state()).unwrap();
    assert_eq!(fixture.value(third), "60");
}

/// Checks that another program's value stays and is reported if the setting had been changed, and
/// that everything else is restored. Returns 1 if it had been changed.
fn left_to_a_third_party(report: &Report, found: &str, round: u64) -> usize {
    let own = report.lines.iter().find(|line| line.setting.to_string() == "ethtool:eth9/rx-usecs");
    let others = report.lines.iter().filter(|line| Some(*line) != own);
    for line in others {
        let back = matches!(line.result, Restored::Restored | Restored::Untouched);
        assert!(back, "round {round}: {line}");
    }
    match own.map(|line| &line.result) {
        Some(Restored::Foreign { found: reported }) => {
            assert_eq!((reported.as_str(), found), ("99", "99"), "round {round}");
            1
        }
        // Killed between write and reading back: any value found counts as own.
        Some(Restored::Restored) => 0,
        None => {
            assert_eq!(found, "99", "round {round}: never set here");
            0
        }
        other => panic!("round {round}: {other:?}"),
    }
}

fn remove_unfinished(directory: &std::path::Path) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            remove_unfinished(&path);
        } else if path.extension().is_some_and(|extension| extension == "new") {
            std::fs::remove_file(path).unwrap();
        }
    }
}
