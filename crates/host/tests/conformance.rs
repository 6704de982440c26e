//! This machine's platform does what it promises to policies, on trees of machines with different
//! drivers.

mod common;

use common::Fixture;
use std::time::{Duration, Instant};
use wattline_governor::Governor;
use wattline_governor::conformance::{Circumstances, probe};
use wattline_governor::latency::{LatencySource, LatencySummary, Origin, Quantile, Refused};
use wattline_governor::machine::Machine as _;
use wattline_governor::runner::Runner;
use wattline_host::{Host, HostOptions, NoWorkers, Work, Workers};
use wattline_knobs::{Machine as Settings, Session};
use wattline_linux::sysfs::Tree;
use wattline_policy::{Can, QueueView, Trigger, Wait};
use wattline_units::{Span, Time};

/// Knows one latency.
struct Known;

impl LatencySource for Known {
    fn origin(&self) -> Origin {
        Origin::Clients
    }
    fn summary(&self, _: Time) -> Option<LatencySummary> {
        let span = Span::from_micros(100);
        let known = Quantile::Within { estimate: span, upper: span };
        Some(LatencySummary {
            origin: Origin::Clients,
            samples: 10,
            age: Span::ZERO,
            window: Span::ZERO,
            mean: None,
            p50: known,
            p95: known,
            p99: known,
        })
    }
    fn counts_late(&self) -> bool {
        true
    }
    fn refused(&self) -> Refused {
        Refused::default()
    }
}

/// What a probe finds on a machine, and what that machine said that it can.
fn complaints(mut host: Host<Session<Settings>>, latency: bool) -> (Vec<String>, Can) {
    if latency {
        host.attach_latency(Box::new(Known));
    }
    let platform = host.platform().clone();
    // Nothing arrives, and a recorded tree does not change its own figures.
    let circumstances =
        Circumstances { period: Span::from_millis(20), traffic: false, frequency_follows: false };
    let (policy, findings) = probe(&platform, circumstances);
    let mut governor = Governor::new(host, policy);
    governor.start(Time::ZERO);
    for _ in 0..100 {
        if findings.are_complete() {
            break;
        }
        let due = governor.ask().at;
        governor.trigger(due, Trigger::Timer);
        // The thread that reads the kernel's counters is asked at one look and seen at a later.
        std::thread::sleep(Duration::from_millis(2));
    }
    (findings.complaints(), platform.can)
}

fn machine(fixture: &Fixture, options: HostOptions) -> Host<Session<Settings>> {
    Host::new(options, fixture.session(), Box::new(NoWorkers)).unwrap()
}

#[test]
fn recorded_machines_keep_their_word() {
    for name in ["acpi-cpufreq", "intel-pstate-hwp", "amd-pstate-epp", "cppc"] {
        let fixture = Fixture::with_card(name);
        let before = fixture.snapshot();
        let mut options = fixture.options(&[0, 1]);
        options.uncore = true;
        let (complaints, can) = complaints(machine(&fixture, options), name == "cppc");
        assert_eq!(complaints, Vec::<String>::new(), "{name}");
        assert!(can.set_cores && can.set_weights && !can.waits.pause && !can.waits.sleep);
        assert_eq!(can.set_uncore, name == "intel-pstate-hwp");
        assert_eq!((can.sees.latency, can.sees.late), (name == "cppc", name == "cppc"));
        assert_eq!(fixture.snapshot(), before, "{name}: everything is given back");
    }
}

/// Files of the kernel that recordings lack: then more is promised, and shown.
#[test]
fn what_the_kernel_counts_is_promised_and_shown() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    fixture.write("/proc/stat", "cpu 0 0 0 0 0 0 0\ncpu0 1 0 0 9 0 0 50 0\ncpu1 1 0 0 9 0 0 70 0");
    for cpu in 0..2 {
        let cpu = format!("{}/cpu{cpu}", common::CPUS);
        fixture.write(&format!("{cpu}/cpufreq/scaling_cur_freq"), "2400000");
        for state in fixture.tree.numbered(format!("{cpu}/cpuidle"), "state") {
            fixture.write(&format!("{cpu}/cpuidle/{}/time", state.1), "1000000");
        }
    }
    let host = machine(&fixture, fixture.options(&[0, 1]));
    let (found, can) = complaints(host, false);
    assert_eq!(found, Vec::<String>::new());
    assert!(can.sees.softirq && can.sees.residency && can.sees.frequency);
    assert!(!can.sees.power && !can.sees.latency, "no meter is read, no source is attached");

    // Of the time since the start, in the states that are offered, as the kernel counts it.
    let mut host = machine(&fixture, fixture.options(&[0, 1]));
    let platform = host.platform().clone();
    let states = fixture.tree.numbered(format!("{}/cpu1/cpuidle", common::CPUS), "state");
    let deepest = &states.last().unwrap().1;
    fixture.write(&format!("{}/cpu1/cpuidle/{deepest}/time", common::CPUS), "1250000");
    fixture.write("/proc/stat", "cpu0 1 0 0 9 0 0 50 0\ncpu1 1 0 0 9 0 0 75 0");
    let mut view = wattline_governor::machine::View::of(&platform);
    for turn in 1..=100 {
        host.observe(Time::ZERO + Span::from_millis(20 * turn), &mut view);
        std::thread::sleep(Duration::from_millis(2));
        if view.cores[1].softirq > Some(Span::ZERO) {
            break;
        }
    }
    let core = &view.cores[1];
    assert_eq!(core.softirq, Some(Span::from_millis(50)));
    assert_eq!(core.residency.unwrap()[platform.deepest()], Span::from_millis(250));
    assert_eq!(core.frequency.map(|f| f.gigahertz()), Some(2.4));
    assert_eq!(view.cores[0].residency.unwrap()[platform.deepest()], Span::ZERO);
}

#[test]
fn a_policy_sees_the_latency_of_an_attached_source_and_no_other() {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let mut host = machine(&fixture, fixture.options(&[0, 1]));
    let mut view = wattline_governor::machine::View::of(host.platform());
    view.looks = wattline_policy::Looks::WHOLE.and_latency();
    host.observe(Time::ZERO + Span::from_millis(1), &mut view);
    assert_eq!(view.latency, None);
    host.attach_latency(Box::new(Known));
    host.observe(Time::ZERO + Span::from_millis(2), &mut view);
    assert_eq!(view.latency.unwrap().p99, Span::from_micros(100));
    view.looks = wattline_policy::Looks::WHOLE;
    host.observe(Time::ZERO + Span::from_millis(3), &mut view);
    assert_eq!(view.latency, None, "nobody looks");
}

/// Two workers and an emulated card. At each look a worker gets one packet if an entry of the card's
/// table, which the platform writes, leads to one of its queues.
struct Loaded {
    tree: Tree,
    /// Whether the card does what its table says.
    obeys: bool,
    queues: [QueueView; 2],
}

impl Workers for Loaded {
    fn look(&mut self, _now: Time) {
        let table = self.tree.text("/ethtool/eth9/redirect-table").unwrap();
        let queues: Vec<usize> = table.split(',').map(|queue| queue.parse().unwrap()).collect();
        for (worker, view) in self.queues.iter_mut().enumerate() {
            let reached = !self.obeys || queues.iter().any(|queue| queue % 2 == worker);
            view.arrivals += u64::from(reached);
            view.fill = u32::from(reached);
        }
    }
    fn work(&mut self, worker: usize) -> Work {
        Work { packets: self.queues[worker].arrivals, ..Work::default() }
    }
    fn queue(&mut self, worker: usize, _port: usize) -> QueueView {
        self.queues[worker]
    }
    fn wake(&mut self, _worker: usize) {}
    fn park(&mut self, _worker: usize) {}
    fn set_wait(&mut self, _worker: usize, _wait: Wait) -> Result<(), String> {
        Ok(())
    }
    fn set_batch(&mut self, _packets: u32) {}
}

/// What a probe finds while packets arrive, asked by the thread that governs a router, which looks
/// at the queues every millisecond.
fn complaints_under_load(obeys: bool) -> Vec<String> {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let workers = Loaded { tree: fixture.tree.clone(), obeys, queues: Default::default() };
    let host = Host::new(fixture.options(&[0, 1]), fixture.session(), Box::new(workers)).unwrap();
    let circumstances =
        Circumstances { period: Span::from_millis(20), traffic: true, frequency_follows: false };
    let (policy, findings) = probe(&host.platform().clone(), circumstances);
    let runner = Runner::start(Governor::new(host, policy), Duration::from_millis(1)).unwrap();
    let began = Instant::now();
    while !findings.are_complete() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(runner);
    findings.complaints()
}

#[test]
fn under_load_packets_come_where_the_table_leads_and_batches_and_fill_levels_are_asked_about() {
    assert_eq!(complaints_under_load(true), Vec::<String>::new());
    let found = complaints_under_load(false);
    let cores = found.iter().any(|complaint| complaint.starts_with("cores: "));
    assert!(cores, "a card that does not obey its table is noticed: {found:?}");
}
