//! Limits that an administrator has set, and CPUs that differ from each other.

mod common;

use common::{CPUS, Fixture, take_all};
use wattline_governor::machine::{Machine, Taken};
use wattline_governor::step::Step;
use wattline_host::{Host, HostOptions, NoWorkers};
use wattline_knobs::{Machine as Settings, Session};
use wattline_policy::OperatingPoint;
use wattline_units::{Hertz, Span};

fn policy(number: u32, file: &str) -> String {
    format!("{CPUS}/cpufreq/policy{number}/{file}")
}

fn state(cpu: u32, state: u32, file: &str) -> String {
    format!("{CPUS}/cpu{cpu}/cpuidle/state{state}/{file}")
}

fn kilohertz(fixture: &Fixture, number: u32, file: &str) -> u64 {
    fixture.value(&policy(number, file)).parse().unwrap()
}

fn begin(fixture: &Fixture, options: HostOptions) -> Host<Session<Settings>> {
    Host::new(options, fixture.session(), Box::new(NoWorkers)).unwrap()
}

/// Takes every offered frequency and idle state, and calls `check` after each.
fn take_everything(host: &mut Host<Session<Settings>>, check: impl Fn()) {
    let platform = host.platform().clone();
    let mut from = host.present();
    check();
    for turn in (0..platform.frequencies.len().max(platform.idle_states.len())).rev() {
        let mut to = from.clone();
        to.set_frequency(turn.min(platform.fastest()));
        to.cores.iter_mut().for_each(|core| core.idle_limit = turn.min(platform.deepest()));
        take_all(host, &from, &to);
        check();
        from = to;
    }
    let full = OperatingPoint::full(&platform);
    take_all(host, &from, &full);
    check();
}

#[test]
fn frequency_stays_within_the_administrators_limits() {
    for (name, low, high) in [
        ("intel-pstate-hwp", 1_200_000, 2_000_000),
        ("amd-pstate-epp", 1_500_000, 2_200_000),
        ("acpi-cpufreq", 1_700_000, 2_500_000),
        ("acpi-cpufreq", 1_600_000, 1_600_000),
        ("acpi-cpufreq", 1_700_000, 2_000_000),
        ("cppc", 1_100_000, 1_900_000),
    ] {
        let fixture = Fixture::with_card(name);
        let numbers: &[u32] = if name == "cppc" { &[0] } else { &[0, 1] };
        for &number in numbers {
            fixture.write(&policy(number, "scaling_min_freq"), low);
            fixture.write(&policy(number, "scaling_max_freq"), high);
        }
        let mut host = fixture.host(&[0, 1]);
        let check = || {
            for &number in numbers {
                let of = |file| kilohertz(&fixture, number, file);
                let (min, max) = (of("scaling_min_freq"), of("scaling_max_freq"));
                assert!(low <= min && min <= max && max <= high, "{name}: {min} to {max}");
                let speed = fixture.value(&policy(number, "scaling_setspeed"));
                let speed = speed.parse().unwrap_or(low);
                assert!((low..=high).contains(&speed), "{name}: {speed}");
            }
        };
        take_everything(&mut host, check);
    }
}

#[test]
fn limits_are_left_only_if_the_options_override_them() {
    let fixture = Fixture::with_card("intel-pstate-hwp");
    for number in 0..2 {
        fixture.write(&policy(number, "scaling_max_freq"), "2000000");
    }
    let options = HostOptions { override_limits: true, ..fixture.options(&[0, 1]) };
    let mut host = begin(&fixture, options);
    host.present();
    assert_eq!(kilohertz(&fixture, 0, "scaling_max_freq"), 4_700_000);
    drop(host);
    assert_eq!(kilohertz(&fixture, 0, "scaling_max_freq"), 2_000_000);
}

#[test]
fn limit_lowered_by_another_program_is_followed() {
    for (name, top) in [("acpi-cpufreq", 1), ("intel-pstate-hwp", 5)] {
        let fixture = Fixture::with_card(name);
        let mut host = fixture.host(&[0, 1]);
        let fastest = host.platform().fastest();
        host.present();
        fixture.write(&policy(0, "scaling_max_freq"), "1600000");
        for index in [top, fastest] {
            host.take(&Step::Frequency { core: 0, index });
            assert_eq!(kilohertz(&fixture, 0, "scaling_max_freq"), 1_600_000, "{name}");
            if name == "acpi-cpufreq" {
                assert_eq!(fixture.value(&policy(0, "scaling_setspeed")), "1600000");
            }
        }
    }
}

/// A CPU goes off-line in the middle of a step: its frequency is unknown then, not the highest.
#[test]
fn frequency_of_an_off_line_cpu_is_unknown() {
    for name in ["acpi-cpufreq", "intel-pstate-hwp", "cppc"] {
        let fixture = Fixture::with_card(name);
        let mut host = fixture.host(&[0, 1]);
        let fastest = host.platform().fastest();
        host.present();
        assert_eq!(host.take(&Step::Frequency { core: 0, index: 0 }), Taken::Done, "{name}");
        let files = fixture.tree.path(policy(0, ""));
        let away = fixture.tree.path("away");
        std::fs::rename(&files, &away).unwrap();
        let step = Step::Frequency { core: 0, index: fastest };
        assert!(matches!(host.take(&step), Taken::Failed { .. }), "{name}");
        assert_eq!(host.held(&step), None, "{name}");
        std::fs::rename(&away, &files).unwrap();
        assert_eq!(host.take(&step), Taken::Done, "{name}");
        assert_eq!(host.held(&step), Some(step), "{name}");
    }
}

#[test]
fn wake_up_latency_of_the_administrator_bounds_idle_states() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let file = |cpu| format!("{CPUS}/cpu{cpu}/power/pm_qos_resume_latency_us");
    fixture.write(&file(0), "50");
    let mut options = fixture.options(&[0, 1]);
    options.rights.administer = false;
    let mut host = begin(&fixture, options);
    let check = || {
        let latency: u64 = fixture.value(&file(0)).parse().unwrap();
        assert!((1..=50).contains(&latency), "{latency}");
    };
    take_everything(&mut host, check);
    let deepest = host.platform().deepest();
    assert_eq!(host.take(&Step::IdleLimit { core: 1, state: deepest }), Taken::Done);
    assert_eq!(fixture.value(&file(1)), "0");
}

#[test]
fn each_cpu_sleeps_in_the_states_of_its_own_table() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    // CPU 1 is of another kind: its deepest state wakes up more slowly and has another name.
    fixture.write(&state(1, 2, "name"), "C10");
    fixture.write(&state(1, 2, "latency"), "310");
    let mut host = fixture.host(&[0, 1]);
    let platform = host.platform().clone();
    let latencies: Vec<Span> = platform.idle_states.iter().map(|one| one.exit_latency).collect();
    assert_eq!(latencies, [2, 87, 310].map(Span::from_micros));
    host.present();
    let forbidden = |cpu| fixture.value(&state(cpu, 2, "disable"));
    for core in 0..2 {
        let step = Step::IdleLimit { core, state: platform.deepest() };
        assert_eq!(host.take(&step), Taken::Done);
        assert_eq!(host.held(&step), Some(step));
    }
    assert_eq!((forbidden(0), forbidden(1)), ("0".into(), "0".into()), "any state may be used");
    for core in 0..2 {
        assert_eq!(host.take(&Step::IdleLimit { core, state: 1 }), Taken::Done);
    }
    assert_eq!((forbidden(0), forbidden(1)), ("0".into(), "1".into()), "within 87 us");
}

#[test]
fn a_cpu_without_idle_states_takes_them_from_no_other() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    std::fs::remove_dir_all(fixture.tree.path(format!("{CPUS}/cpu0/cpuidle"))).unwrap();
    let mut host = fixture.host(&[0, 1]);
    assert!(host.platform().can.limit_idle);
    for core in 0..2 {
        assert_eq!(host.take(&Step::IdleLimit { core, state: 0 }), Taken::Done);
    }
    assert_eq!(fixture.value(&state(1, 2, "disable")), "1");
    let status = host.status().lock().unwrap().clone();
    let names_it = |note: &String| note.contains("CPU 0 has none that can be limited");
    assert!(status.missing.iter().any(names_it), "{status:?}");
}

#[test]
fn a_cpu_without_frequency_takes_it_from_no_other() {
    let fixture = Fixture::with_card("intel-pstate-hwp");
    std::fs::remove_dir_all(fixture.tree.path(format!("{CPUS}/cpufreq/policy0"))).unwrap();
    let mut host = fixture.host(&[0, 1]);
    assert!(host.platform().can.set_frequency);
    host.present();
    for core in 0..2 {
        assert_eq!(host.take(&Step::Frequency { core, index: 0 }), Taken::Done);
    }
    assert_eq!(kilohertz(&fixture, 1, "scaling_max_freq"), 800_000);
    let status = host.status().lock().unwrap().clone();
    let names_it = |note: &String| note.contains("CPU 0 has no cpufreq policy");
    assert!(status.missing.iter().any(names_it), "{status:?}");
}

#[test]
fn each_kind_of_core_reaches_its_own_highest_frequency() {
    let fixture = Fixture::with_card("intel-pstate-hwp");
    // CPU 0 is an efficiency core.
    for (file, value) in [
        ("cpuinfo_max_freq", "3500000"),
        ("scaling_max_freq", "3500000"),
        ("cpuinfo_min_freq", "600000"),
        ("scaling_min_freq", "600000"),
    ] {
        fixture.write(&policy(0, file), value);
    }
    let mut host = fixture.host(&[0, 1]);
    let platform = host.platform().clone();
    assert_eq!(platform.frequencies[0], Hertz(6e8));
    host.present();
    let maxima = || [0, 1].map(|number| kilohertz(&fixture, number, "scaling_max_freq"));
    assert_eq!(maxima(), [3_500_000, 4_700_000]);
    for core in 0..2 {
        host.take(&Step::Frequency { core, index: 0 });
    }
    assert_eq!(maxima(), [600_000, 800_000]);
}
