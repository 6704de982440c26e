//! RAPL energy counters through perf: the unit `power` of `/sys/bus/event_source/devices`.
//!
//! The same registers as powercap's, one event per kind, on one CPU of each package. If powercap
//! shows a zone, the perf counter is a duplicate and never summed with it.

use crate::reading::{Description, Meter, Plausible, Reading, Rejection, Scope};
use crate::registration::{Finding, Registration, Row};
use std::io;
use wattline_linux::missing::Missing;
use wattline_linux::perf::Counter;
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::{Accuracy, Joules, Provenance, Source, Span, Time, Watts};

const UNIT: &str = "/sys/bus/event_source/devices/power";
/// Events, the powercap names of their domains, and their scope. Whole packages first.
const EVENTS: [(&str, &str, Scope); 4] = [
    ("energy-pkg", "package", Scope::Package),
    ("energy-ram", "dram", Scope::Memory),
    ("energy-cores", "core", Scope::Cores),
    ("energy-psys", "psys", Scope::Platform),
];
/// Standstill after which a counter does not measure: registers change about every millisecond.
const STANDSTILL: Span = Span::from_millis(500);

/// Time in which a working counter changes many times.
const PROBE: std::time::Duration = std::time::Duration::from_millis(50);

/// A counter: the kernel's, or a test's.
pub trait Count: Send {
    /// Returns the count since it was opened.
    ///
    /// # Errors
    /// The kernel's error.
    fn count(&mut self) -> io::Result<u64>;
}

impl Count for Counter {
    fn count(&mut self) -> io::Result<u64> {
        self.read()
    }
}

/// One event on one package.
pub struct PerfRapl {
    counter: Box<dyn Count>,
    description: Description,
    /// Joules of one count.
    scale: f64,
    plausible: Plausible,
    /// Count and time of the last reading, and the time of its last change.
    last: Option<(u64, Time, Time)>,
}

/// Returns all counters of this machine, and the reasons why others are unusable; none for a
/// recording, which does not count. `others` are the meters found already.
pub fn find(tree: &Tree, others: &[&Description]) -> (Vec<PerfRapl>, Vec<Missing>) {
    if !tree.is_live() {
        return (Vec::new(), Vec::new());
    }
    let open = |unit, config, cpu| -> io::Result<Box<dyn Count>> {
        Ok(Box::new(Counter::open(unit, config, cpu)?))
    };
    let (mut meters, mut missing) = find_with(tree, others, open);
    missing.extend(remove_still(&mut meters));
    (meters, missing)
}

/// Removes counters of the platform that do not change: the board may leave them unconnected, and a
/// hypervisor may offer the event without counting. Package counters always change.
fn remove_still(meters: &mut Vec<PerfRapl>) -> Option<Missing> {
    let still = |meter: &mut PerfRapl| {
        let Ok(before) = meter.counter.count() else { return false };
        std::thread::sleep(PROBE);
        meter.counter.count().is_ok_and(|now| now == before)
    };
    let count = meters.len();
    meters.retain_mut(|it| it.description.scope != Scope::Platform || !still(it));
    (meters.len() < count).then(|| {
        let remedy = "use a meter of the platform: IPMI, hwmon, or an external one";
        Missing::because("RAPL by perf: energy-psys", "has counted nothing", remedy)
    })
}

/// Returns the same with counters that `open` returns for a unit, an event and a CPU.
pub fn find_with(
    tree: &Tree,
    others: &[&Description],
    open: impl Fn(u32, u64, u32) -> io::Result<Box<dyn Count>>,
) -> (Vec<PerfRapl>, Vec<Missing>) {
    let (mut meters, mut missing) = (Vec::new(), Vec::new());
    let Ok(unit) = tree.number::<u32>(format!("{UNIT}/type")) else { return (meters, missing) };
    let cpus = match tree.cpus(format!("{UNIT}/cpumask")) {
        Ok(cpus) => cpus,
        Err(why) => {
            missing.push(Missing::new("RAPL by perf", &why));
            return (meters, missing);
        }
    };
    for (event, name, scope) in EVENTS {
        let file = format!("{UNIT}/events/{event}");
        if !tree.exists(&file) {
            continue;
        }
        let found = match event_of(tree, &file) {
            Ok(found) => found,
            Err(why) => {
                missing.push(Missing::new(format!("RAPL by perf: {event}"), &why));
                continue;
            }
        };
        // There is one platform, whichever CPU reads it.
        let places = if scope == Scope::Platform { &cpus[..cpus.len().min(1)] } else { &cpus };
        for &cpu in places {
            match open(unit, found.config, cpu) {
                Ok(counter) => {
                    let package = package_of(tree, cpu, cpus.len());
                    let description = describe(&package, name, scope, others);
                    meters.push(PerfRapl::new(counter, description, found.scale));
                }
                Err(error) => {
                    let remedy = "run as root or with CAP_PERFMON";
                    let what = format!("RAPL by perf: {event} on CPU {cpu}");
                    let mut one = Missing::because(&what, &error.to_string(), remedy);
                    one.permission = error.kind() == io::ErrorKind::PermissionDenied;
                    missing.push(one);
                }
            }
        }
    }
    (meters, missing)
}

struct Event {
    config: u64,
    scale: f64,
}

/// Parses `events/NAME`, which holds `event=0x02`, `NAME.scale` with the joules of a count, and
/// `NAME.unit` with "Joules".
fn event_of(tree: &Tree, file: &str) -> Result<Event, ReadError> {
    let garbage = |value: String, expected| ReadError::Garbage {
        path: tree.path(file),
        value: value.chars().take(40).collect(),
        expected,
    };
    let text = tree.text(file)?;
    let config = text
        .strip_prefix("event=0x")
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| garbage(text.clone(), "event=0x and a number"))?;
    let unit = tree.text(format!("{file}.unit"))?;
    if unit != "Joules" {
        return Err(garbage(unit, "the unit Joules"));
    }
    let scale: f64 = tree.number(format!("{file}.scale"))?;
    if !(scale > 0.0 && scale < 1.0) {
        return Err(garbage(scale.to_string(), "a scale between 0 and 1"));
    }
    Ok(Event { config, scale })
}

/// Returns powercap's name for the package of a CPU: `package-0`, or `package-0-die-1` if a package
/// has several dies.
fn package_of(tree: &Tree, cpu: u32, counters: usize) -> String {
    let topology = |name: &str| {
        tree.number::<u32>(format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}")).ok()
    };
    let package = topology("physical_package_id").unwrap_or(0);
    match topology("die_id") {
        Some(die) if die > 0 && counters > 1 => format!("package-{package}-die-{die}"),
        _ => format!("package-{package}"),
    }
}

fn describe(package: &str, name: &str, scope: Scope, others: &[&Description]) -> Description {
    let (id, twin) = match scope {
        Scope::Platform => ("perf:psys".to_owned(), "rapl:psys".to_owned()),
        Scope::Package => (format!("perf:{package}"), format!("rapl:{package}")),
        _ => (format!("perf:{package}/{name}"), format!("rapl:{package}/{name}")),
    };
    let same = others.iter().find(|other| {
        // With dies, powercap also numbers the first one.
        other.id == twin || other.id == twin.replacen(package, &format!("{package}-die-0"), 1)
    });
    let part_of = match same {
        Some(other) => Some(other.id.clone()),
        // Cores are part of their package, however it is read.
        None if scope == Scope::Cores => Some(format!("perf:{package}")),
        None => None,
    };
    let accuracy = same.map_or(Accuracy::Bronze, |other| other.provenance.accuracy);
    Description {
        id,
        source: "perf",
        scope,
        part_of,
        provenance: Provenance { source: Source::Measured, accuracy },
        note: "the RAPL register once more, by perf; a check on powercap".to_owned(),
    }
}

impl PerfRapl {
    fn new(counter: Box<dyn Count>, description: Description, scale: f64) -> Self {
        let highest = match description.scope {
            Scope::Platform => Watts(10_000.0),
            Scope::Memory => Watts(500.0),
            _ => Watts(1000.0),
        };
        let plausible = Plausible { lowest: Watts::ZERO, highest };
        Self { counter, description, scale, plausible, last: None }
    }
}

impl Meter for PerfRapl {
    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&mut self, now: Time) -> Result<Reading, Rejection> {
        let count = self.counter.count().map_err(|error| {
            Rejection::Unreadable(ReadError::of(self.description.id.as_ref(), &error))
        })?;
        let Some((before, read, moved)) = self.last else {
            self.last = Some((count, now, now));
            return Err(Rejection::First);
        };
        let elapsed = now.since(read);
        if elapsed == Span::ZERO {
            return Err(Rejection::NothingNew);
        }
        if count == before {
            let still = now.since(moved);
            let stuck = still >= STANDSTILL;
            return Err(if stuck { Rejection::Stuck(still) } else { Rejection::NothingNew });
        }
        self.last = Some((count, now, now));
        // 64 bits never wrap at a plausible power: a count that goes back was reset.
        let Some(steps) = count.checked_sub(before) else {
            return Err(Rejection::Reset { limit: self.plausible.highest });
        };
        let energy = Joules(steps as f64 * self.scale);
        let power = self.plausible.check(energy / elapsed)?;
        let provenance = self.description.provenance;
        Ok(Reading { energy: Some(energy), elapsed, power, provenance })
    }
}

/// Returns true if two meters of the same quantity agree over an interval in which both were read:
/// within `share` of the larger one, plus the possible difference of `updates` of the register
/// (about a millisecond each) at either end.
pub fn agree(one: &Reading, other: &Reading, share: f64, updates: u32) -> bool {
    let larger = one.power.get().max(other.power.get());
    let shortest = one.elapsed.as_seconds().min(other.elapsed.as_seconds());
    let ends = if shortest > 0.0 { larger * f64::from(updates) * 1e-3 / shortest } else { larger };
    (one.power.get() - other.power.get()).abs() <= larger * share + ends
}

/// Events of the unit `power`.
pub const KIND: Registration = Registration {
    rows: &[Row {
        meter: "`perf:package-N`, `perf:…/dram`, `perf:…/core`, `perf:psys`",
        files: "perf events of the unit `power`",
        sees: "the same as the RAPL zone of that name; never summed with it",
        class: "as that zone, else bronze",
    }],
    find: |tree, others| {
        let (counters, missing) = find(tree, others);
        Finding::new(counters, missing)
    },
    recorded: &[(UNIT, &[])],
};

#[cfg(test)]
mod tests {
    use super::*;

    struct Step(u64, u64);

    impl Count for Step {
        fn count(&mut self) -> io::Result<u64> {
            self.0 += self.1;
            Ok(self.0)
        }
    }

    #[test]
    fn still_counter_of_the_platform_is_no_meter() {
        let meter = |scope, step| {
            let description = describe("package-0", "psys", scope, &[]);
            PerfRapl::new(Box::new(Step(7, step)), description, 0.5)
        };
        let mut meters =
            vec![meter(Scope::Platform, 0), meter(Scope::Package, 0), meter(Scope::Platform, 3)];
        assert!(remove_still(&mut meters).is_some());
        let scopes: Vec<_> = meters.iter().map(|it| it.description.scope).collect();
        assert_eq!(scopes, [Scope::Package, Scope::Platform]);
        assert!(remove_still(&mut meters).is_none());
    }
}
