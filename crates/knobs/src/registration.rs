//! Facts about a knob that others need. Each knob's file ends with one [`Registration`], and
//! [`KNOBS`](crate::KNOBS) lists them. `wattline probe`, `wattline plan`, the pace of a governor,
//! rivals, recordings of machines, labels of counters and docs/reference/knobs.md use them.

use crate::access::Machine;
use crate::conflict::Conflict;
use crate::setting::Setting;
use serde::Serialize;
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::Tree;
use wattline_units::Span;

/// Facts about a knob for other crates.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// Its name in the reference.
    pub name: &'static str,
    /// The label of its settings in counters of writes; several knobs may share one.
    pub label: &'static str,
    /// Its files, for the reference: below `/sys/devices/system/cpu/`, or in words.
    pub files: &'static str,
    /// The values that it writes, with their unit.
    pub values: &'static str,
    /// Cost of a write to a machine's budget, in writes of a file of sysfs: above one if it takes
    /// locks or moves flows.
    pub write_cost: u32,
    /// Shortest time between two changes.
    pub dwell: Dwell,
    /// Other programs that set it.
    pub conflicts: &'static [Conflict],
    /// Its range, the order of its writes, and other facts for users.
    pub notes: &'static str,
    /// Returns true if a setting belongs to this knob.
    pub owns: fn(&Setting) -> bool,
    /// Adds the knob's parts that a machine has or lacks.
    pub probe: fn(&Probe<'_>, &mut Found),
    /// Its part of a machine's recording.
    pub recorded: Recorded,
}

impl Registration {
    /// A knob without a name that owns, shows and records nothing: the defaults of a registration.
    pub const NOTHING: Self = Self {
        name: "",
        label: "",
        files: "",
        values: "",
        write_cost: 1,
        dwell: Dwell::NONE,
        conflicts: &[],
        notes: "",
        owns: |_| false,
        probe: |_, _| {},
        recorded: Recorded::NOTHING,
    };
}

/// Shortest time for which a knob keeps its setting, despite other requests.
#[derive(Debug, Clone, Copy)]
pub struct Dwell {
    /// For the reference.
    pub words: &'static str,
    /// On a machine.
    pub on: fn(&Tree) -> Span,
}

impl Dwell {
    /// May be set again at once.
    pub const NONE: Self = Self { words: "none", on: |_| Span::ZERO };
}

/// Part of a machine's recording: files, directories and settings.
#[derive(Debug, Clone, Copy)]
pub struct Recorded {
    /// Directories below `/sys/devices/system/cpu/`, with everything in them.
    pub directories: &'static [&'static str],
    /// Files and directories below each CPU's own directory.
    pub of_each_cpu: &'static [&'static str],
    /// Settings of a network interface.
    pub of_card: fn(&str) -> Vec<Setting>,
}

impl Recorded {
    /// Nothing.
    pub const NOTHING: Self = Self { directories: &[], of_each_cpu: &[], of_card: |_| Vec::new() };
}

/// The machine that is probed.
#[derive(Debug)]
pub struct Probe<'a> {
    /// Its files.
    pub tree: &'a Tree,
    /// Its settings.
    pub machine: Machine,
    /// Its network interfaces.
    pub interfaces: &'a [String],
    /// True for a virtual machine.
    pub guest: bool,
}

/// A knob and its present state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct State {
    /// The knob, with its CPU or interface.
    pub name: String,
    /// Its setting, in words.
    pub state: String,
    /// Cost of a write to the machine's budget ([`Registration::write_cost`]).
    pub write_cost: u32,
    /// Time in seconds that it keeps its setting on this machine.
    pub dwell_seconds: f64,
    /// Other programs that may set it, present or not.
    pub contenders: Vec<&'static str>,
}

/// Knobs of a machine, and those that it lacks.
#[derive(Debug, Default)]
pub struct Found {
    /// Existing knobs.
    pub knobs: Vec<State>,
    /// Missing knobs, with the reasons.
    pub missing: Vec<Missing>,
}

impl Found {
    /// Probes a machine for all these knobs.
    pub fn probe(knobs: &[&Registration], probed: &Probe<'_>) -> Self {
        let mut found = Self::default();
        for knob in knobs {
            let known = found.knobs.len();
            (knob.probe)(probed, &mut found);
            let dwell_seconds = (knob.dwell.on)(probed.tree).as_seconds();
            for state in &mut found.knobs[known..] {
                state.write_cost = knob.write_cost;
                state.dwell_seconds = dwell_seconds;
                state.contenders = knob.conflicts.iter().map(|with| with.with.name).collect();
            }
        }
        found
    }

    /// Adds an existing knob.
    pub fn has(&mut self, name: impl Into<String>, state: impl Into<String>) {
        self.knobs.push(State {
            name: name.into(),
            state: state.into(),
            write_cost: Registration::NOTHING.write_cost,
            dwell_seconds: 0.0,
            contenders: Vec::new(),
        });
    }

    /// Adds a missing knob with the reason, and the remedy.
    pub fn lacks(&mut self, what: &str, why: &str, remedy: &str) {
        self.missing.push(Missing::because(what, why, remedy));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use wattline_linux::sysfs::Tree;

    #[test]
    fn probe_lists_every_knob_of_a_recorded_machine() {
        let of = |machine: &str, interfaces: &[&str]| {
            let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
            let interfaces: Vec<String> = interfaces.iter().map(|name| name.to_string()).collect();
            crate::probe(&Tree::at(fixtures.join(machine)), &interfaces)
        };
        let intel = of("intel-pstate-hwp", &[]);
        let names: Vec<&str> = intel.knobs.iter().map(|knob| knob.name.as_str()).collect();
        for name in ["frequency of CPUs [0]", "idle states", "uncore frequency package_00_die_00"] {
            assert!(names.contains(&name), "{name} is not among {names:?}");
        }
        let frequency = &intel.knobs[0];
        assert!(frequency.contenders.contains(&"TuneD"), "{frequency:?}");
        assert_eq!((frequency.write_cost, frequency.dwell_seconds), (1, 0.0));
        let moderated = of("acpi-cpufreq", &["eth9", "eth10"]);
        let state = moderated.knobs.last().unwrap();
        assert_eq!(state.name, "interrupt moderation eth9");
        assert_eq!(state.contenders, ["adaptive moderation"]);
        assert!(state.state.ends_with("adaptive on"), "{state:?}");
        let missing = moderated.missing.last().unwrap();
        assert_eq!(missing.what, "interrupt moderation of eth10");
    }
}
