//! Which meters a machine has, which are missing, and what would enable them.

use crate::missing::Missing;
use crate::reading::{Description, Meter, Scope};
use crate::{hwmon, ipmi, perf, rapl};
use wattline_linux::sysfs::Tree;

/// The meters of a machine.
pub struct Survey {
    /// Those that can be read.
    pub meters: Vec<Box<dyn Meter>>,
    /// Those that cannot.
    pub missing: Vec<Missing>,
}

/// Looks for every kind of meter that needs no configuration.
pub fn survey(tree: &Tree) -> Survey {
    let mut meters: Vec<Box<dyn Meter>> = Vec::new();
    let (zones, mut missing) = rapl::find(tree);
    if zones.is_empty() && missing.is_empty() {
        missing.push(no_rapl(tree));
    }
    meters.extend(zones.into_iter().map(|zone| Box::new(zone) as Box<dyn Meter>));
    let (sensors, broken) = hwmon::find(tree);
    if sensors.is_empty() && broken.is_empty() {
        missing.push(Missing::because(
            "hwmon power sensor",
            "no chip in /sys/class/hwmon shows power",
            "load acpi_power_meter where the firmware has a meter (ACPI000D), or the driver of \
             the supply (pmbus) or board",
        ));
    }
    missing.extend(broken);
    let known: Vec<&Description> = meters.iter().map(|meter| meter.description()).collect();
    let (counters, refused) = perf::find(tree, &known);
    missing.extend(refused);
    meters.extend(counters.into_iter().map(|counter| Box::new(counter) as Box<dyn Meter>));
    match ipmi::find(tree) {
        Some(Ok(controller)) => meters.push(Box::new(controller)),
        Some(Err(why)) => missing.push(why),
        None => {}
    }
    meters.extend(sensors.into_iter().map(|sensor| Box::new(sensor) as Box<dyn Meter>));
    Survey { meters, missing }
}

/// The meters whose figures may be added up: none of them sees what another one sees. The
/// whole platform is taken where something measures it, else packages and memory.
pub fn disjoint<'a>(all: impl IntoIterator<Item = &'a Description>) -> Vec<&'a Description> {
    let all: Vec<&Description> = all.into_iter().collect();
    if let Some(platform) =
        all.iter().find(|meter| meter.scope == Scope::Platform && meter.part_of.is_none())
    {
        return vec![platform];
    }
    all.into_iter()
        .filter(|meter| {
            meter.part_of.is_none() && matches!(meter.scope, Scope::Package | Scope::Memory)
        })
        .collect()
}

/// Whether the machine is a guest: the processor says so (CPUID leaf 1, ECX bit 31).
pub fn is_guest(tree: &Tree) -> bool {
    let text = tree.text("/proc/cpuinfo").unwrap_or_default();
    text.lines().any(|line| {
        line.starts_with("flags") && line.split_whitespace().any(|flag| flag == "hypervisor")
    })
}

fn no_rapl(tree: &Tree) -> Missing {
    let why = "no RAPL zone in /sys/class/powercap";
    if is_guest(tree) {
        return Missing::because(
            "RAPL",
            &format!("{why}: this is a virtual machine, whose host keeps the registers"),
            "measure on the host, use an external meter, or a model (`estimated`)",
        );
    }
    Missing::because(
        "RAPL",
        why,
        "modprobe intel_rapl_msr (Intel since Sandy Bridge, AMD since family 17h); on other \
         machines use hwmon or an external meter",
    )
}
