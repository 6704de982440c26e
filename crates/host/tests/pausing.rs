//! A governor that ends while its process goes on, as when ports change: it restores everything,
//! and a knob that hangs delays it only briefly.

mod common;

use common::{CPUS, Fixture};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};
use wattline_governor::machine::Machine;
use wattline_governor::step::Step;
use wattline_host::{
    Ending, NoWorkers, Supervision, TakeOverError, ThisMachine, hand_back, take_over, take_over_by,
};
use wattline_knobs::{Access, Bounded, Machine as Settings, OnExit, SessionError};
use wattline_policies::POLICIES;
use wattline_policy::{BuildContext, build};

/// Far less than the 10 s of systemd's watchdog for the router, and more than a busy machine needs.
const SOON: Duration = Duration::from_secs(5);

/// Takes over a machine and slows its two cores to their lowest frequency.
fn slowed(fixture: &Fixture, on_exit: OnExit) -> (ThisMachine, Supervision) {
    let options = fixture.options(&[0, 1]);
    let (mut machine, supervision) = take_over(options, on_exit, Box::new(NoWorkers)).unwrap();
    machine.present();
    slow_down(&mut machine);
    (machine, supervision)
}

fn slow_down(machine: &mut ThisMachine) {
    for core in 0..2 {
        machine.take(&Step::Frequency { core, index: 0 });
    }
}

fn speeds(fixture: &Fixture) -> [[String; 2]; 2] {
    [0, 1].map(|policy| {
        ["scaling_governor", "scaling_setspeed"]
            .map(|file| fixture.value(&format!("{CPUS}/cpufreq/policy{policy}/{file}")))
    })
}

#[test]
fn pause_restores_regardless_of_on_exit() {
    for (_, on_exit) in OnExit::ALL {
        let fixture = Fixture::with_card("acpi-cpufreq");
        let journal = fixture.tree.path("/var/lib/wattline/knobs.journal");
        let before = speeds(&fixture);
        let (machine, supervision) = slowed(&fixture, on_exit);
        assert_ne!(speeds(&fixture), before);
        hand_back(Some(machine), supervision, Ending::Pause).unwrap();
        assert_eq!(speeds(&fixture), before, "{on_exit:?}");
        assert!(!journal.exists(), "{on_exit:?}");

        let (machine, supervision) = slowed(&fixture, on_exit);
        let governed = speeds(&fixture);
        hand_back(Some(machine), supervision, Ending::Final).unwrap();
        let left = speeds(&fixture);
        match on_exit {
            OnExit::Restore => assert_eq!(left, before),
            OnExit::Keep => assert_eq!(left, governed),
            OnExit::Performance => {
                assert!(left.iter().all(|it| it[0] == "performance"), "{left:?}")
            }
        }
    }
}

#[test]
fn unfit_policy_leaves_no_trace() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let before = speeds(&fixture);
    let access = Bounded::new(Settings::new(&fixture.tree));
    let made = |machine: &mut ThisMachine| {
        let spec = POLICIES.parse("oracle").unwrap();
        let platform = machine.platform();
        build(&spec, &BuildContext { platform, server: None, packet: None, seed: 0 })
    };
    let options = fixture.options(&[0, 1]);
    let begun = take_over_by(access, options, OnExit::Keep, Box::new(NoWorkers), made);
    let Err(error) = begun else { panic!("it fits") };
    assert!(matches!(error, TakeOverError::Policy(_)), "{error}");
    assert_eq!(speeds(&fixture), before);
    assert!(!fixture.tree.path("/var/lib/wattline/knobs.journal").exists());
}

/// A pipe without a reader stands for the file of a driver that hangs.
#[test]
fn hanging_knob_delays_end_and_restart_only_briefly() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let pipe = fixture.tree.path(format!("{CPUS}/cpufreq/policy1/scaling_setspeed"));
    fs::remove_file(&pipe).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();
    let before = speeds(&fixture);
    let access = Bounded::new(Settings::new(&fixture.tree));
    access.hurry(true);
    let begin = || {
        let (access, options) = (access.clone(), fixture.options(&[0, 1]));
        take_over_by(access, options, OnExit::Restore, Box::new(NoWorkers), |_| Ok(()))
    };
    let (mut machine, (), supervision) = begin().unwrap();
    machine.present();
    slow_down(&mut machine);

    let begun = Instant::now();
    let left = hand_back(Some(machine), supervision, Ending::Pause);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    assert!(matches!(left, Err(TakeOverError::Unrestored(_))), "{left:?}");
    for _ in 0..100 {
        let Err(error) = begin() else { panic!("it would lose old values") };
        let unrestored = matches!(error, TakeOverError::Session(SessionError::Unrestored(..)));
        assert!(unrestored, "{error}");
    }
    assert!(begun.elapsed() < SOON, "{:?} after a hundred tries", begun.elapsed());
    assert_eq!(access.stuck().len(), 1, "one thread waits for it");

    // The driver answers.
    let at_once = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let reader = File::options().read(true).custom_flags(at_once).open(&pipe).unwrap();
    wattline_needs::until("it answers", || {
        fs::metadata(&pipe).is_ok_and(|it| it.is_file()) && access.stuck().is_empty()
    });
    drop(reader);
    let (machine, (), supervision) = begin().unwrap();
    assert_eq!(speeds(&fixture), before, "the next session restored the rest");
    hand_back(Some(machine), supervision, Ending::Pause).unwrap();
}

/// This program has no command `guard`, so its watchdog ends as if it had been killed.
#[test]
fn ended_watchdog_is_reported_as_trouble() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let (machine, supervision) = slowed(&fixture, OnExit::Restore);
    let troubles = || supervision.status().troubles;
    wattline_needs::until_or(
        || troubles().iter().any(|it| it.contains("wattline restore")),
        || format!("{:?}", troubles()),
    );
    hand_back(Some(machine), supervision, Ending::Pause).unwrap();
}
