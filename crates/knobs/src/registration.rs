//! What everything but its own file has to know of a knob. Each knob's file ends with one
//! [`Registration`], and [`KNOBS`](crate::KNOBS) lists them: `wattline probe`, recordings of
//! machines, the labels of counters and docs/reference/knobs.md follow from there.

use crate::access::Machine;
use crate::setting::Setting;
use serde::Serialize;
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::Tree;

/// A knob, as others know it.
#[derive(Debug, Clone, Copy)]
pub struct Registration {
    /// Its name in the reference.
    pub name: &'static str,
    /// The label of its settings in counters of writes; several knobs may share one.
    pub label: &'static str,
    /// What it writes, for the reference: files below `/sys/devices/system/cpu/`, or in words.
    pub files: &'static str,
    /// The values that it writes, with their unit.
    pub values: &'static str,
    /// Its range, what it conflicts with, in which order it writes: whatever a user has to know.
    pub notes: &'static str,
    /// Whether a setting is its own.
    pub owns: fn(&Setting) -> bool,
    /// Says what a machine has of it and what is missing.
    pub probe: fn(&Probe<'_>, &mut Found),
    /// What a recording of a machine takes for it.
    pub recorded: Recorded,
}

impl Registration {
    /// A knob without a name that owns, shows and records nothing: what a registration leaves out.
    pub const NOTHING: Self = Self {
        name: "",
        label: "",
        files: "",
        values: "",
        notes: "",
        owns: |_| false,
        probe: |_, _| {},
        recorded: Recorded::NOTHING,
    };
}

/// What a recording of a machine takes.
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
    /// Whether it is a virtual machine.
    pub guest: bool,
}

/// A knob and its present state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct State {
    /// Which knob, of which CPU or interface.
    pub name: String,
    /// How it is set, in words.
    pub state: String,
}

/// What was found and what was not.
#[derive(Debug, Default)]
pub struct Found {
    /// Knobs that are there.
    pub knobs: Vec<State>,
    /// Knobs that are not, and why.
    pub missing: Vec<Missing>,
}

impl Found {
    /// A knob is there.
    pub fn has(&mut self, name: impl Into<String>, state: impl Into<String>) {
        self.knobs.push(State { name: name.into(), state: state.into() });
    }

    /// A knob is missing; with the reason, and with what would enable it.
    pub fn lacks(&mut self, what: &str, why: &str, remedy: &str) {
        self.missing.push(Missing::because(what, why, remedy));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use wattline_linux::sysfs::Tree;

    #[test]
    fn a_probe_tells_every_knob_of_a_recorded_machine() {
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
        let moderated = of("acpi-cpufreq", &["eth9", "eth10"]);
        let state = moderated.knobs.last().unwrap();
        assert_eq!(state.name, "interrupt moderation eth9");
        assert!(state.state.ends_with("adaptive on"), "{state:?}");
        let missing = moderated.missing.last().unwrap();
        assert_eq!(missing.what, "interrupt moderation of eth10");
    }
}
