//! A writer that is killed at any moment: after a restore every file is as it was.

mod common;

use common::Fixture;
use std::process::{Command, Stdio};
use std::time::Duration;
use wattline_kernel::sysfs::Tree;
use wattline_knobs::{Machine, Session, restore_now};

const ROOT: &str = "WATTLINE_KILLED_WRITER";

/// Rounds; the full thousand with `WATTLINE_KILLS=1000`.
fn rounds() -> u64 {
    std::env::var("WATTLINE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// The writer: run as a process of its own by the test below, otherwise nothing.
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
    let mut undone = 0;
    for round in 0..rounds() {
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "writer", "--nocapture"])
            .env(ROOT, fixture.path(""))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Spread over its start, its first writes with their flushes, and its later ones.
        std::thread::sleep(Duration::from_micros(round * 7_919 % 60_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let mut machine = Machine::new(&fixture.tree);
        let report = restore_now(&mut machine, &fixture.tree, &fixture.state()).unwrap();
        assert!(report.is_clean(), "round {round}: {report:?}");
        undone += report.lines.len();
        // What a kill between the two steps of a plain file's write leaves; attributes have none.
        remove_unfinished(&fixture.path(""));
        assert_eq!(fixture.snapshot(), before, "round {round}");
    }
    println!("{undone} settings restored in {} rounds", rounds());
    assert!(undone > 0, "no round came as far as a write");
    // What nobody of us touched stays as somebody else sets it.
    fixture.write(third, "60");
    restore_now(&mut Machine::new(&fixture.tree), &fixture.tree, &fixture.state()).unwrap();
    assert_eq!(fixture.value(third), "60");
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
