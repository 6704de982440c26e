//! RAPL energy counters through powercap (Documentation/power/powercap/powercap.rst).
//!
//! Package and memory are disjoint; cores and uncore are parts of their package. psys sees the
//! whole platform, packages included, or the share of one socket if each has its own. The `-mmio`
//! zones show the same package again. Dies can show the counter of their package.

use crate::counter::{Difference, WrappingCounter};
use crate::reading::{Description, Meter, Plausible, Reading, Rejection, Scope};
use crate::registration::{Finding, Registration, Row};
use std::path::PathBuf;
use wattline_linux::missing::{Missing, is_guest};
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::{Accuracy, Joules, Provenance, Source, Span, Time, Watts};

const POWERCAP: &str = "/sys/class/powercap";
/// Standstill after which a counter does not measure: registers change about every millisecond.
const STANDSTILL: Span = Span::from_millis(500);

/// One zone.
#[derive(Debug)]
pub struct Rapl {
    tree: Tree,
    file: PathBuf,
    description: Description,
    highest: u64,
    plausible: Plausible,
    /// Counter, time of the last reading, and time of its last change.
    state: Option<State>,
}

#[derive(Debug)]
struct State {
    counter: WrappingCounter,
    read: Time,
    moved: Time,
    ever_moved: bool,
}

/// Returns all usable zones, and the reasons why others are not.
pub fn find(tree: &Tree) -> (Vec<Rapl>, Vec<Missing>) {
    let mut meters: Vec<Rapl> = Vec::new();
    let mut missing = Vec::new();
    let vendor = Vendor::read(tree);
    // The directory lists zones and subzones side by side: intel-rapl:0, intel-rapl:0:1.
    let mut zones: Vec<String> = tree
        .entries(POWERCAP)
        .into_iter()
        .filter(|name| name.contains("-rapl") && name.contains(':'))
        .collect();
    // A zone of the register interface comes before the same zone by memory-mapped registers.
    zones.sort_by_key(|zone| zone.contains("mmio"));
    for zone in &zones {
        match Rapl::open(tree, zone, &zones, vendor) {
            Ok(mut meter) => {
                meter.join_mirror(&meters);
                meters.push(meter);
            }
            Err(why) => missing.push(Missing::new(format!("RAPL zone {zone}"), &why)),
        }
    }
    (meters, missing)
}

impl Rapl {
    fn open(tree: &Tree, zone: &str, zones: &[String], vendor: Vendor) -> Result<Self, ReadError> {
        let directory = PathBuf::from(POWERCAP).join(zone);
        let name = tree.text(directory.join("name"))?;
        let highest = tree.number(directory.join("max_energy_range_uj"))?;
        let file = directory.join("energy_uj");
        // Tried once: a file that exists but cannot be read is no meter.
        let energy: u64 = tree.number(&file)?;
        if is_psys(&name) && energy == 0 {
            // Several sockets have the zone, and the board may connect only one of them.
            let reason = "has counted nothing since boot".to_owned();
            return Err(ReadError::Failed { path: tree.path(&file), reason });
        }
        let top = zone.split(':').take(2).collect::<Vec<_>>().join(":");
        let top_name = tree.text(PathBuf::from(POWERCAP).join(&top).join("name"))?;
        let kind = zone.split(':').next().unwrap_or(zone);
        let prefix = if kind.contains("mmio") { "rapl-mmio" } else { "rapl" };
        let top_id = format!("{prefix}:{top_name}");
        let subzone = top != zone;
        let (scope, limit) = scope_of(&name, subzone);
        let id = if subzone { format!("{top_id}/{name}") } else { top_id.clone() };
        let twin = (prefix == "rapl-mmio" && zones.iter().any(|other| is_twin(tree, other, &name)))
            .then(|| format!("rapl:{name}"));
        let psys = || {
            let names = zones.iter().filter(|zone| !zone.contains("mmio"));
            let names = names
                .filter_map(|zone| tree.text(PathBuf::from(POWERCAP).join(zone).join("name")).ok());
            names.filter(|name| is_psys(name)).min().map(|name| format!("rapl:{name}"))
        };
        let part_of = match scope {
            _ if twin.is_some() => twin,
            Scope::Cores | Scope::Uncore => Some(top_id),
            Scope::Package | Scope::Memory => psys(),
            Scope::Platform | Scope::Device => None,
        };
        let (accuracy, note) = vendor.trust(scope);
        Ok(Self {
            tree: tree.clone(),
            file,
            highest,
            plausible: Plausible { lowest: Watts::ZERO, highest: limit },
            state: None,
            description: Description {
                id,
                source: "rapl",
                scope,
                part_of,
                provenance: Provenance { source: Source::Measured, accuracy },
                note: note.to_string(),
            },
        })
    }

    /// Makes this a part of another die of its package that shows the same counter: a value between
    /// two values of the other, read one after the other, is no coincidence.
    fn join_mirror(&mut self, known: &[Self]) {
        let read = |meter: &Self| meter.tree.number::<u64>(&meter.file).ok();
        let package = |meter: &Self| {
            meter.description.id.split_once("-die-").map(|(package, _)| package.to_owned())
        };
        let same = |other: &&Self| {
            let alike = package(self).is_some_and(|own| package(other) == Some(own))
                && other.description.scope == self.description.scope
                && other.highest == self.highest
                && other.description.part_of == self.description.part_of;
            let between = || {
                let (before, own, after) = (read(other)?, read(self)?, read(other)?);
                // Counters that never changed are all at zero.
                Some(own > 0 && (before..=after).contains(&own))
            };
            alike && between().unwrap_or(false)
        };
        if let Some(first) = known.iter().find(same) {
            self.description.part_of = Some(first.description.id.clone());
        }
    }

    fn difference(
        state: &mut State,
        value: u64,
        now: Time,
        limit: Watts,
        may_rest: bool,
    ) -> Result<(u64, Span), Rejection> {
        let elapsed = now.since(state.read);
        if elapsed == Span::ZERO {
            return Err(Rejection::NothingNew);
        }
        let difference = state.counter.advance(value, elapsed).map_err(|error| {
            // The value is dropped: the next interval starts at the last valid value.
            Rejection::OutOfRange { value: error.value, highest: error.highest }
        })?;
        if difference == Difference::Exact(0) && !(may_rest && state.ever_moved) {
            // No figure, and the interval goes on: 0 W would be a claim.
            let still = now.since(state.moved);
            let stuck = still >= STANDSTILL;
            return Err(if stuck { Rejection::Stuck(still) } else { Rejection::NothingNew });
        }
        state.read = now;
        match difference {
            Difference::Exact(0) => Ok((0, elapsed)),
            Difference::Exact(steps) => {
                state.moved = now;
                state.ever_moved = true;
                Ok((steps, elapsed))
            }
            Difference::TooLong { longest } => Err(Rejection::TooLong { elapsed, longest }),
            Difference::Reset => Err(Rejection::Reset { limit }),
        }
    }
}

impl Meter for Rapl {
    fn description(&self) -> &Description {
        &self.description
    }

    fn read(&mut self, now: Time) -> Result<Reading, Rejection> {
        let value = self.tree.number::<u64>(&self.file)?;
        let Some(state) = &mut self.state else {
            let per_second = (self.plausible.highest.get() * 1e6) as u64;
            let counter =
                WrappingCounter::new(self.highest, per_second, value).map_err(|error| {
                    Rejection::OutOfRange { value: error.value, highest: error.highest }
                })?;
            self.state = Some(State { counter, read: now, moved: now, ever_moved: false });
            return Err(Rejection::First);
        };
        // Cores and graphics may really sleep; a package or its memory never draws nothing.
        let may_rest = matches!(self.description.scope, Scope::Cores | Scope::Uncore);
        let (steps, elapsed) =
            Self::difference(state, value, now, self.plausible.highest, may_rest)?;
        let energy = Joules(steps as f64 / 1e6);
        let power = self.plausible.check(energy / elapsed).or_else(|rejection| {
            // Within one update of the register, a short interval can show too much power.
            if elapsed < Span::from_millis(100) { Ok(energy / elapsed) } else { Err(rejection) }
        })?;
        let provenance = self.description.provenance;
        Ok(Reading { energy: Some(energy), elapsed, power, provenance })
    }
}

/// Returns a zone's scope, and its largest plausible power. The limit also determines the longest
/// interval: 65 536 J at 1000 W are 65 s.
fn scope_of(name: &str, subzone: bool) -> (Scope, Watts) {
    match name {
        name if is_psys(name) => (Scope::Platform, Watts(10_000.0)),
        "dram" => (Scope::Memory, Watts(500.0)),
        "core" => (Scope::Cores, Watts(1000.0)),
        _ if subzone => (Scope::Uncore, Watts(1000.0)),
        _ => (Scope::Package, Watts(1000.0)),
    }
}

/// Returns true for the name of a platform domain: `psys`, and `psys-N` of further sockets.
fn is_psys(name: &str) -> bool {
    name == "psys" || name.strip_prefix("psys-").is_some_and(|socket| socket.parse::<u32>().is_ok())
}

fn is_twin(tree: &Tree, zone: &str, name: &str) -> bool {
    let file = PathBuf::from(POWERCAP).join(zone).join("name");
    !zone.contains("mmio") && tree.text(file).is_ok_and(|other| other == name)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vendor {
    Intel,
    Amd,
    Other,
}

impl Vendor {
    fn read(tree: &Tree) -> Self {
        let text = tree.text("/proc/cpuinfo").unwrap_or_default();
        match text.lines().find_map(|line| line.strip_prefix("vendor_id")) {
            Some(line) if line.ends_with("GenuineIntel") => Self::Intel,
            Some(line) if line.ends_with("AuthenticAMD") => Self::Amd,
            _ => Self::Other,
        }
    }

    fn trust(self, scope: Scope) -> (Accuracy, &'static str) {
        match (self, scope) {
            (_, Scope::Platform) => {
                (Accuracy::Bronze, "platform sensor; its wiring is the board's")
            }
            (Self::Intel, Scope::Package | Scope::Memory) => (
                Accuracy::Silver,
                "measured by the voltage regulators since Haswell, before modelled",
            ),
            (Self::Amd, Scope::Cores) => {
                (Accuracy::Bronze, "one core's register shown as the package's; do not use it")
            }
            (Self::Amd, _) => (Accuracy::Bronze, "modelled by the processor, does not see memory"),
            _ => (Accuracy::Bronze, "modelled by the processor"),
        }
    }
}

/// Zones of powercap.
pub const KIND: Registration = Registration {
    rows: &[
        Row {
            meter: "`rapl:package-N`, `rapl:package-N-die-M`",
            files: "`/sys/class/powercap/intel-rapl:*`",
            sees: "a package or die",
            class: "silver (Intel), bronze (others)",
        },
        Row {
            meter: "`rapl:…/dram`",
            files: "in sysfs below the package; its energy is not contained in the package's",
            sees: "memory",
            class: "silver (Intel), bronze (others)",
        },
        Row {
            meter: "`rapl:…/core`, `rapl:…/uncore`",
            files: "in sysfs below the package; their energy is contained in the package's",
            sees: "cores; graphics and others",
            class: "bronze",
        },
        Row {
            meter: "`rapl:psys`, `rapl:psys-N`",
            files: "the same directory",
            sees: "the platform, packages included; summed where sockets have their own",
            class: "bronze",
        },
        Row {
            meter: "`rapl-mmio:…`",
            files: "`intel-rapl-mmio:*`",
            sees: "the same package once more",
            class: "as the package",
        },
    ],
    find: |tree, _| {
        let (zones, mut missing) = find(tree);
        if zones.is_empty() && missing.is_empty() {
            missing.push(none_at_all(tree));
        }
        Finding::new(zones, missing)
    },
    recorded: &[(POWERCAP, &["name", "energy_uj", "max_energy_range_uj", "enabled"])],
};

fn none_at_all(tree: &Tree) -> Missing {
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
