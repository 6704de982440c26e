//! A knob whose driver hangs: the governor goes on with the others, and uses the knob again once it
//! answers. A pipe without a reader stands for its file.

mod common;

use common::{CPUS, Fixture};
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use wattline_governor::Governor;
use wattline_governor::machine::Machine;
use wattline_governor::runner::Runner;
use wattline_host::{Host, NoWorkers};
use wattline_knobs::{Bounded, Machine as Settings};
use wattline_needs::until;
use wattline_policy::{AskAgain, Observation, OperatingPoint, Policy};
use wattline_units::Span;

/// Generous, for slow test machines.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests the lowest and the highest frequency in turn.
struct Restless(bool);

impl Policy for Restless {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        self.0 = !self.0;
        point.set_frequency(if self.0 { 0 } else { seen.platform.fastest() });
        AskAgain { at: seen.now + Span::from_millis(2), ..AskAgain::NEVER }
    }
}

#[test]
fn hanging_knob_is_left_out_until_it_answers_and_the_rest_is_governed() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let speed = |policy: u32| format!("{CPUS}/cpufreq/policy{policy}/scaling_setspeed");
    let (well, before) = (speed(0), fixture.value(&speed(0)));
    let pipe = fixture.tree.path(speed(1));
    fs::remove_file(&pipe).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, mode).unwrap();

    let access = Bounded::within(Settings::new(&fixture.tree), Duration::from_millis(200));
    let session = fixture.session_by(access);
    let host = Host::new(fixture.options(&[0, 1]), session, Box::new(NoWorkers)).unwrap();
    let (status, fastest) = (host.status(), host.platform().fastest());
    let governor = Governor::new(host, Box::new(Restless(false)));
    let runner = Runner::start(governor, Duration::from_millis(1)).unwrap();
    let core = |core: usize| {
        let look = runner.look(PATIENCE, |governor| governor.point().cores[core].frequency);
        look.expect("the governor answers")
    };

    until("it is named", || !status.lock().unwrap().stuck.is_empty());
    let status_now = status.lock().unwrap().clone();
    assert!(
        status_now.stuck.len() == 1 && status_now.stuck[0].setting == speed(1),
        "{status_now:?}"
    );
    assert!(status_now.stuck[0].stuck_seconds > 0.0);
    assert!(status_now.troubles.iter().any(|one| one.contains(&speed(1))), "{status_now:?}");
    let decisions = || runner.totals(PATIENCE).unwrap().own.decisions;
    let first = decisions();
    for wanted in ["1600000", "3300000"] {
        until("the other core follows", || fixture.value(&well) == wanted);
    }
    until("decisions go on", || decisions() > first + 100);
    assert_eq!(core(1), fastest, "as it was");

    // The driver accepts the pending write.
    let at_once = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let reader = File::options().read(true).custom_flags(at_once).open(&pipe).unwrap();
    until("the write came back", || fs::metadata(&pipe).is_ok_and(|it| it.is_file()));
    drop(reader);
    until("it is governed again", || core(1) == 0);
    until("it is reported", || {
        let status_now = status.lock().unwrap();
        let again = |one: &String| one.contains(&speed(1)) && one.contains("answers again");
        status_now.stuck.is_empty() && status_now.troubles.iter().any(again)
    });
    let knobs = runner.end().unwrap().into_machine().into_knobs();
    let report = knobs.leave().unwrap();
    assert_eq!(report.failures().count(), 0, "{report:?}");
    assert_eq!(fixture.value(&well), before);
    assert!(!fixture.path("/var/lib/wattline/knobs.journal").exists());
}
