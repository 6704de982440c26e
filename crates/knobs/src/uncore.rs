//! Frequency of the uncore: caches, mesh, memory controllers of Intel servers
//! (Documentation/admin-guide/pm/intel_uncore_frequency_scaling.rst).

use crate::change::Change;
use crate::registration::{Found, Probe, Recorded, Registration};
use crate::setting::Setting;
use serde::Serialize;
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::Hertz;

const DIRECTORY: &str = "/sys/devices/system/cpu/intel_uncore_frequency";
/// The file of the upper limit.
const UPPER: &str = "max_freq_khz";

/// One uncore, of a die or of a part of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Uncore {
    /// Its directory's name, such as `package_00_die_00` or `uncore00`.
    pub name: String,
    /// The lowest frequency that the firmware allows.
    pub lowest_hertz: Hertz,
    /// The highest frequency that the firmware allows.
    pub highest_hertz: Hertz,
    /// The lower limit at the last reading.
    pub minimum_hertz: Hertz,
    /// The upper limit at the last reading.
    pub maximum_hertz: Hertz,
}

/// Returns all uncores, and the reasons for omitting uncores with broken files. If the newer
/// `uncoreNN` exist, the older names are duplicates and left out.
pub fn find(tree: &Tree) -> (Vec<Uncore>, Vec<ReadError>) {
    let mut names = tree.entries(DIRECTORY);
    if names.iter().any(|name| name.starts_with("uncore")) {
        names.retain(|name| name.starts_with("uncore"));
    }
    let (mut found, mut broken) = (Vec::new(), Vec::new());
    for name in names {
        match look(tree, &name) {
            Ok(uncore) => found.push(uncore),
            Err(error) => broken.push(error),
        }
    }
    (found, broken)
}

fn look(tree: &Tree, name: &str) -> Result<Uncore, ReadError> {
    let hertz = |file: &str| {
        tree.number::<u64>(format!("{DIRECTORY}/{name}/{file}")).map(|khz| Hertz(khz as f64 * 1e3))
    };
    Ok(Uncore {
        name: name.to_string(),
        lowest_hertz: hertz("initial_min_freq_khz")?,
        highest_hertz: hertz("initial_max_freq_khz")?,
        minimum_hertz: hertz("min_freq_khz")?,
        maximum_hertz: hertz(UPPER)?,
    })
}

impl Uncore {
    /// Returns the writes that keep it between two frequencies, within the firmware's range, in the
    /// order that never crosses the limits.
    pub fn limit(&self, minimum: Hertz, maximum: Hertz) -> Vec<Change> {
        let cut = |frequency: Hertz| {
            Hertz(frequency.get().min(self.highest_hertz.get()).max(self.lowest_hertz.get()))
        };
        let maximum = cut(maximum);
        let minimum = Hertz(cut(minimum).get().min(maximum.get()));
        let change = |file: &str, value: Hertz| Change {
            setting: self.setting(file),
            value: format!("{:.0}", value.get() / 1e3),
            why: format!(
                "uncore between {:.1} and {:.1} GHz",
                minimum.gigahertz(),
                maximum.gigahertz()
            ),
        };
        let mut changes = vec![change(UPPER, maximum), change("min_freq_khz", minimum)];
        if maximum.get() < self.minimum_hertz.get() {
            changes.reverse();
        }
        changes
    }

    /// Returns the setting of its upper limit, in kHz.
    pub fn upper(&self) -> Setting {
        self.setting(UPPER)
    }

    fn setting(&self, file: &str) -> Setting {
        Setting::cpu(format_args!("intel_uncore_frequency/{}/{file}", self.name))
    }
}

/// The limits.
pub const KNOB: Registration = Registration {
    name: "uncore frequency",
    label: "uncore",
    files: "`intel_uncore_frequency/*/{min,max}_freq_khz`",
    values: "kHz",
    notes: "cut to the firmware's range; governed with `[power] uncore = true`",
    owns: |setting| setting.is_cpu_file("/intel_uncore_frequency/"),
    probe: show,
    recorded: Recorded { directories: &["intel_uncore_frequency"], ..Recorded::NOTHING },
    ..Registration::NOTHING
};

fn show(probe: &Probe<'_>, found: &mut Found) {
    let (uncores, broken) = find(probe.tree);
    for uncore in &uncores {
        let (low, high) = (uncore.minimum_hertz.gigahertz(), uncore.maximum_hertz.gigahertz());
        let state = format!("{low:.1} to {high:.1} GHz");
        found.has(format!("uncore frequency {}", uncore.name), state);
    }
    found.missing.extend(broken.iter().map(|why| Missing::new("uncore frequency", why)));
}
