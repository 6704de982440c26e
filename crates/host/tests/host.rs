//! The platform `host` on trees of machines with different drivers.

mod common;

use common::{CPUS, Fixture, take_all};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wattline_governor::machine::{Machine, Taken, View};
use wattline_governor::step::Step;
use wattline_host::{Host, NoWorkers, Port, Status, Work, Workers};
use wattline_knobs::{Machine as Settings, Session};
use wattline_policy::{CoreSet, FrequencyDomain, Looks, OperatingPoint, QueueView, Wait};
use wattline_units::{Hertz, Span, Time};

/// Start of the note that packets can be overtaken.
const ORDER: &str = "order of packets:";

#[test]
fn acpi_cpufreq_gives_every_knob_and_gets_everything_back() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let before = fixture.snapshot();
    let mut host = fixture.host(&[0, 1]);
    let platform = host.platform().clone();
    let gigahertz: Vec<f64> = platform.frequencies.iter().map(|f| f.gigahertz()).collect();
    assert_eq!(gigahertz, [1.6, 2.4, 3.3]);
    assert_eq!((platform.cores, platform.domain), (2, FrequencyDomain::Core));
    let names: Vec<&str> = platform.idle_states.iter().map(|state| &*state.name).collect();
    assert!(!names.contains(&"POLL") && names.len() == 2, "{names:?}");
    assert_eq!(platform.queues.len(), 2);
    let can = platform.can;
    assert!(can.set_cores && can.set_frequency && can.limit_idle && can.set_moderation);
    assert_eq!(fixture.snapshot(), before, "looking writes nothing");

    let full = host.present();
    assert_eq!(full, OperatingPoint::full(&platform));
    let mut small = full.clone();
    small.set_active(1, 0, platform.deepest());
    small.set_frequency(0);
    small.set_moderation(&platform, Span::from_micros(125));
    take_all(&mut host, &full, &small);
    // The second worker serves the queues 1 and 3.
    assert!(fixture.table().iter().all(|queue| queue % 2 == 0));
    assert_eq!(fixture.value(&format!("{CPUS}/cpufreq/policy0/scaling_governor")), "userspace");
    assert_eq!(fixture.value(&format!("{CPUS}/cpufreq/policy0/scaling_setspeed")), "1600000");
    assert_eq!(fixture.value("/ethtool/eth9/rx-usecs"), "125");
    // The active core naps in C1, the parked one may sleep deepest.
    assert_eq!(fixture.value(&format!("{CPUS}/cpu0/cpuidle/state2/disable")), "1");
    assert_eq!(fixture.value(&format!("{CPUS}/cpu1/cpuidle/state2/disable")), "0");
    take_all(&mut host, &small, &full);
    assert_eq!(fixture.value(&format!("{CPUS}/cpufreq/policy1/scaling_setspeed")), "3300000");
    assert!(fixture.table().contains(&1) && fixture.table().contains(&3));
    drop(host);
    assert_eq!(fixture.snapshot(), before);
}

/// Idle states and frequencies have many files: they are read only when a policy observes them.
#[test]
fn kernel_counters_are_read_only_on_request() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    for cpu in 0..2 {
        fixture.write(&format!("{CPUS}/cpu{cpu}/cpufreq/scaling_cur_freq"), "1600000");
    }
    let mut host = fixture.host(&[0, 1]);
    assert!(host.platform().can.sees.frequency);
    let mut view = View { looks: Looks::WHOLE, ..View::new(host.platform()) };
    let mut sees = |looks: Looks| {
        view.looks = looks;
        let now = host.now();
        host.observe(now, &mut view);
        view.cores[0].frequency.is_some()
    };
    for _ in 0..5 {
        assert!(!sees(Looks::WHOLE));
        std::thread::sleep(Duration::from_millis(12));
    }
    wattline_needs::until("they are read", || sees(Looks::WHOLE.and_counters()));
    assert!(!sees(Looks::WHOLE));
}

#[test]
fn a_driver_without_a_list_offers_even_steps_and_is_set_by_its_limits() {
    for (name, policy) in [("intel-pstate-hwp", 0), ("amd-pstate-epp", 0), ("cppc", 0)] {
        let fixture = Fixture::with_card(name);
        let limits = format!("{CPUS}/cpufreq/policy{policy}");
        let lowest = fixture.value(&format!("{limits}/cpuinfo_min_freq"));
        fixture.write(&format!("{limits}/scaling_min_freq"), &lowest);
        let before = fixture.snapshot();
        let mut host = fixture.host(&[0, 1]);
        let platform = host.platform().clone();
        platform.check().unwrap();
        if !platform.can.set_frequency {
            // The recording has only one CPU's policy.
            host = fixture.host_of_one();
        }
        let platform = host.platform().clone();
        assert!(platform.can.set_frequency, "{name}: {:?}", host.status());
        let count = platform.frequencies.len();
        assert!((2..=34).contains(&count), "{name}: {count}");
        let look = || {
            let (policies, _) = wattline_knobs::cpufreq::find(&fixture.tree);
            policies.into_iter().find(|one| one.number == policy).unwrap()
        };
        assert_eq!(platform.frequencies[0], look().lowest_hertz);
        assert_eq!(platform.frequencies[count - 1], look().highest_hertz);
        assert_eq!(host.take(&Step::Frequency { core: 0, index: 1 }), Taken::Done);
        if name == "cppc" {
            // Shared with core 1, which still requests the fastest.
            assert_eq!(platform.domain, FrequencyDomain::Chip);
            assert_eq!(look().maximum_hertz, look().highest_hertz);
            assert_eq!(host.take(&Step::Park { core: 1 }), Taken::Done);
        }
        assert_eq!(look().maximum_hertz, platform.frequencies[1], "{name}");
        assert_eq!(look().minimum_hertz, platform.frequencies[1], "{name}");
        drop(host);
        assert_eq!(fixture.snapshot(), before, "{name}");
    }
}

#[test]
fn missing_knobs_cannot_be_set_and_are_reported() {
    let fixture = Fixture::empty();
    fixture.write("/proc/sys/kernel/random/boot_id", "b");
    fixture.write("/proc/cpuinfo", "cpu MHz : 2445.4");
    let host = fixture.host(&[0, 1]);
    let can = host.platform().can;
    assert!(!(can.set_cores || can.set_frequency || can.limit_idle || can.set_moderation));
    assert_eq!(host.platform().frequencies, [Hertz(2445.4e6)]);
    let status = host.status().lock().unwrap().clone();
    for note_start in
        ["frequency: no cpufreq policy", "idle states: CPU 1", "eth9 has no indirection table"]
    {
        assert!(
            status.missing.iter().any(|note| note.contains(note_start)),
            "{note_start}: {status:?}"
        );
    }
    assert!(!status.missing.iter().any(|note| note.starts_with(ORDER)), "no entry moves");
}

#[test]
fn forbidden_states_are_not_offered_and_not_touched() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let file = |cpu: u32| format!("{CPUS}/cpu{cpu}/cpuidle/state2/disable");
    fixture.write(&file(0), "1");
    fixture.write(&file(1), "1");
    let mut host = fixture.host(&[0, 1]);
    assert_eq!(host.platform().idle_states.len(), 1);
    assert_eq!(host.take(&Step::IdleLimit { core: 0, state: 0 }), Taken::Done);
    assert!(matches!(host.take(&Step::IdleLimit { core: 0, state: 1 }), Taken::Failed { .. }));
    assert_eq!((fixture.value(&file(0)), fixture.value(&file(1))), ("1".into(), "1".into()));
}

#[test]
fn workers_without_cpus_share_one_frequency() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let mut host = fixture.host(&[]);
    assert_eq!(host.platform().domain, FrequencyDomain::Chip);
    assert!(!host.platform().can.limit_idle);
    for core in 0..2 {
        assert_eq!(host.take(&Step::Frequency { core, index: 0 }), Taken::Done);
    }
    for policy in 0..2 {
        let speed = fixture.value(&format!("{CPUS}/cpufreq/policy{policy}/scaling_setspeed"));
        assert_eq!(speed, "1600000");
    }
}

#[test]
fn foreign_changes_and_vanished_parts_are_reported_once_and_the_loop_goes_on() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let mut host = fixture.host(&[0, 1]);
    let mut view = View::default();
    let mut seconds = 0.0;
    let mut look = |host: &mut Host<Session<Settings>>| {
        seconds += 1.5;
        host.observe(Time::ZERO + Span::from_seconds(seconds), &mut view);
        assert_eq!((view.queues.len(), view.cores.len()), (2, 2));
        host.status().lock().unwrap().troubles.clone()
    };
    assert_eq!(host.take(&Step::Redirect { active: CoreSet::only(1) }), Taken::Done);
    assert_eq!(look(&mut host), Vec::<String>::new());
    fixture.write("/ethtool/eth9/redirect-table", ["0,1"; 64].join(","));
    fixture.write("/ethtool/eth9/combined-channels", "2");
    fixture.write("/sys/devices/system/cpu/online", "0");
    fs::remove_dir_all(fixture.tree.path(format!("{CPUS}/cpufreq/policy1"))).unwrap();
    let troubles = look(&mut host);
    for part in ["redirect-table: another program", "4 at the start, 2 now", "CPU 1 of worker 1"] {
        assert!(troubles.iter().any(|one| one.contains(part)), "{part}: {troubles:?}");
    }
    assert_eq!(look(&mut host).len(), troubles.len(), "reported once");
    let foreign = host.take(&Step::Redirect { active: CoreSet::first(2) });
    assert!(matches!(foreign, Taken::Foreign { .. }), "{foreign:?}");
    let gone = host.take(&Step::Frequency { core: 1, index: 0 });
    assert!(matches!(&gone, Taken::Failed { why } if why.contains("not there")), "{gone:?}");
    assert_eq!(host.take(&Step::Frequency { core: 0, index: 0 }), Taken::Done);
    let empty = host.take(&Step::Redirect { active: CoreSet::EMPTY });
    assert!(matches!(empty, Taken::Failed { .. }));
    look(&mut host);
    let writes = host.status().lock().unwrap().writes.clone();
    assert_eq!(
        writes["redirect"],
        BTreeMap::from([("done".to_owned(), 1), ("foreign".to_owned(), 1)])
    );
    assert!(writes["frequency"]["done"] > 0);
}

#[test]
fn settings_put_back_by_others_are_set_again_and_reported() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let mut host = fixture.host(&[0, 1]);
    let policy = |file: &str| format!("{CPUS}/cpufreq/policy0/{file}");
    let (governor, speed) = (policy("scaling_governor"), policy("scaling_setspeed"));
    let before = [&governor, &speed].map(|file| fixture.value(file));
    assert_eq!(host.take(&Step::Frequency { core: 0, index: 0 }), Taken::Done);
    let set = [&governor, &speed].map(|file| fixture.value(file));
    assert_eq!(set, ["userspace", "1600000"]);
    let mut view = View::default();
    let mut seconds = 0.0;
    let mut look = |host: &mut Host<Session<Settings>>| {
        seconds += 1.5;
        host.observe(Time::ZERO + Span::from_seconds(seconds), &mut view);
        host.status().lock().unwrap().troubles.clone()
    };
    assert_eq!(look(&mut host), Vec::<String>::new());
    // The kernel moves the speed with the governor, to a value that is neither the old one nor the
    // written one.
    fixture.write(&governor, &before[0]);
    fixture.write(&speed, "2000000");
    let reported = look(&mut host);
    assert_eq!([&governor, &speed].map(|file| fixture.value(file)), set);
    assert!(reported[0].contains("scaling_governor: it was put back to"), "{reported:?}");
    assert!(reported[0].ends_with("set to \"userspace\" again"), "{reported:?}");
    assert!(!reported.iter().any(|one| one.contains("the governor leaves it")), "{reported:?}");
    assert_eq!(look(&mut host), reported, "well again");
    assert!(host.into_knobs().finish().is_clean());
    assert_eq!([&governor, &speed].map(|file| fixture.value(file)), before);
}

#[test]
fn interrupts_stay_off_while_a_worker_polls_on_request() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let file = |queue: u32| format!("/napi/eth9/queue-{queue}/defer-hard-irqs");
    (0..4).for_each(|queue| fixture.write(&file(queue), "0"));
    let mut options = fixture.options(&[0, 1]);
    options.busy_poll = true;
    let mut host = Host::new(options, fixture.session(), Box::new(NoWorkers)).unwrap();
    assert_eq!(host.take(&Step::Wait { core: 1, wait: Wait::Poll }), Taken::Done);
    let values = || (0..4).map(|queue| fixture.value(&file(queue))).collect::<Vec<_>>();
    assert_eq!(values(), ["0", "2", "0", "2"]);
    assert_eq!(host.take(&Step::Wait { core: 1, wait: Wait::Interrupt }), Taken::Done);
    assert_eq!(values(), ["0", "0", "0", "0"]);
}

/// A capture cannot be moderated and sends to one core; the vacant place needs no knob.
#[test]
fn removed_port_takes_no_knob_away() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    for (queues, can) in [(0, true), (1, false)] {
        let mut options = fixture.options(&[0, 1]);
        options.layout.ports.insert(0, Port { interface: None, queues, cores: Vec::new() });
        let host = Host::new(options, fixture.session(), Box::new(NoWorkers)).unwrap();
        let platform = host.platform();
        assert_eq!((platform.can.set_cores, platform.can.set_moderation), (can, can));
        assert!(platform.queues.iter().all(|queue| queue.port == 1 || queues == 1));
    }
}

#[test]
fn a_second_governor_is_refused_while_the_first_one_runs() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let first = fixture.host(&[0, 1]);
    let state = fixture.tree.path("/var/lib/wattline");
    let second = Session::begin(Settings::new(&fixture.tree), &fixture.tree, &state);
    let error = second.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("is changing this machine's settings"), "{error}");
    drop(first);
    fixture.session();
}

/// Workers that record their commands.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Workers for Recorder {
    fn work(&mut self, worker: usize) -> Work {
        Work { packets: worker as u64, ..Work::default() }
    }
    fn queue(&mut self, worker: usize, port: usize) -> QueueView {
        QueueView { fill: (10 * port + worker) as u32, ..QueueView::default() }
    }
    fn wake(&mut self, worker: usize) {
        self.0.lock().unwrap().push(format!("wake {worker}"));
    }
    fn park(&mut self, worker: usize) {
        self.0.lock().unwrap().push(format!("park {worker}"));
    }
    fn set_wait(&mut self, worker: usize, wait: Wait) -> Result<(), String> {
        self.0.lock().unwrap().push(format!("wait {worker} {wait:?}"));
        if matches!(wait, Wait::Sleep(_)) { Err("cannot".into()) } else { Ok(()) }
    }
    fn set_batch(&mut self, packets: u32) {
        self.0.lock().unwrap().push(format!("batch {packets}"));
    }
}

/// Packets queued where entries are taken away may be overtaken: the platform says so, and counts
/// them.
#[test]
fn queued_packets_of_moved_table_entries_are_counted() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let workers = Box::new(Recorder::default());
    let mut host = Host::new(fixture.options(&[0, 1]), fixture.session(), workers).unwrap();
    let status = host.status();
    let mut view = View::default();
    let mut look = |host: &mut Host<_>, seconds: f64| {
        host.observe(Time::ZERO + Span::from_seconds(seconds), &mut view);
        status.lock().unwrap().waited_at_moves_packets
    };
    let says_order = |status: &Status| status.missing.iter().any(|note| note.starts_with(ORDER));
    assert!(says_order(&status.lock().unwrap()), "{:?}", status.lock().unwrap().missing);
    // Worker 1 has found a packet in its ring, worker 0 none.
    assert_eq!(look(&mut host, 0.001), 0);
    assert_eq!(host.take(&Step::Redirect { active: CoreSet::only(0) }), Taken::Done);
    assert_eq!(look(&mut host, 1.5), 1);
    // Worker 0 gives entries back; its queue is empty.
    assert_eq!(host.take(&Step::Redirect { active: CoreSet::first(2) }), Taken::Done);
    assert_eq!(look(&mut host, 3.0), 1);
}

#[test]
fn workers_are_watched_and_commanded() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let recorder = Recorder::default();
    let workers = Box::new(recorder.clone());
    let mut host = Host::new(fixture.options(&[0, 1]), fixture.session(), workers).unwrap();
    let mut view = View::default();
    host.observe(Time::ZERO + Span::from_millis(1), &mut view);
    assert_eq!((view.queues[1].fill, view.cores[1].packets), (1, 1));
    for step in [
        Step::Park { core: 1 },
        Step::Wake { core: 1 },
        Step::Batch { packets: 8 },
        Step::Wait { core: 0, wait: Wait::Poll },
    ] {
        assert_eq!(host.take(&step), Taken::Done);
    }
    let sleep = Step::Wait { core: 0, wait: Wait::Sleep(Span::from_micros(5)) };
    assert_eq!(host.take(&sleep), Taken::Failed { why: "cannot".into() });
    let commands = recorder.0.lock().unwrap().clone();
    assert_eq!(commands[..4], ["park 1", "wake 1", "batch 8", "wait 0 Poll"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    /// After any requests of a policy, the machine ends up as before.
    #[test]
    fn any_way_leads_back(
        moves in prop::collection::vec((1usize..3, 0usize..3, 0usize..2, 0u64..2000), 1..12),
    ) {
        let fixture = Fixture::with_card("acpi-cpufreq");
        let before = fixture.snapshot();
        let mut host = fixture.host(&[0, 1]);
        let platform = host.platform().clone();
        let mut point = host.present();
        for (cores, frequency, idle, micros) in moves {
            let mut next = point.clone();
            next.set_active(cores, idle, platform.deepest());
            next.set_frequency(frequency);
            next.set_moderation(&platform, Span::from_micros(micros));
            take_all(&mut host, &point, &next);
            let served = fixture.table().iter().all(|queue| next.active.contains(*queue as usize % 2));
            prop_assert!(served);
            point = next;
        }
        drop(host);
        prop_assert_eq!(fixture.snapshot(), before);
    }
}

/// A driver without moderation, such as veth's: NAPI's own deferral, queue by queue.
#[test]
fn without_moderation_in_the_driver_napi_defers() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let file = |queue: u32, name: &str| format!("/napi/veth9/queue-{queue}/{name}");
    for queue in 0..4 {
        fixture.write(&file(queue, "defer-hard-irqs"), "0");
        fixture.write(&file(queue, "gro-flush-timeout"), "20000");
    }
    let before = fixture.snapshot();
    let mut options = fixture.options(&[0, 1]);
    options.layout.ports[0].interface = Some("veth9".into());
    let mut host = Host::new(options, fixture.session(), Box::new(NoWorkers)).unwrap();
    assert!(host.platform().can.set_moderation, "{:?}", host.status());
    let queues = |name: &str| -> Vec<String> {
        (0..4).map(|queue| fixture.value(&file(queue, name))).collect()
    };
    let step = |period| Step::Moderation { queue: 1, period };
    let period = Span::from_micros(250);
    assert_eq!(host.take(&step(period)), Taken::Done);
    // Worker 1 serves the queues 1 and 3.
    assert_eq!(queues("gro-flush-timeout"), ["20000", "250000", "20000", "250000"]);
    assert_eq!(queues("defer-hard-irqs"), ["0", "1", "0", "1"]);
    assert_eq!(host.held(&step(period)), Some(step(period)));
    assert_eq!(host.take(&step(Span::ZERO)), Taken::Done);
    assert_eq!(
        (queues("defer-hard-irqs")[3].as_str(), host.held(&step(period))),
        ("0", Some(step(Span::ZERO)))
    );
    // As found, which differs from writing a distance of zero.
    let as_found = Step::ModerationAsFound { queue: 1, period: Span::ZERO };
    assert_eq!(host.held(&as_found), Some(step(Span::ZERO)));
    assert_eq!(host.take(&as_found), Taken::Done);
    assert_eq!(fixture.snapshot(), before);
    assert_eq!(host.held(&as_found), Some(as_found));
    drop(host);
    assert_eq!(fixture.snapshot(), before);
}

/// Without any decision: the governor checks on its own.
#[test]
fn foreign_adaptive_moderation_is_switched_off_without_a_decision() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let file = "/ethtool/eth9/adaptive-rx";
    fixture.write(file, "0");
    let mut host = fixture.host(&[0, 1]);
    let step = Step::Moderation { queue: 0, period: Span::from_micros(100) };
    let mut view = View::default();
    let mut seconds = 0.0;
    let mut look = |host: &mut Host<Session<Settings>>| {
        seconds += 1.5;
        host.observe(Time::ZERO + Span::from_seconds(seconds), &mut view);
        host.status().lock().unwrap().troubles.clone()
    };
    fixture.write(file, "1");
    assert_eq!(look(&mut host), Vec::<String>::new(), "nothing was set yet");
    assert_eq!(fixture.value(file), "1");
    assert_eq!(host.take(&step), Taken::Done);
    assert_eq!(fixture.value(file), "0");
    for _ in 0..2 {
        fixture.write(file, "1");
        let reported = look(&mut host);
        assert_eq!(fixture.value(file), "0");
        assert!(!reported.is_empty(), "it is reported");
    }
    drop(host);
    assert_eq!(fixture.value(file), "1", "the foreign value is back");
}

/// The driver's default is more than a time: its adaptive logic belongs to it.
#[test]
fn moderation_of_the_driver_is_given_back() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let files = ["/ethtool/eth9/rx-usecs", "/ethtool/eth9/adaptive-rx"];
    fixture.write(files[0], "37");
    fixture.write(files[1], "1");
    let values = || files.map(|file| fixture.value(file));
    let mut host = fixture.host(&[0, 1]);
    let found = host.platform().moderation_found.unwrap();
    assert_eq!(found, Span::from_micros(37));
    let queues = 0..host.platform().queues.len();
    let set = |host: &mut Host<Session<Settings>>, period: Span| {
        for queue in queues.clone() {
            assert_eq!(host.take(&Step::Moderation { queue, period }), Taken::Done);
        }
    };
    let leave = |host: &mut Host<Session<Settings>>, queue| {
        assert_eq!(host.take(&Step::ModerationAsFound { queue, period: found }), Taken::Done);
    };
    let held = |host: &mut Host<Session<Settings>>| {
        host.held(&Step::ModerationAsFound { queue: 0, period: found })
    };
    set(&mut host, Span::from_micros(100));
    assert_eq!(values(), ["100", "0"]);
    // The same time, and no adaptive logic that moves it.
    set(&mut host, found);
    assert_eq!(values(), ["37", "0"]);
    assert_eq!(held(&mut host), Some(Step::Moderation { queue: 0, period: found }));
    // The card has one time for both queues: it stays fixed while one queue requests that.
    leave(&mut host, 0);
    assert_eq!(values(), ["37", "0"]);
    leave(&mut host, 1);
    assert_eq!(values(), ["37", "1"]);
    let as_found = Step::ModerationAsFound { queue: 0, period: found };
    assert_eq!(held(&mut host), Some(as_found));
    // The driver moderates as it likes.
    let mut view = View::default();
    host.observe(Time::ZERO + Span::from_seconds(1.5), &mut view);
    assert_eq!(values(), ["37", "1"]);
    assert_eq!(host.status().lock().unwrap().troubles, Vec::<String>::new());
    drop(host);
    assert_eq!(values(), ["37", "1"]);
}

/// A card with a time for each queue: queues are independent of each other.
#[test]
fn queue_left_to_its_driver_keeps_its_moderation_next_to_a_set_one() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let file = |queue: u32, name: &str| format!("/ethtool/eth9/queue-{queue}/{name}");
    for queue in 0..4 {
        fixture.write(&file(queue, "rx-usecs"), "37");
        fixture.write(&file(queue, "adaptive-rx"), "1");
    }
    let before = fixture.snapshot();
    let values = || {
        let of = |name| (0..4).map(|queue| fixture.value(&file(queue, name))).collect::<Vec<_>>();
        (of("rx-usecs").join(" "), of("adaptive-rx").join(" "))
    };
    let mut host = fixture.host(&[0, 1]);
    let found = host.platform().moderation_found.unwrap();
    // Worker 0 serves the queues 0 and 2, worker 1 the queues 1 and 3.
    let left = Step::ModerationAsFound { queue: 0, period: found };
    let fixed = Step::Moderation { queue: 1, period: Span::from_micros(100) };
    for step in [left, fixed] {
        assert_eq!(host.take(&step), Taken::Done);
    }
    let set = ("37 100 37 100".to_owned(), "1 0 1 0".to_owned());
    assert_eq!(values(), set);
    let mut view = View::default();
    host.observe(Time::ZERO + Span::from_seconds(1.5), &mut view);
    assert_eq!(values(), set);
    assert_eq!(host.status().lock().unwrap().troubles, Vec::<String>::new());
    // In the other order, and with adaptive moderation actually switched on.
    for step in [fixed, left] {
        assert_eq!(host.take(&step), Taken::Done);
    }
    assert_eq!((host.held(&left), host.held(&fixed)), (Some(left), Some(fixed)));
    fixture.write(&file(3, "adaptive-rx"), "1");
    host.observe(Time::ZERO + Span::from_seconds(3.0), &mut view);
    assert_eq!(values(), set);
    let reported = host.status().lock().unwrap().troubles.join("\n");
    assert!(
        reported.contains("queue-3/adaptive-rx") && reported.contains("by another program"),
        "{reported}"
    );
    drop(host);
    assert_eq!(fixture.snapshot(), before);
}

/// Adaptive moderation would move the set time: the next decision switches it off again, and it is
/// restored in the end.
#[test]
fn foreign_adaptive_moderation_is_switched_off_with_the_next_decision() {
    for found in ["1", "0"] {
        let fixture = Fixture::with_card("acpi-cpufreq");
        fixture.write("/ethtool/eth9/adaptive-rx", found);
        let mut host = fixture.host(&[0, 1]);
        let step = |micros| Step::Moderation { queue: 0, period: Span::from_micros(micros) };
        for micros in [100, 200] {
            assert_eq!(host.take(&step(micros)), Taken::Done);
            assert_eq!(fixture.value("/ethtool/eth9/adaptive-rx"), "0");
            fixture.write("/ethtool/eth9/adaptive-rx", "1");
        }
        drop(host);
        assert_eq!(fixture.value("/ethtool/eth9/adaptive-rx"), "1");
    }
}
