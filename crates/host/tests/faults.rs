//! Faults under a governor: knobs that fail in every way, rights that are missing, policies that
//! ask for the impossible, load that comes and goes at any pace.

mod common;

use common::{CPUS, Fixture};
use proptest::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wattline_governor::Governor;
use wattline_governor::machine::{Machine, Notice, Taken};
use wattline_governor::step::Step;
use wattline_host::{Host, NoWorkers, Streak, Work, Workers};
use wattline_knobs::{AccessError, Knobs, Setting};
use wattline_linux::privileges::Rights;
use wattline_policies::POLICIES;
use wattline_policy::{
    AskAgain, BuildContext, CoreSet, Observation, OperatingPoint, Policy, QueueEstimator,
    QueueView, Streaks, Trigger, Wait, build,
};
use wattline_units::{Span, Time};

/// Fault of a knob.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Nothing: it works.
    None,
    Disappears,
    Refuses,
    Forbids,
    Garbles,
    Blocks,
}

impl Fault {
    /// Returns the value that a driver with this fault makes of a written one.
    fn made_of(self, setting: &Setting, value: &str) -> Result<String, AccessError> {
        let setting_of = || setting.clone();
        match self {
            Self::None => {}
            Self::Disappears => return Err(AccessError::Missing(setting_of())),
            Self::Forbids => return Err(AccessError::NoPermission(setting_of())),
            Self::Refuses => {
                let reason = "Device or resource busy".to_owned();
                return Err(AccessError::Refused { setting: setting_of(), reason });
            }
            Self::Garbles => return Ok("4294967295".to_owned()),
            Self::Blocks => std::thread::sleep(Duration::from_millis(3)),
        }
        Ok(value.to_owned())
    }
}

/// Requested streaks of a core, and its estimator with the arrivals counted so far.
type Counts = (Option<Streaks>, QueueEstimator, u64);

/// Work of two cores, with a fixed amount per millisecond at each of three frequencies.
#[derive(Clone)]
struct Load {
    waiting: Arc<Mutex<[u64; 2]>>,
    arrived: Arc<Mutex<[u64; 2]>>,
    silent: Arc<Mutex<[Span; 2]>>,
    /// By core.
    counts: Arc<Mutex<[Counts; 2]>>,
}

impl Default for Load {
    fn default() -> Self {
        let counts = std::array::from_fn(|_| (None, QueueEstimator::new(1), 0));
        Self {
            waiting: Arc::default(),
            arrived: Arc::default(),
            silent: Arc::default(),
            counts: Arc::new(Mutex::new(counts)),
        }
    }
}

const PER_MILLISECOND: [u64; 3] = [100, 150, 200];
const RING: u64 = 2048;

impl Workers for Load {
    fn work(&mut self, worker: usize) -> Work {
        Work { packets: self.arrived.lock().unwrap()[worker], ..Work::default() }
    }
    fn queue(&mut self, worker: usize, _: usize) -> QueueView {
        let fill = self.waiting.lock().unwrap()[worker] as u32;
        QueueView { fill, arrivals: self.arrived.lock().unwrap()[worker], ..QueueView::default() }
    }
    fn wake(&mut self, _: usize) {}
    fn park(&mut self, _: usize) {}
    fn set_wait(&mut self, _: usize, _: Wait) -> Result<(), String> {
        Ok(())
    }
    fn set_batch(&mut self, _: u32) {}
    fn count_streaks(&mut self) -> bool {
        true
    }
    fn watch(&mut self, worker: usize, streaks: Option<Streaks>) {
        let (asked, estimator, _) = &mut self.counts.lock().unwrap()[worker];
        *asked = streaks;
        if let Some(streaks) = streaks {
            estimator.start(Time::ZERO, streaks.rule);
        }
    }
    fn streak(&mut self, now: Time, worker: usize) -> Option<Streak> {
        let view = self.queue(worker, 0);
        let (streaks, estimator, seen) = &mut self.counts.lock().unwrap()[worker];
        if std::mem::replace(seen, view.arrivals) == view.arrivals {
            return None;
        }
        let above = estimator.batch(now, 0, view.fill.max(1), view.fill.max(1))?;
        streaks.as_ref()?.asks(above).then_some(Streak { port: 0, above })
    }
    fn silent_for(&mut self, worker: usize) -> Span {
        self.silent.lock().unwrap()[worker]
    }
}

impl Load {
    /// Lets this many packets arrive within a millisecond, at the cores of the table. The fill of a
    /// core's first batch is its unfinished work.
    fn pass(&self, packets: u64, point: &OperatingPoint) {
        let (mut waiting, mut arrived) =
            (self.waiting.lock().unwrap(), self.arrived.lock().unwrap());
        for core in 0..2 {
            let share = match point.active.contains(core) {
                true => packets / point.active.len() as u64,
                false => 0,
            };
            arrived[core] += share;
            let silent = &mut self.silent.lock().unwrap()[core];
            *silent = if share > 0 { Span::ZERO } else { *silent + Span::from_millis(1) };
            let done = PER_MILLISECOND[point.cores[core].frequency];
            waiting[core] = (waiting[core] + share).saturating_sub(done).min(RING);
        }
    }
}

fn policy(text: &str, host: &impl Machine) -> Box<dyn Policy> {
    let spec = POLICIES.parse(text).unwrap();
    let platform = host.platform();
    build(&spec, &BuildContext { platform, server: None, packet: None, seed: 0 }).unwrap()
}

/// Asks as the governor's thread does: batches first, then everything that is due.
fn ask<K: Knobs>(governor: &mut Governor<Host<K>>, now: Time) {
    let queues: Vec<QueueView> = governor.look(now).queues.clone();
    for (queue, view) in queues.iter().enumerate().filter(|(_, view)| view.fill > 0) {
        governor.trigger(now, Trigger::Batch { queue, taken: view.fill, batches: 1 });
    }
    // At most one event and one silence of each core.
    for _ in 0..4 {
        match governor.machine().notice(now) {
            Notice::Event(trigger) => governor.trigger(now, trigger),
            Notice::Nothing { .. } => break,
        };
    }
    governor.trigger(now, Trigger::Timer);
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => Just(Fault::None),
        1 => Just(Fault::Disappears),
        1 => Just(Fault::Refuses),
        1 => Just(Fault::Forbids),
        1 => Just(Fault::Garbles),
        1 => Just(Fault::Blocks),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// Whichever writes fail and however, the loop goes on and counts them, and the machine ends up
    /// as before.
    #[test]
    fn failing_knobs_stop_nothing_and_leave_nothing(
        faults in prop::collection::vec(any_fault(), 1..80),
        loads in prop::collection::vec(0u64..600, 1..40),
    ) {
        let fixture = Fixture::with_card("acpi-cpufreq");
        let before = fixture.snapshot();
        let (faults, met) = (Arc::new(Mutex::new(faults)), Arc::new(AtomicUsize::new(0)));
        let (left, count) = (faults.clone(), met.clone());
        // One after the other, while any are left.
        let session = fixture.ruled(move |setting, value| {
            let fault = left.lock().unwrap().pop().unwrap_or(Fault::None);
            let is_met = !matches!(fault, Fault::None | Fault::Blocks);
            count.fetch_add(usize::from(is_met), Ordering::Relaxed);
            fault.made_of(setting, value)
        });
        let load = Load::default();
        let host = Host::new(fixture.options(&[0, 1]), session, Box::new(load.clone())).unwrap();
        let status = host.status();
        let policy = policy("queue-length:c_down=2,silence=5ms", &host);
        let mut governor = Governor::new(host, policy);
        governor.start(Time::ZERO);
        let mut now = Time::ZERO;
        for packets in loads {
            // A failed knob rests for a second.
            for _ in 0..4 {
                now += Span::from_millis(400);
                load.pass(packets, governor.point());
                ask(&mut governor, now);
            }
            let serving = governor.point().active;
            prop_assert!(!serving.is_empty());
            // Packets go to awake cores, whatever failed.
            let table = fixture.value("/ethtool/eth9/redirect-table");
            if let Some(queues) = wattline_knobs::redirect::from_text(&table)
                && queues.iter().all(|queue| *queue < 4)
            {
                let led: CoreSet = queues.iter().map(|queue| *queue as usize % 2).collect();
                let astray = led.without(serving);
                prop_assert!(astray.is_empty(), "{led:?} of {serving:?}");
            }
        }
        // Writes after the last look are reported with the next.
        governor.look(now + Span::from_seconds(10.0));
        let writes = status.lock().unwrap().writes.clone();
        let counted: u64 = writes.values().flat_map(|by| by.iter())
            .filter(|(outcome, _)| **outcome != "done").map(|(_, count)| count).sum();
        prop_assert!(counted >= met.load(Ordering::Relaxed) as u64, "{writes:?}");
        faults.lock().unwrap().clear();
        drop(governor);
        prop_assert_eq!(fixture.snapshot(), before);
    }
}

/// Returns the machine's frequencies and number of queues in use.
fn rung(fixture: &Fixture) -> (Vec<String>, usize) {
    let speed = |policy| fixture.value(&format!("{CPUS}/cpufreq/policy{policy}/scaling_setspeed"));
    let mut cores: Vec<u32> = fixture.table().iter().map(|queue| queue % 2).collect();
    cores.sort_unstable();
    cores.dedup();
    ((0..2).map(speed).collect(), cores.len())
}

/// From no load to full load and back, in one step and in bursts of every length: the machine
/// follows lasting changes, and always comes to rest.
#[test]
fn a_load_step_and_bursts_of_every_length_are_followed_down_to_rest() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let before = fixture.snapshot();
    let load = Load::default();
    let session = fixture.session();
    let host = Host::new(fixture.options(&[0, 1]), session, Box::new(load.clone())).unwrap();
    let policy = policy("queue-length", &host);
    let mut governor = Governor::new(host, policy);
    governor.start(Time::ZERO);
    let lowest = || (vec!["1600000".to_owned(); 2], 1);
    assert_eq!(rung(&fixture), lowest());
    let mut now = Time::ZERO;
    let mut pass = |governor: &mut Governor<_>, milliseconds: u64, packets: u64| {
        for _ in 0..milliseconds {
            now += Span::from_millis(1);
            load.pass(packets, governor.point());
            ask(governor, now);
        }
    };
    // As much as both cores can do at their fastest.
    let full = 2 * PER_MILLISECOND[2];
    pass(&mut governor, 20, full);
    assert_eq!(rung(&fixture), (vec!["3300000".to_owned(); 2], 2));
    pass(&mut governor, 100, 0);
    assert_eq!(rung(&fixture), lowest(), "after the step");
    for burst in (0..=9).map(|power| 1 << power) {
        for _ in 0..3 {
            pass(&mut governor, burst, full);
            pass(&mut governor, burst, 0);
        }
        pass(&mut governor, 100, 0);
        assert_eq!(rung(&fixture), lowest(), "after bursts of {burst} ms");
    }
    let totals = governor.loop_totals(now);
    assert_eq!(totals.failed, 0);
    drop(governor);
    assert_eq!(fixture.snapshot(), before);
}

/// Requests settings that no machine has.
struct Greedy;

impl Policy for Greedy {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        point.active = CoreSet::only(77);
        for core in &mut point.cores {
            core.frequency = 999;
            core.idle_limit = 999;
            core.wait = Wait::Sleep(Span::from_millis(u64::MAX));
        }
        point.moderation.fill(Span::from_millis(3_600_000));
        point.batch = 0;
        AskAgain { at: seen.now, ..AskAgain::NEVER }
    }
}

#[test]
fn greedy_policy_gets_the_available_settings() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let before = fixture.snapshot();
    let mut governor = Governor::new(fixture.host(&[0, 1]), Box::new(Greedy));
    governor.start(Time::ZERO);
    let now = Time::ZERO + Span::from_millis(1);
    assert!(governor.trigger(now, Trigger::Timer));
    assert!(governor.ask().at > now, "it cannot be asked without end");
    let (point, platform) = (governor.point().clone(), governor.platform().clone());
    assert_eq!(point.active, CoreSet::first(2), "none of those that it named is there");
    assert!(point.cores.iter().all(|core| core.frequency == platform.fastest()));
    assert!(point.cores.iter().all(|core| core.idle_limit == platform.deepest()));
    assert!(point.moderation.iter().all(|period| *period <= platform.moderation.1));
    assert_eq!(point.batch, 1);
    drop(governor);
    assert_eq!(fixture.snapshot(), before);
}

/// It is no knob. It was never written, so no program has put it back.
#[test]
fn unsettable_moderation_is_named_once_and_dropped() {
    for defers in [false, true] {
        let fixture = Fixture::with_card("acpi-cpufreq");
        fixture.write("/ethtool/eth9/rx-usecs", "3");
        let file = |queue: u32, name: &str| format!("/napi/eth9/queue-{queue}/{name}");
        for queue in (0..4).filter(|_| defers) {
            fixture.write(&file(queue, "defer-hard-irqs"), "0");
            fixture.write(&file(queue, "gro-flush-timeout"), "0");
        }
        let before = fixture.snapshot();
        // It shows a moderation and rejects writes, as virtio_net does on some hosts.
        let session = fixture.ruled(|setting, value| match setting {
            Setting::Coalesce { .. } => Err(AccessError::Unsupported(setting.clone())),
            _ => Ok(value.to_owned()),
        });
        let options = fixture.options(&[0, 1]);
        let mut host = Host::new(options, session, Box::new(NoWorkers)).unwrap();
        let status = host.status();
        let mut view = wattline_governor::machine::View::default();
        let period = Span::from_micros(100);
        for second in 1..4 {
            for queue in 0..2 {
                let taken = host.take(&Step::Moderation { queue, period });
                assert_eq!(taken == Taken::Done, defers, "{taken:?}");
            }
            host.observe(Time::ZERO + Span::from_seconds(1.5 * f64::from(second)), &mut view);
        }
        // By NAPI's own deferral if available.
        assert_eq!(host.platform().can.set_moderation, defers);
        if defers {
            assert_eq!(fixture.value(&file(3, "gro-flush-timeout")), "100000");
        }
        let status = status.lock().unwrap().clone();
        assert_eq!(status.troubles, Vec::<String>::new());
        let named: Vec<_> =
            status.missing.iter().filter(|one| one.contains("moderation")).collect();
        assert_eq!(named.len(), 1, "{named:?}");
        assert!(named[0].contains("Operation not supported"), "{named:?}");
        assert_eq!(named[0].contains("deferred by NAPI"), defers, "{named:?}");
        drop(host);
        assert_eq!(fixture.snapshot(), before);
    }
}

/// A driver that rejects a value each time: no program has put anything back.
#[test]
fn refused_setting_is_not_put_back() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let mut refusals = 3_i32;
    let mut session = fixture.ruled(move |setting, value| {
        let fault = if refusals > 0 { Fault::Refuses } else { Fault::None };
        refusals -= 1;
        fault.made_of(setting, value)
    });
    let setting: Setting = "ethtool:eth9/rx-usecs".parse().unwrap();
    let old = fixture.value("/ethtool/eth9/rx-usecs");
    for _ in 0..3 {
        assert!(session.set(&setting, "77").is_err());
        assert_eq!(session.put_back(), Vec::new());
    }
    // Once it has been written, it can be put back.
    assert!(session.set(&setting, "77").is_ok());
    fixture.write("/ethtool/eth9/rx-usecs", &old);
    assert_eq!(session.put_back().len(), 1);
}

/// Requests the slowest frequency, every ten milliseconds.
struct Slow;

impl Policy for Slow {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        point.set_frequency(0);
        AskAgain::at(seen.now + Span::from_millis(10))
    }
}

#[test]
fn altered_frequency_is_neither_reported_nor_counted() {
    for (refused, first, then) in [("1600000", 2, 1), ("3300000", 1, 0)] {
        let fixture = Fixture::with_card("acpi-cpufreq");
        let before = fixture.snapshot();
        // The driver, or the firmware behind it, runs at 2.4 GHz when asked for another speed.
        let session = fixture.ruled(move |setting, value| {
            let bent = setting.to_string().ends_with("scaling_setspeed") && value == refused;
            Ok(if bent { "2400000" } else { value }.to_owned())
        });
        let host = Host::new(fixture.options(&[0, 1]), session, Box::new(NoWorkers)).unwrap();
        let mut governor = Governor::new(host, Box::new(Slow));
        let frequency = |governor: &Governor<_>| {
            let cores = &governor.point().cores;
            assert!(cores.iter().all(|core| core.frequency == cores[0].frequency));
            cores[0].frequency
        };
        assert_eq!(frequency(&governor), first, "before {refused}");
        governor.start(Time::ZERO);
        assert_eq!(frequency(&governor), then, "after {refused}");
        let second = Time::ZERO + Span::from_seconds(1.0);
        let totals = governor.loop_totals(second);
        let hertz = governor.platform().frequencies[then].get();
        assert_eq!(totals.active_core_cycles, totals.active_core_seconds * hertz);
        // The knob rests for a second, then is tried again.
        let altered = if refused == "1600000" { 2 } else { 0 };
        assert_eq!((totals.frequency_changes, totals.altered), (1, altered));
        governor.trigger(second + Span::from_millis(10), Trigger::Timer);
        assert_eq!(governor.loop_totals(second).altered, altered * 2);
        assert_eq!(frequency(&governor), then);
        drop(governor);
        assert_eq!(fixture.snapshot(), before);
    }
}

/// Lets cores sleep in the lightest state only.
struct Light;

impl Policy for Light {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        point.cores.iter_mut().for_each(|core| core.idle_limit = 0);
        AskAgain::at(seen.now + Span::from_millis(10))
    }
}

#[test]
fn altered_idle_limit_is_not_reported() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    // A kernel that ignores forbidden idle states.
    let session = fixture.ruled(|setting, value| {
        let forbids = setting.to_string().ends_with("/disable");
        Ok(if forbids { "0" } else { value }.to_owned())
    });
    let host = Host::new(fixture.options(&[0, 1]), session, Box::new(NoWorkers)).unwrap();
    let deepest = host.platform().deepest();
    assert!(deepest > 0 && host.platform().can.limit_idle);
    let mut governor = Governor::new(host, Box::new(Light));
    governor.start(Time::ZERO);
    assert!(governor.point().cores.iter().all(|core| core.idle_limit == deepest));
    assert!(governor.loop_totals(Time::ZERO).altered > 0);
}

/// A missing right takes away only the knobs that need it.
#[test]
fn without_a_right_the_rest_is_governed() {
    for (rights, cards, states) in [
        (Rights::ALL, true, "cpuidle/state2/disable"),
        (Rights::ALL.after_drop(), true, "power/pm_qos_resume_latency_us"),
        (Rights { set_cards: false, ..Rights::ALL }, false, "cpuidle/state2/disable"),
    ] {
        let fixture = Fixture::with_card("acpi-cpufreq");
        let before = fixture.snapshot();
        let mut options = fixture.options(&[0, 1]);
        options.rights = rights;
        let mut host = Host::new(options, fixture.session(), Box::new(NoWorkers)).unwrap();
        let can = host.platform().can;
        assert_eq!((can.set_cores, can.set_moderation), (cards, cards), "{rights:?}");
        assert!(can.set_frequency && can.limit_idle, "{rights:?}");
        host.present();
        let after = fixture.snapshot();
        let changed = |part: &str| {
            let file = fixture.tree.path(format!("{CPUS}/cpu0/{part}"));
            before[&file] != after[&file]
        };
        assert!(changed(states), "{rights:?}: by {states}");
        let others = ["cpuidle/state2/disable", "power/pm_qos_resume_latency_us"];
        let other = others.into_iter().find(|one| *one != states).unwrap();
        assert!(!changed(other), "{rights:?}: not by {other}");
        drop(host);
        assert_eq!(fixture.snapshot(), before);
    }
}
