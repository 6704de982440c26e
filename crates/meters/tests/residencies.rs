//! Residencies from a tree, and from this machine.

mod common;

use common::Fixture;
use wattline_linux::sysfs::Tree;
use wattline_meters::residency::{FrequencyResidency, IdleResidency, ResidencyError};
use wattline_units::{Span, Time};

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_seconds(seconds)
}

const STATE: &str = "sys/devices/system/cpu/cpu0/cpuidle/state";

#[test]
fn shares_of_idle_states_are_of_the_true_time() {
    let fixture = Fixture::copy("residencies");
    let mut cpu = IdleResidency::new(&fixture.tree, 0);
    assert_eq!(cpu.read(at(0.0)), Err(ResidencyError::First));
    fixture.write(&format!("{STATE}1/time"), 5_000_000 + 500_000);
    fixture.write(&format!("{STATE}2/time"), 90_000_000 + 1_000_000);
    fixture.write(&format!("{STATE}2/usage"), 410);
    let shares = cpu.read(at(2.0)).unwrap();
    let found: Vec<_> = shares.iter().map(|r| (r.state.as_str(), r.share, r.entries)).collect();
    assert_eq!(found, [("POLL", 0.0, 0), ("C1", 0.25, 0), ("C6", 0.5, 10)]);
}

#[test]
fn excess_sleep_and_decreasing_counters_are_refused() {
    let fixture = Fixture::copy("residencies");
    let mut cpu = IdleResidency::new(&fixture.tree, 0);
    let _ = cpu.read(at(0.0));
    fixture.write(&format!("{STATE}1/time"), 8_000_000);
    assert!(matches!(cpu.read(at(1.0)), Err(ResidencyError::Implausible { .. })));
    fixture.write(&format!("{STATE}1/time"), 1);
    assert_eq!(cpu.read(at(2.0)), Err(ResidencyError::Reset));
    assert!(cpu.read(at(3.0)).is_ok());
}

#[test]
fn cpu_going_off_line_is_named() {
    let fixture = Fixture::copy("residencies");
    let mut cpu = IdleResidency::new(&fixture.tree, 1);
    let _ = cpu.read(at(0.0));
    std::fs::remove_dir_all(fixture.path("sys/devices/system/cpu/cpu1")).unwrap();
    let error = cpu.read(at(1.0)).unwrap_err().to_string();
    assert!(error.ends_with("cpu1/cpuidle: not there"), "{error}");
}

#[test]
fn frequencies_are_counted_in_hundredths_of_a_second() {
    let fixture = Fixture::copy("residencies");
    let file = "sys/devices/system/cpu/cpufreq/policy0/stats/time_in_state";
    let mut policy = FrequencyResidency::new(&fixture.tree, 0);
    let _ = policy.read(at(0.0));
    fixture.write(file, "1600000 1030\n2400000 0\n3300000 120");
    let shares = policy.read(at(1.0)).unwrap();
    let found: Vec<_> = shares.iter().map(|r| (r.state.as_str(), r.share)).collect();
    assert_eq!(found, [("1600000000 Hz", 0.3), ("2400000000 Hz", 0.0), ("3300000000 Hz", 0.7)]);
    fixture.write(file, "1600000 1030\nfast 1");
    assert!(matches!(policy.read(at(2.0)), Err(ResidencyError::Unreadable(_))));
}

/// A CPU does not sleep longer than the elapsed time, on the real files of the test machine.
#[test]
fn this_machine_is_read() {
    let tree = Tree::live();
    if !tree.exists("/sys/devices/system/cpu/cpu0/cpuidle/state0") {
        wattline_needs::machine("this machine has no cpuidle");
        return;
    }
    let start = std::time::Instant::now();
    let now = || Time::ZERO + Span::from(start.elapsed());
    let mut cpu = IdleResidency::new(&tree, 0);
    assert_eq!(cpu.read(now()), Err(ResidencyError::First));
    std::thread::sleep(std::time::Duration::from_millis(200));
    match cpu.read(now()) {
        Ok(shares) => {
            let sum: f64 = shares.iter().map(|one| one.share).sum();
            assert!((0.0..=1.0 + 1e-9).contains(&sum), "{shares:?}");
        }
        // A long sleep that ends within the interval is booked as a whole at its end.
        Err(error) => assert!(matches!(error, ResidencyError::Implausible { .. }), "{error}"),
    }
}
