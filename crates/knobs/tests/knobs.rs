//! Every knob on trees of machines with different drivers, judged by the log of writes.

mod common;

use common::{Driver, Fixture, limits_may_not_cross};
use wattline_knobs::cpufreq::{self, Driver as Name, FrequencyError};
use wattline_knobs::latency::{self, DmaLatency, ResumeLatency};
use wattline_knobs::{
    Access, Change, Knobs, Machine, OnExit, Outcome, Plan, Session, Setting, cpuidle, leave,
    moderation, rivals, uncore,
};
use wattline_linux::ethtool::{self, Coalesce};
use wattline_linux::namespace::Namespace;
use wattline_linux::sysfs::Tree;
use wattline_units::{Hertz, Span};

/// Applies changes with a driver whose limits may not cross, and returns the log of writes.
fn applied(fixture: &Fixture, changes: &[Change]) -> Vec<String> {
    let driver = Driver::with_rule(fixture, limits_may_not_cross);
    let log = driver.log.clone();
    let (mut session, _) = Session::begin(driver, &fixture.tree, &fixture.state()).unwrap();
    for outcome in session.apply(changes) {
        assert!(matches!(outcome.unwrap(), Outcome::Written | Outcome::Unchanged));
    }
    session.keep();
    log.take()
}

fn policies(fixture: &Fixture) -> Vec<cpufreq::Policy> {
    let (policies, broken) = cpufreq::find(&fixture.tree);
    assert!(broken.is_empty(), "{broken:?}");
    policies
}

#[test]
fn acpi_cpufreq_fixes_a_step_by_userspace_per_core() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let policies = policies(&fixture);
    assert_eq!(policies[1].driver, Name::AcpiCpufreq);
    assert_eq!(policies[1].steps_hertz.len(), 3);
    // The lowest step not below the request.
    let changes = policies[1].fix(Hertz::from_gigahertz(1.7)).unwrap();
    let log = applied(&fixture, &changes);
    let expected = [
        "cpufreq/policy1/scaling_governor = userspace",
        "cpufreq/policy1/scaling_setspeed = 2400000",
    ];
    assert_eq!(log, expected);
    let wrong = policies[0].fix(Hertz::from_gigahertz(5.0)).unwrap_err();
    assert!(matches!(wrong, FrequencyError::OutOfRange { .. }), "{wrong}");
}

#[test]
fn intel_pstate_is_pinned_by_its_limits_and_unlocks_the_preference() {
    let fixture = Fixture::copy("intel-pstate-hwp");
    let policy = &policies(&fixture)[0];
    assert!(policy.driver.is_autonomous());
    let mut changes = policy.fix(Hertz::from_gigahertz(1.2)).unwrap();
    changes.extend(policy.prefer("balance_power").unwrap());
    let expected = [
        "cpufreq/policy0/scaling_max_freq = 1200000",
        "cpufreq/policy0/scaling_min_freq = 1200000",
        "cpufreq/policy0/scaling_governor = powersave",
        "cpufreq/policy0/energy_performance_preference = balance_power",
    ];
    assert_eq!(applied(&fixture, &changes), expected);
    let wrong = policy.prefer("turbo").unwrap_err().to_string();
    assert!(wrong.contains("is not among default, performance"), "{wrong}");
    assert!(policy.govern("userspace").is_err());
}

#[test]
fn amd_pstate_below_its_lower_limit_moves_that_first() {
    let fixture = Fixture::copy("amd-pstate-epp");
    let policy = &policies(&fixture)[1];
    assert_eq!(policy.driver, Name::AmdPstateEpp);
    let log = applied(&fixture, &policy.fix(Hertz::from_gigahertz(1.0)).unwrap());
    let expected = [
        "cpufreq/policy1/scaling_min_freq = 1000000",
        "cpufreq/policy1/scaling_max_freq = 1000000",
    ];
    assert_eq!(log, expected);
    assert_eq!(policy.prefer("power").unwrap().len(), 1, "powersave locks nothing");
    let crossed = policy.limit(Hertz::from_gigahertz(2.0), Hertz::from_gigahertz(1.0));
    assert!(crossed.is_err());
}

#[test]
fn cppc_without_a_list_shares_a_frequency_among_cpus() {
    let fixture = Fixture::copy("cppc");
    let policy = &policies(&fixture)[0];
    assert_eq!((&policy.driver, &policy.cpus[..]), (&Name::Cppc, &[0, 1][..]));
    let log = applied(&fixture, &policy.fix(Hertz::from_gigahertz(1.25)).unwrap());
    assert_eq!(log[0], "cpufreq/policy0/scaling_min_freq = 1250000");
}

#[test]
fn a_policy_with_garbage_is_named_and_the_others_are_used() {
    let fixture = Fixture::copy("acpi-cpufreq");
    fixture.write("sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq", "fast");
    let (policies, broken) = cpufreq::find(&fixture.tree);
    assert_eq!((policies.len(), broken.len()), (1, 1));
    assert!(broken[0].to_string().contains("cpuinfo_max_freq: holds \"fast\""), "{}", broken[0]);
}

#[test]
fn idle_states_are_allowed_before_others_are_forbidden() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let file = |state: u32| format!("sys/devices/system/cpu/cpu1/cpuidle/state{state}/disable");
    fixture.write(&file(1), "1");
    let states = cpuidle::states(&fixture.tree, 1).unwrap();
    let log = applied(&fixture, &cpuidle::limit(1, &states, Span::from_micros(10)));
    assert_eq!(log, ["cpu1/cpuidle/state1/disable = 0", "cpu1/cpuidle/state2/disable = 1"]);
    assert!(cpuidle::states(&fixture.tree, 7).unwrap().is_empty());
}

#[test]
fn no_limit_and_no_latency_are_not_mixed_up() {
    let value = |latency| latency::limit_cpu(0, latency).value;
    assert_eq!(value(ResumeLatency::Any), "0");
    assert_eq!(value(ResumeLatency::None), "n/a");
    assert_eq!(value(ResumeLatency::AtMost(Span::from_micros(60))), "60");
    // Rounded down, this would mean that any latency is allowed.
    assert_eq!(value(ResumeLatency::AtMost(Span::from_nanos(300))), "1");
}

#[test]
fn adaptive_moderation_is_a_rival_and_is_switched_off_first() {
    let fixture = Fixture::copy("acpi-cpufreq");
    fixture.write_process(41, "tuned");
    fixture.write_process(42, "power-profiles-");
    fixture.write_process(43, "bash");
    let names: Vec<String> = rivals::find(&fixture.tree, &["eth9".to_string()])
        .into_iter()
        .map(|rival| rival.name)
        .collect();
    assert_eq!(names, ["TuneD", "power-profiles-daemon", "adaptive moderation of eth9"]);
    let machine = Machine::new(&fixture.tree);
    let changes =
        moderation::receive(|setting| machine.read(setting), "eth9", None, Span::from_micros(100))
            .unwrap();
    let log = applied(&fixture, &changes);
    assert_eq!(log, ["ethtool:eth9/adaptive-rx = 0", "ethtool:eth9/rx-usecs = 100"]);
    let read = |setting: &Setting| machine.read(setting);
    assert!(moderation::receive(read, "eth7", None, Span::ZERO).is_err());
    assert!(moderation::receive(read, "eth9", Some(0), Span::ZERO).is_err(), "no single queues");
}

#[test]
fn uncore_limits_stay_within_the_firmwares() {
    let fixture = Fixture::copy("intel-pstate-hwp");
    let (uncores, _) = uncore::find(&fixture.tree);
    let changes = uncores[0].limit(Hertz::from_gigahertz(0.1), Hertz::from_gigahertz(1.4));
    let log = applied(&fixture, &changes);
    let expected = "intel_uncore_frequency/package_00_die_00/max_freq_khz = 1400000";
    assert_eq!(log, [expected], "the lower limit is where it should be");
}

impl Fixture {
    fn write_process(&self, pid: u32, name: &str) {
        let directory = self.path(&format!("proc/{pid}"));
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("comm"), format!("{name}\n")).unwrap();
    }
}

/// The real device of the test machine; the request is released at the end.
#[test]
fn the_machine_wide_latency_is_held_and_released() {
    let tree = Tree::live();
    let Ok(before) = DmaLatency::present(&tree) else {
        wattline_needs::machine(format_args!("{} cannot be read here", latency::DEVICE));
        return;
    };
    let limit = Span::from_micros(1_234);
    let held = match DmaLatency::hold(&tree, limit) {
        Ok(held) => held,
        Err(error) => return wattline_needs::machine(&error),
    };
    // Another program may request less meanwhile; none can raise it.
    assert!(DmaLatency::present(&tree).unwrap() <= limit);
    drop(held);
    // The device's initial default is far above a second.
    assert!(before <= limit || DmaLatency::present(&tree).unwrap() > limit);
}

/// The real idle states of the test machine, set to their present values.
#[test]
fn the_idle_states_of_this_machine_are_written_and_restored() {
    let tree = Tree::live();
    let states = cpuidle::states(&tree, 0).unwrap_or_default();
    let Some(deepest) = states.last().filter(|state| state.number > 0) else {
        wattline_needs::machine("this machine has no idle states to choose from");
        return;
    };
    let state = tempfile::tempdir().unwrap();
    let machine = Machine::new(&tree);
    let (mut session, _) = Session::begin(machine.clone(), &tree, state.path()).unwrap();
    let mut changes = cpuidle::limit(0, &states, Span::ZERO);
    changes
        .retain(|change| change.setting.to_string().contains(&format!("state{}/", deepest.number)));
    let outcome = session.apply(&changes).remove(0);
    if let Err(error) = outcome {
        wattline_needs::machine(&error);
        return;
    }
    assert_eq!(machine.read(&changes[0].setting).unwrap(), changes[0].value);
    session.finish();
    assert_eq!(cpuidle::states(&tree, 0).unwrap(), states);
}

#[test]
fn coalescing_of_the_loopback_is_missing_not_zero() {
    let machine = Machine::new(&Tree::live());
    assert!(machine.read(&moderation::setting("lo", Coalesce::RxUsecs)).is_err());
}

/// Through the kernel's own driver of a tap, in a separate namespace.
#[test]
fn the_moderation_of_a_real_device_is_set_and_restored() {
    let made = Namespace::for_test(&["tuntap add dev t0 mode tap"]);
    let Ok(namespace) = made.map_err(wattline_needs::rights) else { return };
    let state = tempfile::tempdir().unwrap();
    let work = || {
        let frames = |value: &ethtool::CoalesceValues| value.get(Coalesce::RxFrames);
        let before = ethtool::coalesce("t0").map_err(|error| error.to_string())?;
        let tree = Tree::live();
        let (mut session, _) = Session::begin(Machine::new(&tree), &tree, state.path()).unwrap();
        let setting = moderation::setting("t0", Coalesce::RxFrames);
        assert_eq!(session.set(&setting, "24").unwrap(), Outcome::Written);
        assert_eq!(frames(&ethtool::coalesce("t0").unwrap()), 24);
        // More than the driver accepts: it silently clips the value.
        let cut = session.set(&setting, "100000").unwrap();
        assert!(matches!(cut, Outcome::Altered { .. }), "{cut:?}");
        assert!(session.finish().is_clean());
        assert_eq!(ethtool::coalesce("t0").unwrap(), before);
        Ok::<(), String>(())
    };
    if let Err(error) = namespace.enter(work).unwrap() {
        wattline_needs::machine(format_args!("no coalescing on a tap here: {error}"));
    }
}

/// Adds a card with four queues to the machine of a fixture.
fn add_card(fixture: &Fixture) {
    for queue in 0..4 {
        let directory = fixture.path(&format!("ethtool/eth9/queue-{queue}"));
        std::fs::create_dir_all(directory).unwrap();
        fixture.write(&format!("ethtool/eth9/queue-{queue}/rx-usecs"), "3");
        fixture.write(&format!("ethtool/eth9/queue-{queue}/adaptive-rx"), "1");
        let directory = fixture.path(&format!("napi/eth9/queue-{queue}"));
        std::fs::create_dir_all(directory).unwrap();
        fixture.write(&format!("napi/eth9/queue-{queue}/defer-hard-irqs"), "0");
    }
    fixture.write("ethtool/eth9/redirect-table", ["0,1,2,3"; 32].join(","));
    fixture.write("ethtool/eth9/combined-channels", "4");
}

#[test]
fn tables_channels_queues_and_napi_are_settings_like_any_other() {
    let fixture = Fixture::copy("acpi-cpufreq");
    add_card(&fixture);
    let before = fixture.snapshot();
    let mut session = fixture.session();
    for (setting, value) in [
        ("ethtool:eth9/redirect-table", "0,1,0,1"),
        ("ethtool:eth9/combined-channels", "2"),
        ("ethtool:eth9/queue-3/rx-usecs", "100"),
        ("napi:eth9/queue-1/defer-hard-irqs", "2"),
    ] {
        let setting: Setting = setting.parse().unwrap();
        assert_eq!(session.set(&setting, value).unwrap(), Outcome::Written, "{setting}");
        assert_eq!(session.access().read(&setting).unwrap(), value);
    }
    assert_eq!(session.foreign(), []);
    fixture.write("ethtool/eth9/redirect-table", "3,3,3,3");
    let [(setting, found)] = &session.foreign()[..] else { panic!("not noticed") };
    assert_eq!(
        (setting.to_string().as_str(), found.as_str()),
        ("ethtool:eth9/redirect-table", "3,3,3,3")
    );
    let table = setting.clone();
    assert!(matches!(session.set(&table, "0,0,0,0").unwrap(), Outcome::Foreign { .. }));
    fixture.write("ethtool/eth9/redirect-table", "0,1,0,1");
    assert!(session.finish().is_clean());
    assert_eq!(fixture.snapshot(), before);
}

#[test]
fn moderation_of_a_queue_switches_its_own_adaptation_off() {
    let fixture = Fixture::copy("acpi-cpufreq");
    add_card(&fixture);
    let machine = Machine::new(&fixture.tree);
    let read = |setting: &Setting| machine.read(setting);
    let changes = moderation::receive(read, "eth9", Some(2), Span::from_micros(50)).unwrap();
    let log = applied(&fixture, &changes);
    let expected = ["ethtool:eth9/queue-2/adaptive-rx = 0", "ethtool:eth9/queue-2/rx-usecs = 50"];
    assert_eq!(log, expected);
}

#[test]
fn a_plan_answers_like_a_machine_and_writes_nothing() {
    let fixture = Fixture::copy("acpi-cpufreq");
    let before = fixture.snapshot();
    let mut plan = Plan::new(Machine::new(&fixture.tree));
    let policy = &policies(&fixture)[0];
    let slow = policy.fix(policy.lowest_hertz).unwrap();
    for change in &slow {
        assert_eq!(plan.take(change).unwrap(), Outcome::Written);
        assert_eq!(plan.read(&change.setting).unwrap(), change.value);
        assert_eq!(plan.take(change).unwrap(), Outcome::Unchanged);
    }
    assert_eq!(plan.writes().len(), slow.len());
    let nowhere = Change {
        setting: "ethtool:eth0/rx-usecs".parse().unwrap(),
        value: "1".into(),
        why: "a test".into(),
    };
    assert!(plan.take(&nowhere).is_err());
    assert_eq!(fixture.snapshot(), before);
    assert!(!fixture.state().exists());
}

#[test]
fn on_exit_restores_keeps_or_leaves_the_cpus_fast() {
    for (on_exit, governor, idle) in [
        (OnExit::Restore, "schedutil", "0"),
        (OnExit::Keep, "userspace", "1"),
        (OnExit::Performance, "performance", "0"),
    ] {
        let fixture = Fixture::copy("acpi-cpufreq");
        let before = fixture.snapshot();
        let governor_file = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor";
        let governors = "sys/devices/system/cpu/cpufreq/policy0/scaling_available_governors";
        let idle_file = "sys/devices/system/cpu/cpu0/cpuidle/state2/disable";
        fixture.write(governors, "userspace performance schedutil");
        fixture.write(governor_file, "schedutil");
        fixture.write(idle_file, "0");
        let present = fixture.snapshot();
        let mut session = fixture.session();
        session.set_on_exit(on_exit);
        let policy = &policies(&fixture)[0];
        session.apply(&policy.fix(policy.lowest_hertz).unwrap());
        session.set(&format!("/{idle_file}").parse().unwrap(), "1").unwrap();
        drop(session);
        assert_eq!(fixture.value(governor_file), governor, "{on_exit:?}");
        assert_eq!(fixture.value(idle_file), idle, "{on_exit:?}");
        // From any state, a restore leads back.
        leave(Machine::new(&fixture.tree), &fixture.tree, &fixture.state(), OnExit::Restore)
            .unwrap();
        assert_eq!(fixture.snapshot(), present, "{on_exit:?}");
        fixture.put_back(&before);
    }
}
