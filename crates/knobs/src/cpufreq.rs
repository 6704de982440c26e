//! Frequency: governor, limits, a fixed speed, and the energy performance preference
//! (Documentation/admin-guide/pm/{cpufreq,intel_pstate,amd-pstate}.rst).

use crate::change::{Change, Knobs};
use crate::conflict;
use crate::registration::{Dwell, Found, Probe, Recorded, Registration};
use crate::setting::Setting;
use serde::Serialize;
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::{Hertz, Span};

const CPUS: &str = "/sys/devices/system/cpu";
const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";

/// The driver of the frequency, which determines the available settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// P-states of the ACPI tables: a fixed list.
    AcpiCpufreq,
    /// `intel_pstate` active: its own governors, no speed can be set; limits and preference.
    IntelPstateActive,
    /// `intel_pstate` passive (`intel_cpufreq`): the common governors.
    IntelPstatePassive,
    /// `amd-pstate` passive or guided: the common governors.
    AmdPstate,
    /// `amd-pstate-epp`: the processor decides within limits and by preference.
    AmdPstateEpp,
    /// ACPI collaborative processor performance control, mostly on Arm servers.
    Cppc,
    /// Any other; treated according to its files.
    Other(String),
}

impl Driver {
    fn named(name: &str) -> Self {
        match name {
            "acpi-cpufreq" => Self::AcpiCpufreq,
            "intel_pstate" => Self::IntelPstateActive,
            "intel_cpufreq" => Self::IntelPstatePassive,
            "amd-pstate" => Self::AmdPstate,
            "amd-pstate-epp" => Self::AmdPstateEpp,
            "cppc_cpufreq" => Self::Cppc,
            other => Self::Other(other.to_string()),
        }
    }

    /// Returns true if the processor chooses the frequency itself, within limits.
    pub fn is_autonomous(&self) -> bool {
        matches!(self, Self::IntelPstateActive | Self::AmdPstateEpp)
    }
}

/// CPUs that share a frequency, with the available values.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Policy {
    /// Its number in sysfs.
    pub number: u32,
    /// The driver.
    pub driver: Driver,
    /// The CPUs that share it, including off-line ones.
    pub cpus: Vec<u32>,
    /// The lowest frequency of the hardware.
    pub lowest_hertz: Hertz,
    /// The highest, turbo included.
    pub highest_hertz: Hertz,
    /// The possible frequencies, ascending, if there is a list.
    pub steps_hertz: Vec<Hertz>,
    /// The available governors.
    pub governors: Vec<String>,
    /// The available energy performance preferences; none without this knob.
    pub preferences: Vec<String>,
    /// The lower limit at the last reading.
    pub minimum_hertz: Hertz,
    /// The upper limit at the last reading.
    pub maximum_hertz: Hertz,
    /// The governor at the last reading.
    pub governor: String,
    /// Related settings: bias of its CPUs and turbo.
    #[serde(skip)]
    related: Related,
}

/// Settings of the processor that limit or bias a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Related {
    /// CPUs with an energy performance bias.
    biased: Vec<u32>,
    /// The switch of turbo, with its values for on and off, if it was on.
    turbo: Option<(Setting, &'static str, &'static str)>,
}

impl Related {
    fn find(tree: &Tree, number: u32, cpus: &[u32]) -> Self {
        let has_bias = |cpu: &u32| tree.is_file(format!("{CPUS}/{}", bias_file(*cpu)));
        let own = format!("cpufreq/policy{number}/boost");
        let switches = [
            ("intel_pstate/no_turbo", "0", "1"),
            (own.as_str(), "1", "0"),
            ("cpufreq/boost", "1", "0"),
        ];
        let there = |(file, ..): &&(&str, _, _)| tree.is_file(format!("{CPUS}/{file}"));
        let turbo = switches.iter().find(there);
        // An administrator has set a switch that is off.
        let is_on = |(file, on, _): &&(&str, &str, _)| {
            tree.text(format!("{CPUS}/{file}")).is_ok_and(|value| value == *on)
        };
        let turbo = turbo.filter(is_on);
        Self {
            biased: cpus.iter().copied().filter(has_bias).collect(),
            turbo: turbo.map(|(file, on, off)| (Setting::cpu(format_args!("{file}")), *on, *off)),
        }
    }
}

fn bias_file(cpu: u32) -> String {
    format!("cpu{cpu}/power/energy_perf_bias")
}

/// A frequency, governor or preference that a policy does not have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum FrequencyError {
    /// Outside the hardware's range.
    #[error("cpufreq policy {policy}: {asked} is outside {lowest} to {highest}")]
    OutOfRange {
        /// The policy.
        policy: u32,
        /// The requested frequency.
        asked: Hertz,
        /// The lowest possible.
        lowest: Hertz,
        /// The highest possible.
        highest: Hertz,
    },
    /// Not in the list.
    #[error("cpufreq policy {policy}: {what} {asked:?} is not among {}", available.join(", "))]
    NotAvailable {
        /// The policy.
        policy: u32,
        /// `governor` or `energy performance preference`.
        what: &'static str,
        /// The requested name.
        asked: String,
        /// The available names.
        available: Vec<String>,
    },
}

/// Returns all policies of a machine, and the reasons for omitting policies with broken files or
/// vanished CPUs.
pub fn find(tree: &Tree) -> (Vec<Policy>, Vec<ReadError>) {
    let mut policies = Vec::new();
    let mut broken = Vec::new();
    for (number, _) in tree.numbered(POLICIES, "policy") {
        match Policy::look(tree, number) {
            Ok(policy) => policies.push(policy),
            Err(error) => broken.push(error),
        }
    }
    (policies, broken)
}

impl Policy {
    /// Reads one policy.
    ///
    /// # Errors
    /// [`ReadError`] for a missing essential file.
    pub fn look(tree: &Tree, number: u32) -> Result<Self, ReadError> {
        let file = |name: &str| format!("{POLICIES}/policy{number}/{name}");
        let kilohertz = |name: &str| {
            tree.number::<u64>(file(name)).map(|kilohertz| Hertz(kilohertz as f64 * 1e3))
        };
        let words = |name: &str| -> Vec<String> {
            let text = tree.text(file(name)).unwrap_or_default();
            text.split_whitespace().map(str::to_string).collect()
        };
        let mut steps: Vec<Hertz> = words("scaling_available_frequencies")
            .iter()
            .filter_map(|word| Some(Hertz(word.parse::<u64>().ok()? as f64 * 1e3)))
            .collect();
        steps.sort_by(|a, b| a.get().total_cmp(&b.get()));
        let driver = Driver::named(&tree.text(file("scaling_driver"))?);
        let cpus = tree.cpus(file("related_cpus"))?;
        Ok(Self {
            number,
            driver,
            related: Related::find(tree, number, &cpus),
            cpus,
            lowest_hertz: kilohertz("cpuinfo_min_freq")?,
            highest_hertz: kilohertz("cpuinfo_max_freq")?,
            steps_hertz: steps,
            governors: words("scaling_available_governors"),
            preferences: words("energy_performance_available_preferences"),
            minimum_hertz: kilohertz("scaling_min_freq")?,
            maximum_hertz: kilohertz("scaling_max_freq")?,
            governor: tree.text(file("scaling_governor"))?,
        })
    }

    /// Returns this policy with a narrower range: all writes then stay between these frequencies.
    #[must_use]
    pub fn within(&self, minimum: Hertz, maximum: Hertz) -> Self {
        let (lowest, highest) = (self.lowest_hertz.get(), self.highest_hertz.get());
        let high = maximum.get().min(highest).max(lowest);
        let low = minimum.get().max(lowest).min(high);
        let mut narrower = self.clone();
        narrower.steps_hertz.retain(|step| (low..=high).contains(&step.get()));
        (narrower.lowest_hertz, narrower.highest_hertz) = (Hertz(low), Hertz(high));
        narrower
    }

    /// Rereads the values that writes depend on, through `knobs`: planned writes count.
    pub fn refresh(&mut self, knobs: &impl Knobs) -> bool {
        let read = |name: &str| knobs.read(&self.setting(name)).ok();
        let hertz = |name: &str| Some(Hertz(read(name)?.parse::<u64>().ok()? as f64 * 1e3));
        let (minimum, maximum) = (hertz("scaling_min_freq"), hertz("scaling_max_freq"));
        let governor = read("scaling_governor");
        let readable = minimum.is_some() && maximum.is_some() && governor.is_some();
        self.minimum_hertz = minimum.unwrap_or(self.minimum_hertz);
        self.maximum_hertz = maximum.unwrap_or(self.maximum_hertz);
        self.governor = governor.unwrap_or_else(|| self.governor.clone());
        readable
    }

    /// Returns the held speed: the speed of the governor `userspace`, within the limits; otherwise
    /// the upper limit. `None` if it cannot be read, as while its CPUs are off-line.
    pub fn held(&mut self, knobs: &impl Knobs) -> Option<Hertz> {
        if !self.refresh(knobs) {
            return None;
        }
        if self.governor != "userspace" {
            return Some(self.maximum_hertz);
        }
        let speed = knobs.read(&self.setting("scaling_setspeed")).ok()?;
        let speed = speed.parse::<u64>().ok()? as f64 * 1e3;
        Some(Hertz(speed.max(self.minimum_hertz.get()).min(self.maximum_hertz.get())))
    }

    /// Returns the writes that make it run at a speed: those of [`Policy::fix`], and the matching
    /// preference if the processor chooses by itself. Between equal limits it has no choice of
    /// frequency left, but the preference also affects its power budget, such as the uncore's share
    /// (Intel SDM volume 3, 15.4.4; amd-pstate.rst).
    ///
    /// # Errors
    /// [`FrequencyError::OutOfRange`].
    pub fn run_at(&self, requested: Hertz) -> Result<Vec<Change>, FrequencyError> {
        let mut changes = self.fix(requested)?;
        if self.driver.is_autonomous()
            && let Some(preference) = self.preference_at(requested)
        {
            changes.extend(self.prefer(preference)?);
        }
        Ok(changes)
    }

    /// Returns the writes that let it run no faster than `requested`, with the preference of
    /// [`Self::run_at`]. Its governor keeps choosing below that, so it never draws more than
    /// before.
    ///
    /// # Errors
    /// [`FrequencyError::OutOfRange`].
    pub fn cap_at(&self, requested: Hertz) -> Result<Vec<Change>, FrequencyError> {
        let step = self.steps_hertz.iter().find(|step| step.get() >= requested.get());
        let target = step.copied().unwrap_or(requested);
        let minimum = Hertz(self.minimum_hertz.get().min(target.get()));
        let mut changes = self.limit(minimum, target)?;
        if self.driver.is_autonomous()
            && let Some(preference) = self.preference_at(target)
        {
            changes.extend(self.prefer(preference)?);
        }
        Ok(changes)
    }

    /// Returns the preference for a frequency: `performance` for the highest, `power` for the
    /// lowest, the balanced ones for the halves between.
    fn preference_at(&self, frequency: Hertz) -> Option<&'static str> {
        let (low, high) = (self.lowest_hertz.get(), self.highest_hertz.get());
        let place = (frequency.get() - low) / (high - low);
        let preference = match place {
            _ if high <= low => "balance_performance",
            place if place >= 1.0 => "performance",
            place if place >= 0.5 => "balance_performance",
            place if place > 0.0 => "balance_power",
            _ => "power",
        };
        self.preferences.iter().any(|one| one == preference).then_some(preference)
    }

    /// Returns the writes that fix the frequency: by the governor `userspace` if the driver has it,
    /// otherwise by equal limits. Limits move in the order that never crosses them, from any
    /// present values. With a list of steps, the lowest step not below `requested` is chosen.
    ///
    /// # Errors
    /// [`FrequencyError::OutOfRange`].
    pub fn fix(&self, requested: Hertz) -> Result<Vec<Change>, FrequencyError> {
        let range = self.lowest_hertz.get()..=self.highest_hertz.get();
        if !range.contains(&requested.get()) {
            return Err(FrequencyError::OutOfRange {
                policy: self.number,
                asked: requested,
                lowest: self.lowest_hertz,
                highest: self.highest_hertz,
            });
        }
        let step = self.steps_hertz.iter().find(|step| step.get() >= requested.get());
        let target = step.copied().unwrap_or(requested);
        let value = kilohertz(target);
        let why = format!("run at {:.3} GHz", target.gigahertz());
        if self.governors.iter().any(|governor| governor == "userspace") {
            let mut changes = vec![self.change("scaling_governor", "userspace", &why)];
            // The speed is clipped to the limits, so these must include it.
            if target.get() < self.minimum_hertz.get() {
                changes.push(self.change("scaling_min_freq", &value, &why));
            }
            if target.get() > self.maximum_hertz.get() {
                changes.push(self.change("scaling_max_freq", &value, &why));
            }
            changes.push(self.change("scaling_setspeed", &value, &why));
            return Ok(changes);
        }
        Ok(self.limits(&value, &value, target, &why))
    }

    /// Returns the writes that let the frequency move between two bounds.
    ///
    /// # Errors
    /// [`FrequencyError::OutOfRange`], also if the lower bound is above the upper.
    pub fn limit(&self, minimum: Hertz, maximum: Hertz) -> Result<Vec<Change>, FrequencyError> {
        for (asked, highest) in [(minimum, maximum), (maximum, self.highest_hertz)] {
            if !(self.lowest_hertz.get()..=highest.get()).contains(&asked.get()) {
                let (policy, lowest) = (self.number, self.lowest_hertz);
                return Err(FrequencyError::OutOfRange { policy, asked, lowest, highest });
            }
        }
        let why =
            format!("run between {:.3} and {:.3} GHz", minimum.gigahertz(), maximum.gigahertz());
        Ok(self.limits(&kilohertz(minimum), &kilohertz(maximum), maximum, &why))
    }

    /// Returns the writes of both limits: the lower limit moves first downwards, the upper one
    /// upwards. The present limits are those of the last reading: [`Policy::look`] again after
    /// changes.
    fn limits(&self, minimum: &str, maximum: &str, upper: Hertz, why: &str) -> Vec<Change> {
        let lower_first = upper.get() < self.minimum_hertz.get();
        let mut changes = vec![
            self.change("scaling_max_freq", maximum, why),
            self.change("scaling_min_freq", minimum, why),
        ];
        if lower_first {
            changes.reverse();
        }
        changes
    }

    /// Returns the write that chooses a governor.
    ///
    /// # Errors
    /// [`FrequencyError::NotAvailable`].
    pub fn govern(&self, governor: &str) -> Result<Vec<Change>, FrequencyError> {
        self.among("governor", governor, &self.governors)?;
        let why = match governor {
            "performance" => "it keeps the highest frequency",
            "userspace" => "it takes the speed that is set",
            "powersave" if !self.driver.is_autonomous() => "it keeps the lowest frequency",
            _ => "it lets the frequency follow the load",
        };
        Ok(vec![self.change("scaling_governor", governor, why)])
    }

    /// Returns the writes that choose an energy performance preference. The governor `performance`
    /// of the autonomous drivers locks it, so that governor is replaced first.
    ///
    /// # Errors
    /// [`FrequencyError::NotAvailable`].
    pub fn prefer(&self, preference: &str) -> Result<Vec<Change>, FrequencyError> {
        self.among("energy performance preference", preference, &self.preferences)?;
        let mut changes = Vec::new();
        if self.driver.is_autonomous() && self.governor == "performance" {
            let why = "the governor performance locks the preference";
            changes.push(self.change("scaling_governor", "powersave", why));
        }
        let why = "the hardware chooses the frequency by this preference";
        changes.push(self.change("energy_performance_preference", preference, why));
        Ok(changes)
    }

    /// Returns the writes that give its CPUs an energy performance bias, 0 for the most performance
    /// to 15 for the least power. None on a processor without it, and none if there is a
    /// preference, which replaces it.
    pub fn bias(&self, bias: u8) -> Vec<Change> {
        let biased = self.related.biased.iter().filter(|_| self.preferences.is_empty());
        let change = |cpu: &u32| Change {
            setting: Setting::cpu(format_args!("{}", bias_file(*cpu))),
            value: bias.to_string(),
            why: "bias between performance (0) and power (15)".to_owned(),
        };
        biased.map(change).collect()
    }

    /// Returns the write that allows or forbids the processor its turbo frequencies. None without
    /// such a switch, or if turbo was off at the last reading.
    pub fn turbo(&self, on: bool) -> Option<Change> {
        let (setting, value_on, value_off) = self.related.turbo.as_ref()?;
        let (value, why) =
            if on { (value_on, "turbo as it was") } else { (value_off, "no turbo while calm") };
        Some(Change { setting: setting.clone(), value: (*value).to_owned(), why: why.to_owned() })
    }

    fn among(
        &self,
        what: &'static str,
        asked: &str,
        available: &[String],
    ) -> Result<(), FrequencyError> {
        if available.iter().any(|one| one == asked) {
            return Ok(());
        }
        Err(FrequencyError::NotAvailable {
            policy: self.number,
            what,
            asked: asked.to_string(),
            available: available.to_vec(),
        })
    }

    /// Returns the setting of its upper limit, in kHz.
    pub fn upper_limit(&self) -> Setting {
        self.setting("scaling_max_freq")
    }

    fn setting(&self, name: &str) -> Setting {
        Setting::cpu(format_args!("cpufreq/policy{}/{name}", self.number))
    }

    fn change(&self, name: &str, value: &str, why: &str) -> Change {
        Change { setting: self.setting(name), value: value.to_string(), why: why.to_string() }
    }
}

fn kilohertz(frequency: Hertz) -> String {
    format!("{:.0}", frequency.get() / 1e3)
}

/// Governor, limits and speed.
pub const FREQUENCY: Registration = Registration {
    name: "frequency",
    label: "frequency",
    files: "`cpufreq/policyN/scaling_{governor,setspeed,min_freq,max_freq}`",
    values: "a governor's name; kHz",
    dwell: Dwell {
        words: "the driver's `cpuinfo_transition_latency`, if it states one",
        on: transition,
    },
    conflicts: &[
        conflict::TUNED.sets("governor, limits"),
        conflict::AUTO_CPUFREQ.sets("governor, turbo"),
        conflict::THERMALD.sets("frequency limits"),
        conflict::CPUPOWER.sets("governor, limits"),
        conflict::TLP.sets("governor, limits"),
        conflict::LPMD.sets("preference, CPUs of services"),
        conflict::WATT.sets("governor, preference, limits"),
        conflict::SYSTEM76.sets("governor, limits, turbo"),
        conflict::SCHED_EXT.sets("the speed that each CPU asks for"),
        conflict::CPUSET.sets("CPUs of its tasks"),
    ],
    notes: "by driver, below",
    owns: |setting| {
        let others = (PREFERENCE.owns)(setting) || (TURBO.owns)(setting);
        setting.is_cpu_file("/cpufreq/policy") && !others
    },
    probe: show,
    recorded: Recorded {
        directories: &["cpufreq", "intel_pstate", "amd_pstate"],
        ..Recorded::NOTHING
    },
    ..Registration::NOTHING
};

/// Returns the longest time of a frequency change, according to the drivers. No driver needs a
/// tenth of a second: such a figure is `CPUFREQ_ETERNAL`, which means unknown.
fn transition(tree: &Tree) -> Span {
    let file = |number| format!("{POLICIES}/policy{number}/cpuinfo_transition_latency");
    let policies = tree.numbered(POLICIES, "policy").into_iter();
    let nanos = policies.filter_map(|(number, _)| tree.number::<u64>(file(number)).ok());
    let known = nanos.map(Span::from_nanos).filter(|span| *span < Span::from_millis(100));
    known.max().unwrap_or(Span::ZERO)
}

/// Preference of a processor that chooses its own frequency.
pub const PREFERENCE: Registration = Registration {
    name: "preference",
    label: "frequency",
    files: "`cpufreq/policyN/energy_performance_preference`",
    values: "a name that the driver offers",
    conflicts: &[
        conflict::TUNED.sets("preference"),
        conflict::POWER_PROFILES.sets("energy performance preference"),
        conflict::AUTO_CPUFREQ.sets("preference"),
        conflict::TLP.sets("preference, all at boot and when the supply changes"),
    ],
    notes: "locked under the governor `performance` of intel_pstate and amd-pstate-epp, so \
            `powersave` is set first",
    owns: |setting| setting.is_cpu_file("/energy_performance_preference"),
    ..Registration::NOTHING
};

/// Bias of processors without a preference.
pub const BIAS: Registration = Registration {
    name: "bias",
    label: "frequency",
    files: "`cpuN/power/energy_perf_bias`",
    values: "0 to 15",
    conflicts: &[conflict::TUNED.sets("bias"), conflict::TLP.sets("bias")],
    notes: "not where there is a preference",
    owns: |setting| setting.is_cpu_file("/power/energy_perf_bias"),
    recorded: Recorded { of_each_cpu: &["power/energy_perf_bias"], ..Recorded::NOTHING },
    ..Registration::NOTHING
};

/// Switch of the turbo frequencies.
pub const TURBO: Registration = Registration {
    name: "turbo",
    label: "frequency",
    files: "`intel_pstate/no_turbo`, `cpufreq/{policyN/,}boost`",
    values: "0 or 1",
    conflicts: &[
        conflict::TUNED.sets("turbo"),
        conflict::AUTO_CPUFREQ.sets("turbo"),
        conflict::TLP.sets("turbo"),
    ],
    notes: "off while a preference is `power`; never on where it was off",
    owns: |setting| setting.is_cpu_file("/no_turbo") || setting.is_cpu_file("/boost"),
    ..Registration::NOTHING
};

fn show(probe: &Probe<'_>, found: &mut Found) {
    let (policies, broken) = find(probe.tree);
    for policy in &policies {
        let mut state = format!(
            "{:?}, {:.3} to {:.3} GHz of {:.3} to {:.3}, governor {}",
            policy.driver,
            policy.minimum_hertz.gigahertz(),
            policy.maximum_hertz.gigahertz(),
            policy.lowest_hertz.gigahertz(),
            policy.highest_hertz.gigahertz(),
            policy.governor
        );
        if !policy.steps_hertz.is_empty() {
            state.push_str(&format!(", {} steps", policy.steps_hertz.len()));
        }
        if !policy.preferences.is_empty() {
            state.push_str(", has an energy performance preference");
        }
        found.has(format!("frequency of CPUs {:?}", policy.cpus), state);
    }
    found.missing.extend(broken.iter().map(|why| Missing::new("cpufreq policy", why)));
    if policies.is_empty() && broken.is_empty() {
        let why = "no policy in /sys/devices/system/cpu/cpufreq";
        if probe.guest {
            let why = format!("{why}: this is a virtual machine, whose host sets the frequency");
            found.lacks("cpufreq", &why, "run on the host, or use the platform `scale`");
        } else {
            found.lacks(
                "cpufreq",
                why,
                "load acpi-cpufreq, or boot with intel_pstate=passive or amd_pstate=active; enable \
                 P-states (SpeedStep, Cool'n'Quiet, CPPC, OS control) in the BIOS",
            );
        }
    }
}
