//! Meters on trees of machines: sound ones, and every kind of wrong sensor.

mod common;

use common::Fixture;
use wattline_linux::sysfs::ReadError;
use wattline_meters::{Description, Meter, Rejection, Scope, disjoint, is_guest, survey};
use wattline_units::{Accuracy, Joules, Source, Span, Time, Watts};

fn at(seconds: f64) -> Time {
    Time::ZERO + Span::from_seconds(seconds)
}

fn meter(fixture: &Fixture, id: &str) -> Box<dyn Meter> {
    let found = survey(&fixture.tree).meters;
    let ids: Vec<String> = found.iter().map(|meter| meter.description().id.clone()).collect();
    found
        .into_iter()
        .find(|meter| meter.description().id == id)
        .unwrap_or_else(|| panic!("{id} is not among {ids:?}"))
}

fn summed(fixture: &Fixture) -> Vec<String> {
    let found = survey(&fixture.tree).meters;
    let all: Vec<Description> = found.iter().map(|meter| meter.description().clone()).collect();
    disjoint(&all).into_iter().map(|one| one.id.clone()).collect()
}

const PACKAGE: &str = "sys/class/powercap/intel-rapl:1/energy_uj";

#[test]
fn packages_per_die_and_their_memory_add_up() {
    let fixture = Fixture::copy("intel-two-dies");
    let ids = [
        "rapl:package-0-die-0",
        "rapl:package-0-die-0/dram",
        "rapl:package-0-die-1",
        "rapl:package-0-die-1/dram",
    ];
    assert_eq!(summed(&fixture), ids);
}

#[test]
fn overlapping_zones_are_not_summed() {
    let fixture = Fixture::copy("intel-client-psys");
    // psys sees the package, which contains its cores, and which mmio shows once more.
    assert_eq!(summed(&fixture), ["rapl:psys"]);
    std::fs::remove_dir_all(fixture.path("sys/class/powercap/intel-rapl:1")).unwrap();
    assert_eq!(summed(&fixture), ["rapl:package-0"]);
    let twin = meter(&fixture, "rapl-mmio:package-0");
    assert_eq!(twin.description().part_of.as_deref(), Some("rapl:package-0"));
    let cores = meter(&fixture, "rapl:package-0/core");
    assert_eq!(cores.description().scope, Scope::Cores);
}

#[test]
fn energy_is_exact_across_a_wrap_and_power_uses_the_true_time() {
    let fixture = Fixture::copy("intel-two-dies");
    let mut package = meter(&fixture, "rapl:package-0-die-1");
    assert_eq!(package.read(at(10.0)), Err(Rejection::First));
    // 262 143 000 000 of at most 262 143 328 850, then 150 J on.
    fixture.write(PACKAGE, 150_000_000 - (262_143_328_850u64 + 1 - 262_143_000_000));
    let reading = package.read(at(11.5)).unwrap();
    assert_eq!(reading.energy, Some(Joules(150.0)));
    assert_eq!(reading.elapsed, Span::from_millis(1500));
    assert_eq!(reading.power, Watts(100.0));
    assert_eq!(reading.provenance.source, Source::Measured);
    assert_eq!(reading.provenance.accuracy, Accuracy::Silver);
}

#[test]
fn long_interval_and_reset_are_named_once() {
    let fixture = Fixture::copy("amd");
    let zone = "sys/class/powercap/intel-rapl:0/energy_uj";
    let mut package = meter(&fixture, "rapl:package-0");
    assert_eq!(package.description().provenance.accuracy, Accuracy::Bronze);
    let _ = package.read(at(0.0));
    fixture.write(zone, 1_000_000);
    assert!(matches!(package.read(at(300.0)), Err(Rejection::TooLong { .. })));
    fixture.write(zone, 51_000_000);
    assert_eq!(package.read(at(301.0)).unwrap().energy, Some(Joules(50.0)));
    fixture.write(zone, 7);
    assert!(matches!(package.read(at(302.0)), Err(Rejection::Reset { .. })));
    fixture.write(zone, 60_000_007);
    assert_eq!(package.read(at(303.0)).unwrap().power, Watts(60.0));
}

#[test]
fn stuck_package_is_no_zero_watts() {
    let fixture = Fixture::copy("intel-two-dies");
    let mut package = meter(&fixture, "rapl:package-0-die-1");
    let _ = package.read(at(0.0));
    assert_eq!(package.read(at(0.01)), Err(Rejection::NothingNew), "too soon to call it stuck");
    let still = package.read(at(1.0)).unwrap_err();
    assert_eq!(still, Rejection::Stuck(Span::from_seconds(1.0)));
    fixture.write(PACKAGE, 262_143_100_000u64);
    assert!(package.read(at(2.0)).is_ok());
    // Nor when it has changed once and then stops.
    assert!(matches!(package.read(at(3.0)), Err(Rejection::Stuck(_))));
}

#[test]
fn counter_beyond_its_range_or_with_garbage_is_rejected() {
    let fixture = Fixture::copy("intel-two-dies");
    let mut package = meter(&fixture, "rapl:package-0-die-1");
    fixture.write(PACKAGE, 0);
    let _ = package.read(at(0.0));
    fixture.write(PACKAGE, u64::MAX);
    assert!(matches!(package.read(at(1.0)), Err(Rejection::OutOfRange { .. })));
    fixture.write(PACKAGE, "-3");
    let garbage = package.read(at(2.0)).unwrap_err();
    assert!(matches!(garbage, Rejection::Unreadable(ReadError::Garbage { .. })), "{garbage}");
    // The energy of the bad readings is not lost: the next good one covers their time.
    fixture.write(PACKAGE, 300_000_000);
    let reading = package.read(at(3.0)).unwrap();
    assert_eq!((reading.elapsed, reading.power), (Span::from_seconds(3.0), Watts(100.0)));
}

#[test]
fn vanished_meter_is_reported() {
    let fixture = Fixture::copy("acpi-power-meter");
    let mut supply = meter(&fixture, "hwmon:power_meter-ACPI000D:00/power1");
    let reading = supply.read(at(0.0)).unwrap();
    assert_eq!((reading.power, reading.energy), (Watts(118.2), None));
    assert_eq!(reading.provenance.accuracy, Accuracy::Gold);
    std::fs::remove_dir_all(fixture.path("sys/class/hwmon/hwmon1")).unwrap();
    let gone = supply.read(at(1.0)).unwrap_err();
    assert_eq!(gone.name(), "gone");
}

#[test]
fn every_broken_sensor_is_rejected_with_its_own_name() {
    let fixture = Fixture::copy("broken-sensors");
    let name = |id: &str, seconds: f64| {
        let mut meter = meter(&fixture, id);
        let first = meter.read(at(0.0));
        let last = if first == Err(Rejection::First) { meter.read(at(seconds)) } else { first };
        last.map_err(|rejection| rejection.name())
    };
    assert_eq!(name("hwmon:power_meter-hwmon0/power1", 0.0), Err("sentinel"));
    assert_eq!(name("hwmon:power_meter-hwmon1/power1", 0.0), Err("implausible"), "160 kW");
    assert_eq!(name("hwmon:ina3221-hwmon2/power1", 0.0), Err("implausible"), "negative");
    assert_eq!(
        name("hwmon:power_meter-hwmon4/power1", 0.0),
        Err("implausible"),
        "a machine at 0 W"
    );
    assert_eq!(name("rapl:package-0", 0.0), Err("out of range"));
    assert_eq!(name("rapl:package-2", 1.0), Err("stuck"));
    // An unreadable sensor is no meter, and listed with the reason.
    let missing = survey(&fixture.tree).missing;
    let whats: Vec<&str> = missing.iter().map(|missing| missing.what.as_str()).collect();
    assert_eq!(whats, ["RAPL zone intel-rapl:1", "hwmon3 power1"]);
    assert!(missing[0].why.contains("\"banana\""), "{}", missing[0].why);
}

#[test]
fn platform_domains_of_all_sockets_are_summed_and_are_no_packages() {
    let fixture = Fixture::copy("intel-two-psys");
    assert_eq!(summed(&fixture), ["rapl:psys", "rapl:psys-1"]);
    for id in ["rapl:psys", "rapl:psys-1"] {
        assert_eq!(meter(&fixture, id).description().scope, Scope::Platform);
    }
    let package = meter(&fixture, "rapl:package-1");
    assert_eq!(package.description().part_of.as_deref(), Some("rapl:psys"));
    // An unconnected domain is no part of the sum.
    fixture.write("sys/class/powercap/intel-rapl:3/energy_uj", 0);
    assert_eq!(summed(&fixture), ["rapl:psys"]);
    let missing = survey(&fixture.tree).missing;
    assert!(missing.iter().any(|one| one.why.contains("counted nothing")), "{missing:?}");
}

#[test]
fn dies_with_one_counter_are_counted_once() {
    let fixture = Fixture::copy("mirrored-dies");
    let once = [
        "rapl:package-0-die-0",
        "rapl:package-0-die-0/dram",
        "rapl:package-1-die-0",
        "rapl:package-1-die-0/dram",
    ];
    assert_eq!(summed(&fixture), once);
    let mirror = meter(&fixture, "rapl:package-0-die-1");
    assert_eq!(mirror.description().part_of.as_deref(), Some("rapl:package-0-die-0"));
}

#[test]
fn supplies_are_summed_and_regulators_are_not() {
    let fixture = Fixture::copy("two-supplies");
    let both = ["hwmon:pmbus-6-0058/power1", "hwmon:pmbus-6-0059/power1"];
    assert_eq!(summed(&fixture), both);
    // The meter of the firmware sees both.
    let chip = "sys/class/hwmon/hwmon9";
    std::fs::create_dir(fixture.path(chip)).unwrap();
    fixture.write(&format!("{chip}/name"), "power_meter");
    fixture.write(&format!("{chip}/recorded_device"), "ACPI000D:00");
    fixture.write(&format!("{chip}/power1_average"), 405_000_000);
    assert_eq!(summed(&fixture), ["hwmon:power_meter-ACPI000D:00/power1"]);
    // A supply without mains is a spare one.
    std::fs::remove_dir_all(fixture.path(chip)).unwrap();
    fixture.write("sys/class/hwmon/hwmon5/in1_input", 0);
    assert_eq!(summed(&fixture), [both[0]]);
}

#[test]
fn sensor_is_found_under_its_new_number() {
    let fixture = Fixture::copy("two-supplies");
    let id = "hwmon:pmbus-6-0058/power1";
    let mut supply = meter(&fixture, id);
    assert_eq!(supply.read(at(0.0)).unwrap().power, Watts(210.0));
    let chip = |number: u32| fixture.path(&format!("sys/class/hwmon/hwmon{number}"));
    // The drivers start again in another order.
    std::fs::rename(chip(3), chip(8)).unwrap();
    std::fs::rename(chip(5), chip(3)).unwrap();
    assert_eq!(meter(&fixture, id).read(at(0.0)).unwrap().power, Watts(210.0));
    assert_eq!(supply.read(at(1.0)).unwrap().power, Watts(210.0));
    std::fs::remove_dir_all(chip(8)).unwrap();
    assert_eq!(supply.read(at(2.0)).unwrap_err().name(), "gone");
}

/// The present power of a sensor does not cover the time in which it was unavailable.
#[test]
fn time_without_a_sensor_is_a_gap() {
    let fixture = Fixture::copy("acpi-power-meter");
    let mut supply = meter(&fixture, "hwmon:power_meter-ACPI000D:00/power1");
    let _ = supply.read(at(0.0));
    assert_eq!(supply.read(at(1.0)).unwrap().elapsed, Span::from_seconds(1.0));
    let file = "sys/class/hwmon/hwmon1/device/power1_average";
    for wrong in ["4294967295000", "-5000000", "n/a"] {
        fixture.write(file, wrong);
        assert!(supply.read(at(2.0)).is_err());
        fixture.write(file, 118_200_000);
        assert_eq!(supply.read(at(100.0)).unwrap().elapsed, Span::ZERO, "{wrong}");
        assert_eq!(supply.read(at(101.0)).unwrap().elapsed, Span::from_seconds(1.0));
    }
}

#[test]
fn virtual_machine_gets_a_remedy() {
    let fixture = Fixture::copy("virtual-machine");
    let survey = survey(&fixture.tree);
    assert!(survey.meters.is_empty());
    assert!(is_guest(&fixture.tree));
    assert!(survey.missing[0].why.contains("virtual machine"), "{:?}", survey.missing);
    assert!(summed(&fixture).is_empty(), "no meters, nothing to sum: unavailable");
}
