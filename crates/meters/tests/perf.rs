//! RAPL by perf, with counters set by the test.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;
use wattline_linux::sysfs::Tree;
use wattline_meters::crosscheck::{compare, pairs};
use wattline_meters::perf::{Count, PerfRapl, agree, find_with};
use wattline_meters::{Description, Meter, Rejection, Scope, disjoint, survey};
use wattline_units::{Span, Time};

const UNIT: &str = "/sys/bus/event_source/devices/power";

#[derive(Clone, Default)]
struct Moved(Arc<AtomicU64>);

impl Count for Moved {
    fn count(&mut self) -> io::Result<u64> {
        Ok(self.0.load(Ordering::Relaxed))
    }
}

fn machine(powercap: bool) -> (TempDir, Tree) {
    let root = tempfile::tempdir().unwrap();
    let tree = Tree::at(root.path());
    let write = |path: &str, value: &str| {
        let path = tree.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, format!("{value}\n")).unwrap();
    };
    write(&format!("{UNIT}/type"), "22");
    write(&format!("{UNIT}/cpumask"), "0,8");
    for (event, config) in [("energy-pkg", "0x02"), ("energy-ram", "0x03"), ("energy-psys", "0x05")]
    {
        write(&format!("{UNIT}/events/{event}"), &format!("event={config}"));
        write(&format!("{UNIT}/events/{event}.unit"), "Joules");
        write(&format!("{UNIT}/events/{event}.scale"), "2.3283064365386962890625e-10");
    }
    for (cpu, package) in [(0, 0), (8, 1)] {
        let topology = format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        write(&topology, &package.to_string());
    }
    for package in (0..2).filter(|_| powercap) {
        let zone = format!("/sys/class/powercap/intel-rapl:{package}");
        write(&format!("{zone}/name"), &format!("package-{package}"));
        write(&format!("{zone}/energy_uj"), "5000");
        write(&format!("{zone}/max_energy_range_uj"), "262143328850");
    }
    (root, tree)
}

fn find(tree: &Tree, others: &[&Description], moved: &Moved) -> Vec<PerfRapl> {
    let (meters, missing) = find_with(tree, others, |unit, config, cpu| {
        assert_eq!(unit, 22);
        assert!([2, 3, 5].contains(&config) && [0, 8].contains(&cpu));
        Ok(Box::new(moved.clone()))
    });
    assert_eq!(missing, []);
    meters
}

#[test]
fn energy_is_counts_times_scale_over_the_true_time() {
    let (_root, tree) = machine(false);
    let moved = Moved::default();
    let mut meters = find(&tree, &[], &moved);
    let ids: Vec<&str> = meters.iter().map(|meter| &*meter.description().id).collect();
    let expected = [
        "perf:package-0",
        "perf:package-1",
        "perf:package-0/dram",
        "perf:package-1/dram",
        "perf:psys",
    ];
    assert_eq!(ids, expected);
    let meter = &mut meters[0];
    let at = |millis| Time::ZERO + Span::from_millis(millis);
    assert_eq!(meter.read(at(0)), Err(Rejection::First));
    // 30 J in units of 2^-32 J, in half a second.
    moved.0.store(30 << 32, Ordering::Relaxed);
    let reading = meter.read(at(500)).unwrap();
    assert!((reading.energy.unwrap().get() - 30.0).abs() < 1e-9);
    assert!((reading.power.get() - 60.0).abs() < 1e-9);
    assert_eq!(meter.read(at(600)), Err(Rejection::NothingNew));
    assert!(matches!(meter.read(at(1200)), Err(Rejection::Stuck(_))));
    moved.0.store(5, Ordering::Relaxed);
    assert!(matches!(meter.read(at(1300)), Err(Rejection::Reset { .. })));
}

#[test]
fn counter_known_to_powercap_is_never_summed_with_it() {
    let (_root, tree) = machine(true);
    let found = survey(&tree);
    let powercap: Vec<&Description> = found.meters.iter().map(|m| m.description()).collect();
    let meters = find(&tree, &powercap, &Moved::default());
    let package = meters.iter().find(|m| m.description().id == "perf:package-1").unwrap();
    assert_eq!(package.description().part_of.as_deref(), Some("rapl:package-1"));
    // Without the platform's sensor: packages by powercap, memory by perf only.
    let all = powercap.iter().copied().chain(meters.iter().map(|meter| meter.description()));
    let all: Vec<&Description> = all.filter(|one| one.scope != Scope::Platform).collect();
    let summed: Vec<&str> = disjoint(all).iter().map(|one| &*one.id).collect();
    let expected =
        ["rapl:package-0", "rapl:package-1", "perf:package-0/dram", "perf:package-1/dram"];
    assert_eq!(summed, expected);
}

#[test]
fn two_ways_to_one_register_agree_or_not() {
    let (_root, tree) = machine(false);
    let moved = Moved::default();
    let mut meters = find(&tree, &[], &moved);
    let at = |millis| Time::ZERO + Span::from_millis(millis);
    let mut read = |meter: usize, count: u64, millis| {
        moved.0.store(count << 32, Ordering::Relaxed);
        meters[meter].read(at(millis))
    };
    let _ = (read(0, 0, 0), read(1, 0, 0));
    let (one, other) = (read(0, 100, 1000).unwrap(), read(1, 101, 1000).unwrap());
    assert!(agree(&one, &other, 0.02, 2));
    assert!(!agree(&one, &other, 0.0, 2));
    let far = read(1, 131, 2000).unwrap();
    assert!(!agree(&one, &far, 0.1, 2));
}

/// The registers of a machine, read by powercap and by perf over the same interval.
#[test]
fn powercap_and_perf_are_compared_zone_by_zone() {
    let (_root, tree) = machine(true);
    let moved = Moved::default();
    let mut meters = survey(&tree).meters;
    let found: Vec<Description> = meters.iter().map(|meter| meter.description().clone()).collect();
    let counters = find(&tree, &found.iter().collect::<Vec<_>>(), &moved);
    meters.extend(counters.into_iter().map(|counter| Box::new(counter) as Box<dyn Meter>));
    let own: Vec<Description> = meters.iter().map(|meter| meter.description().clone()).collect();
    let descriptions: Vec<&Description> = own.iter().collect();
    // Two packages; the registers of memory and platform are shown only once.
    assert_eq!(pairs(&descriptions).len(), 2);
    let joules = |powercap: [f64; 2], perf: f64| {
        for (package, joules) in powercap.into_iter().enumerate() {
            let file = format!("/sys/class/powercap/intel-rapl:{package}/energy_uj");
            std::fs::write(tree.path(file), format!("{:.0}\n", joules * 1e6)).unwrap();
        }
        moved.0.store((perf * 2f64.powi(32)) as u64, Ordering::Relaxed);
    };
    let mut read = |millis| -> Vec<_> {
        let at = Time::ZERO + Span::from_millis(millis);
        meters.iter_mut().map(|meter| meter.read(at)).collect()
    };
    joules([5.0, 5.0], 0.0);
    assert_eq!(compare(&descriptions, &read(0)), [], "no interval yet");
    // 60 W by perf; the first package agrees, the second was scaled by another unit.
    joules([5.0 + 60.5, 5.0 + 30.0], 60.0);
    let found = compare(&descriptions, &read(1000));
    let verdicts: Vec<_> = found.iter().map(|one| (one.meter.as_str(), one.agree)).collect();
    assert_eq!(verdicts, [("rapl:package-0", true), ("rapl:package-1", false)]);
    assert_eq!(
        found[0].to_string(),
        "perf:package-0 agrees with rapl:package-0: 60.000 W and 60.500 W"
    );
    assert!(
        found[1].to_string().contains("perf:package-1 DISAGREES with rapl:package-1: 60.000 W")
    );
    // A failing meter is not compared.
    std::fs::remove_file(tree.path("/sys/class/powercap/intel-rapl:0/energy_uj")).unwrap();
    assert_eq!(compare(&descriptions, &read(2000)), []);
}

#[test]
fn broken_files_and_refused_counters_are_named() {
    let (_root, tree) = machine(false);
    std::fs::write(tree.path(format!("{UNIT}/events/energy-pkg")), "event=two\n").unwrap();
    std::fs::write(tree.path(format!("{UNIT}/events/energy-ram.unit")), "Watts\n").unwrap();
    let refuse = |_, _, _| Err(io::Error::from_raw_os_error(13));
    let (meters, missing) = find_with(&tree, &[], refuse);
    assert!(meters.is_empty());
    let text: Vec<String> = missing.iter().map(|one| format!("{} {}", one.what, one.why)).collect();
    assert!(text[0].contains("energy-pkg") && text[0].contains("event=0x"), "{text:?}");
    assert!(text[1].contains("energy-ram") && text[1].contains("Joules"), "{text:?}");
    assert!(missing[2].permission && text[2].contains("energy-psys on CPU 0"), "{text:?}");
}
