//! This machine's platform does what it promises to policies, on trees of machines with different
//! drivers.

mod common;
mod living;

use common::Fixture;
use living::Living;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use wattline_governor::Governor;
use wattline_governor::conformance::{Circumstances, Findings, Follows, page, probe};
use wattline_governor::latency::{LatencySource, LatencySummary, Origin, Quantile, Refused};
use wattline_governor::machine::Machine as _;
use wattline_governor::runner::Runner;
use wattline_host::{
    BesideXdp, Forwarded, Host, HostOptions, KernelStack, NoWorkers, Scope, Workers,
};
use wattline_knobs::{Machine as Settings, Session};
use wattline_linux::namespace::{Namespace, interface_index};
use wattline_linux::sysfs::Tree;
use wattline_policy::{Can, Trigger};
use wattline_units::{Span, Time};
use wattline_xdp::LiveGenerator;

const PAGE: &str = include_str!("../../../docs/explanation/policy-contract.md");

const UNCORE: &str = "/sys/devices/system/cpu/intel_uncore_frequency/package_00_die_00";

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

/// Returns the complaints of a probe on a machine, and the abilities that the machine claims.
fn complaints(mut host: Host<Session<Settings>>, tree: &Tree, latency: bool) -> (Vec<String>, Can) {
    if latency {
        host.attach_latency(Box::new(Known));
    }
    let platform = host.platform().clone();
    // Nothing arrives, and the figures of a recorded tree do not change by themselves.
    let circumstances =
        Circumstances { period: Span::from_millis(20), traffic: false, follows: Follows::NOTHING };
    let (policy, findings) = probe(&platform, circumstances);
    let mut governor = Governor::new(host, policy);
    governor.start(Time::ZERO);
    for _ in 0..200 {
        if findings.are_complete() {
            break;
        }
        let due = governor.ask().at;
        governor.trigger(due, Trigger::Timer);
        // No platform shows the frequency of the uncore; its file does.
        if let Some(turn) = findings.turn().filter(|turn| turn.promise == "uncore" && turn.turned) {
            let limit = |end: &str| tree.number::<u64>(format!("{UNCORE}/{end}_freq_khz")).ok();
            let lowest = limit("max").is_some() && limit("max") == limit("initial_min");
            findings.bear_witness(turn.promise, lowest);
        }
        // The thread that reads the kernel's counters is asked at one look and read at a later one.
        std::thread::sleep(Duration::from_millis(2));
    }
    (findings.complaints(), platform.can)
}

fn machine(fixture: &Fixture, options: HostOptions) -> Host<Session<Settings>> {
    Host::new(options, fixture.session(), Box::new(NoWorkers)).unwrap()
}

#[test]
fn recorded_machines_keep_their_promises() {
    for name in ["acpi-cpufreq", "intel-pstate-hwp", "amd-pstate-epp", "cppc"] {
        let fixture = Fixture::with_card(name);
        let before = fixture.snapshot();
        let mut options = fixture.options(&[0, 1]);
        options.uncore = true;
        let (complaints, can) =
            complaints(machine(&fixture, options), &fixture.tree, name == "cppc");
        assert_eq!(complaints, Vec::<String>::new(), "{name}");
        assert!(can.set_cores && can.set_weights && !can.waits.pause && !can.waits.sleep);
        assert_eq!(can.set_uncore, name == "intel-pstate-hwp");
        assert_eq!((can.sees.latency, can.sees.late), (name == "cppc", name == "cppc"));
        assert_eq!(fixture.snapshot(), before, "{name}: everything is given back");
    }
}

/// Kernel files that recordings lack: with them, more is promised and shown.
#[test]
fn counts_of_the_kernel_are_promised_and_shown() {
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
    let (found, can) = complaints(host, &fixture.tree, false);
    assert_eq!(found, Vec::<String>::new());
    assert!(can.sees.softirq && can.sees.residency && can.sees.frequency);
    assert!(!can.sees.power && !can.sees.latency, "no meter is read, no source is attached");

    // Time since the start, in the offered states, as the kernel counts it.
    let mut host = machine(&fixture, fixture.options(&[0, 1]));
    let platform = host.platform().clone();
    let states = fixture.tree.numbered(format!("{}/cpu1/cpuidle", common::CPUS), "state");
    let deepest = &states.last().unwrap().1;
    fixture.write(&format!("{}/cpu1/cpuidle/{deepest}/time", common::CPUS), "1250000");
    fixture.write("/proc/stat", "cpu0 1 0 0 9 0 0 50 0\ncpu1 1 0 0 9 0 0 75 0");
    let mut view = wattline_governor::machine::View::new(&platform);
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
    let mut view = wattline_governor::machine::View::new(host.platform());
    view.looks = wattline_policy::Looks::WHOLE.and_latency();
    host.observe(Time::ZERO + Span::from_millis(1), &mut view);
    assert_eq!(view.latency, None);
    host.attach_latency(Box::new(Known));
    host.observe(Time::ZERO + Span::from_millis(2), &mut view);
    assert_eq!(view.latency.unwrap().p99, Span::from_micros(100));
    view.looks = wattline_policy::Looks::WHOLE;
    host.observe(Time::ZERO + Span::from_millis(3), &mut view);
    assert_eq!(view.latency, None, "no policy observes it");
}

/// Returns the findings of a probe on a live machine, asked by the thread that governs a router,
/// which looks at the queues every millisecond.
fn findings_of_a_living_machine(obeys: bool, period: Span) -> Findings {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let living = Living::new(&fixture.tree, obeys);
    let batch = living.batch();
    let host = Host::new(fixture.options(&[0, 1]), fixture.session(), Box::new(living)).unwrap();
    let follows = Follows { latency: false, power: false, ..Follows::ALL };
    let circumstances = Circumstances { period, traffic: true, follows };
    let (policy, findings) = probe(&host.platform().clone(), circumstances);
    let runner = Runner::start(Governor::new(host, policy), Duration::from_millis(1)).unwrap();
    let began = Instant::now();
    while !findings.are_complete() && began.elapsed() < Duration::from_secs(120) {
        // A policy is not asked at each batch here; the workers know their commands.
        if let Some(turn) = findings.turn().filter(|turn| turn.promise == "batch" && turn.turned) {
            findings.bear_witness(turn.promise, batch.load(Ordering::Relaxed) == 1);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(runner);
    findings
}

/// Judges a platform by the page's column, in longer periods while it breaks its promises.
fn keeps_its_promises(column: &str, periods: &[u64], findings: impl Fn(Span) -> Findings) {
    let mut found = Vec::new();
    for millis in periods {
        let findings = findings(Span::from_millis(*millis));
        findings.verdicts().iter().for_each(|verdict| println!("{verdict}"));
        found = findings.complaints();
        if found.is_empty() {
            let wrong = page::differences(PAGE, column, &findings.verdicts());
            assert_eq!(wrong, Vec::<String>::new());
            return;
        }
        println!("{millis} ms: {found:?}");
    }
    panic!("{found:?}");
}

/// A thread reads the kernel's counters. On a busy machine it is late, which breaks no promise, and
/// less so in a longer period.
#[test]
fn writes_of_the_platform_take_effect_on_a_live_machine() {
    keeps_its_promises("host", &[60, 250, 1_000], |period| {
        findings_of_a_living_machine(true, period)
    });
}

/// A veth pair under the name of the recorded card, which is polled on both CPUs until dropped.
struct Polled {
    namespace: Namespace,
    stop: Arc<AtomicBool>,
}

impl Polled {
    /// Returns `None` without privileges or two CPUs, with a message about it.
    fn start() -> Option<Self> {
        if std::thread::available_parallelism().unwrap().get() < 2 {
            wattline_needs::machine("two CPUs");
            return None;
        }
        let observer = wattline_napi::Observer::begin(Time::ZERO);
        observer.inspect_err(|why| wattline_needs::rights(why)).ok()?;
        let namespace = Namespace::create(format!("wlc-{}", std::process::id()));
        let namespace = namespace.inspect_err(|why| wattline_needs::rights(why)).ok()?;
        namespace.ip("link add eth9 type veth peer name far").unwrap();
        for interface in ["eth9", "far"] {
            namespace.ip(&format!("link set {interface} up")).unwrap();
        }
        namespace.run("ethtool", &["-K", "eth9", "gro", "on"]).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        for cpu in 0..2 {
            let (name, stop) = (namespace.name().to_owned(), Arc::clone(&stop));
            std::thread::spawn(move || {
                wattline_linux::namespace::enter_thread(&name).unwrap();
                let mut own = CpuSet::new();
                own.set(cpu);
                sched_setaffinity(None, &own).unwrap();
                let out = interface_index("far").unwrap();
                let generator = LiveGenerator::new(out, &[7; 60], None).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    generator.send(8).unwrap();
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        Some(Self { namespace, stop })
    }
}

impl Drop for Polled {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Returns the findings of a probe where the kernel or XDP programs take the packets. Card and CPUs
/// are simulated by changing files; polls, soft interrupts and the ends of streaks are the kernel's
/// own.
fn findings_without_workers(polled: &Polled, scope: Scope, period: Span) -> Findings {
    let fixture = Fixture::with_card("acpi-cpufreq");
    let living = Arc::new(Mutex::new(Living::new(&fixture.tree, true)));
    let options = HostOptions { scope, ..fixture.options(&[0, 1]) };
    let (tree, layout) = (fixture.tree.clone(), options.layout.clone());
    let workers: Box<dyn Workers> = if scope.workers {
        let living = Arc::clone(&living);
        let forwarded: Forwarded = Box::new(move |frames| {
            *frames = [0, 1].map(|cpu| living.lock().unwrap().packets(cpu)).into();
            true
        });
        let workers = BesideXdp::new(&tree, &layout, Box::new(NoWorkers), vec![Some(forwarded)]);
        Box::new(workers.observing())
    } else {
        Box::new(KernelStack::new(&tree, &layout).0.observing())
    };
    let host = Host::new(options, fixture.session(), workers).unwrap();
    // With XDP programs the busy time is the larger of two tick counts, and packets of a core are
    // judged by it alone: too coarse to compare.
    let follows = Follows { latency: false, power: false, work: !scope.workers, ..Follows::ALL };
    let circumstances = Circumstances { period, traffic: true, follows };
    let (policy, findings) = probe(&host.platform().clone(), circumstances);
    let govern = || {
        let runner = Runner::start(Governor::new(host, policy), Duration::from_millis(10)).unwrap();
        let began = Instant::now();
        while !findings.are_complete() && began.elapsed() < Duration::from_secs(120) {
            living.lock().unwrap().look(Time::ZERO + Span::from(began.elapsed()));
            if let Some(turn) = findings.turn().filter(|turn| turn.promise == "moderation") {
                let longer = fixture.value("/ethtool/eth9/rx-usecs") != "0";
                findings.bear_witness(turn.promise, turn.turned && longer);
            }
            // The kernel's counters are read at one look and shown at the next.
            runner.look(Duration::ZERO, |governor| {
                let now = governor.machine().now();
                governor.look(now);
            });
            std::thread::sleep(Duration::from_millis(2));
        }
        drop(runner);
    };
    // The governor searches for the queues of its own namespace.
    polled.namespace.enter(govern).unwrap();
    findings
}

#[test]
fn kernel_and_xdp_platforms_keep_their_promises() {
    let Some(polled) = Polled::start() else { return };
    for (column, scope) in [("kernel", Scope::KERNEL), ("XDP programs", Scope::XDP_ROUTER)] {
        keeps_its_promises(column, &[250, 1_000], |period| {
            findings_without_workers(&polled, scope, period)
        });
    }
}

#[test]
fn disobeying_card_is_detected() {
    let found = findings_of_a_living_machine(false, Span::from_millis(60)).complaints();
    for complaint in ["weights: ", "cores: "] {
        assert!(found.iter().any(|one| one.starts_with(complaint)), "{complaint}: {found:?}");
    }
}
