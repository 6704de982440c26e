//! Hardware P-states of a simulated processor (Intel HWP, AMD CPPC), by an assumed rule.
//!
//! The kernel gives the processor a preference between performance and energy (EPP, 0 to 255), and
//! the processor chooses the frequency. Documented are
//! - the values of the kernel's names: `drivers/cpufreq/intel_pstate.c` (`epp_values`) and
//!   `drivers/cpufreq/amd-pstate.c` (`epp_values`), see [`Control::epp`];
//! - the direction: 0 is performance, 255 is energy (Intel 64 and IA-32 manual, volume 3,
//!   IA32_HWP_REQUEST; AMD64 manual, volume 2, CPPC_REQUEST);
//! - that the processor decides every millisecond and never goes below its most efficient frequency
//!   to save energy (Rotem, "Intel Architecture, Code Name Skylake Deep Dive", IDF 2015).
//!
//! No manufacturer documents the rule itself. **[`Assumed`] is our assumption**: the frequency is
//! chosen so that a core is busy for a share of time, and this share rises with the preference.
//! Conclusions hold only if they also hold for other parameters of the rule.

use super::fixed::Fixed;
use super::sampled::{LoadRule, Sampled};
use wattline_policy::{
    AskAgain, BuildContext, Kind, Observation, OperatingPoint, Parameter, Parameters, Platform,
    Policy, PolicyInfo,
};
use wattline_units::{Hertz, Span};

const ASSUMED: &str = "assumed: not documented";
/// Remark on every result.
const REMARK: &str = "hardware P-states: the rule of the simulated processor is assumed";

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "hardware-pstates",
    summary: "A simulated processor that chooses its frequency itself (Intel HWP, AMD CPPC): its rule is assumed",
    source: "ours; documented are the values and the direction of the preference alone (Intel 64 and IA-32 manual, volume 3; Linux, intel_pstate.c and amd-pstate.c)",
    parameters: &[
        Parameter {
            name: "control",
            kind: Kind::Word,
            default: "hwp",
            meaning: "`hwp` (intel_pstate) or `amd-pstate-epp`: the value of balance_power differs",
            source: "Linux, intel_pstate.c and amd-pstate.c, epp_values",
        },
        Parameter {
            name: "epp",
            kind: Kind::Word,
            default: "balance_performance",
            meaning: "energy performance preference by the kernel's name: performance, balance_performance, balance_power, power",
            source: "Linux, Documentation/admin-guide/pm/intel_pstate.rst",
        },
        Parameter {
            name: "least_busy",
            kind: Kind::Number { min: 0.05, max: 1.0 },
            default: "0.35",
            meaning: "busy share for which the processor aims just above EPP 0",
            source: ASSUMED,
        },
        Parameter {
            name: "most_busy",
            kind: Kind::Number { min: 0.05, max: 1.0 },
            default: "0.95",
            meaning: "busy share for which it aims at EPP 255",
            source: ASSUMED,
        },
        Parameter {
            name: "half_life",
            kind: Kind::Duration { min_micros: 100, max_micros: 1_000_000 },
            default: "4ms",
            meaning: "time in which the weight of a past load halves; a rising load counts at once",
            source: ASSUMED,
        },
        Parameter {
            name: "efficient",
            kind: Kind::Number { min: 0.0, max: 1.0 },
            default: "0.4",
            meaning: "most efficient frequency as a share of the fastest: the processor goes no lower",
            source: ASSUMED,
        },
    ],
    make,
};

/// Driver of the kernel, which maps names of preferences to values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// intel_pstate with HWP.
    Hwp,
    /// amd-pstate in its mode EPP.
    AmdPstateEpp,
}

impl Control {
    /// Returns the value of a preference from its name in the kernel.
    pub fn epp(self, name: &str) -> Option<u8> {
        let balance_power = if self == Self::Hwp { 192 } else { 191 };
        match name {
            "performance" => Some(0),
            "balance_performance" => Some(128),
            "balance_power" => Some(balance_power),
            "power" => Some(255),
            _ => None,
        }
    }
}

/// Parameters of the assumed rule.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assumed {
    /// Busy share that the processor aims at just above EPP 0.
    pub least_busy: f64,
    /// Busy share that it aims at with EPP 255.
    pub most_busy: f64,
    /// Time in which the weight of a past load halves.
    pub half_life: Span,
    /// Most efficient frequency as a share of the fastest.
    pub efficient: f64,
}

impl Assumed {
    /// Time between two decisions of the processor.
    pub const PERIOD: Span = Span::from_millis(1);

    /// Returns the busy share that the processor aims at; `None` if it always chooses the fastest
    /// frequency.
    pub fn busy(&self, epp: u8) -> Option<f64> {
        let part = f64::from(epp) / 255.0;
        (epp > 0).then_some(self.least_busy + (self.most_busy - self.least_busy) * part)
    }
}

/// A simulated processor with hardware P-states.
pub struct HardwarePstates {
    sampled: Sampled<Rule>,
}

struct Rule {
    assumed: Assumed,
    epp: u8,
    /// Weight of the old load after a period.
    keeps: f64,
    /// Load of each core, relative to its capacity at the fastest frequency.
    load: Vec<f64>,
}

impl HardwarePstates {
    /// Creates a processor with this preference.
    pub fn new(assumed: Assumed, epp: u8, platform: &Platform) -> Self {
        let fixed = Fixed::linux(platform.fastest(), platform);
        let rule = Rule {
            assumed,
            epp,
            keeps: 0.5f64.powf(Assumed::PERIOD.as_seconds() / assumed.half_life.as_seconds()),
            load: vec![0.0; platform.cores],
        };
        Self { sampled: Sampled::new(fixed, Assumed::PERIOD, platform, rule) }
    }

    /// Changes the preference.
    pub fn prefer(&mut self, epp: u8) {
        self.sampled.rule_mut().epp = epp;
    }
}

impl Policy for HardwarePstates {
    fn decide(&mut self, seen: &Observation<'_>, point: &mut OperatingPoint) -> AskAgain {
        self.sampled.decide(seen, point)
    }

    fn remark(&self) -> Option<String> {
        Some(REMARK.to_owned())
    }
}

impl LoadRule for Rule {
    const USEFUL_ONLY: bool = false;

    fn decide(&mut self, platform: &Platform, load: &[f64], point: &mut OperatingPoint) -> u64 {
        let fastest = platform.frequencies[platform.fastest()].0;
        let efficient = self.assumed.efficient * fastest;
        let busy = self.assumed.busy(self.epp);
        for ((setting, &load), known) in point.cores.iter_mut().zip(load).zip(&mut self.load) {
            let now = platform.frequencies.get(setting.frequency).map_or(fastest, |f| f.0);
            let work = load * now / fastest;
            let smoothed = *known * self.keeps + work * (1.0 - self.keeps);
            *known = smoothed.max(work);
            // A core that never idled may need more than it could show.
            let full = load >= 1.0;
            let wanted = match busy {
                Some(busy) if !full => (fastest * *known / busy).max(efficient),
                _ => fastest,
            };
            setting.frequency = platform.at_least(Hertz(wanted));
        }
        1
    }
}

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    // Only the request simulator prints the remark that the rule is assumed.
    if !context.platform.can.driver_rules {
        return Err("this plays the processor of a simulated server (`wattline sim --requests`); a real one \
                    chooses its frequency itself (`wattline govern` sets its preference)"
            .to_owned());
    }
    let control = match parameters.word("control") {
        "hwp" => Control::Hwp,
        "amd-pstate-epp" => Control::AmdPstateEpp,
        other => return Err(format!("control = \"{other}\": must be hwp or amd-pstate-epp")),
    };
    let name = parameters.word("epp");
    let epp = control.epp(name).ok_or_else(|| {
        let known = "performance, balance_performance, balance_power, power";
        format!("epp = \"{name}\": must be one of {known}")
    })?;
    let assumed = Assumed {
        least_busy: parameters.number("least_busy"),
        most_busy: parameters.number("most_busy"),
        half_life: parameters.span("half_life"),
        efficient: parameters.number("efficient"),
    };
    if assumed.least_busy > assumed.most_busy {
        return Err("least_busy must not be above most_busy".to_owned());
    }
    Ok(Box::new(HardwarePstates::new(assumed, epp, context.platform)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;
    use wattline_policy::FrequencyDomain;

    /// Returns the frequency in GHz at which constant work of so many GHz settles.
    fn settles(policy: &str, work: f64) -> f64 {
        let mut bench = Bench::new();
        bench.platform.domain = FrequencyDomain::Core;
        bench.platform.can.driver_rules = true;
        bench.play(policy, None);
        let mut frequency = 3.333;
        for _ in 0..100 {
            let busy = (work / frequency).min(1.0);
            bench.pass(Span::from_millis(1), &[busy, 0.0], 0);
            frequency = bench.platform.frequencies[bench.point.cores[0].frequency].gigahertz();
        }
        frequency
    }

    #[test]
    fn preference_for_energy_lowers_the_frequency_and_a_full_core_is_never_slowed() {
        for control in ["hwp", "amd-pstate-epp"] {
            let names = ["performance", "balance_performance", "balance_power", "power"];
            let at = |work: f64| {
                names.map(|epp| {
                    settles(&format!("hardware-pstates:control={control},epp={epp}"), work)
                })
            };
            let found = at(1.5);
            assert!(found.windows(2).all(|pair| pair[1] <= pair[0]), "{found:?}");
            assert!((found[0] - 3.333).abs() < 0.01 && found[3] < 2.0, "{found:?}");
            assert!(at(3.4).iter().all(|frequency| (frequency - 3.333).abs() < 0.01));
        }
        assert!(settles("hardware-pstates:epp=power,efficient=0.7", 0.1) >= 0.7 * 3.333);
    }

    #[test]
    fn values_of_preferences_are_those_of_the_kernel() {
        let values = |control: Control| {
            ["performance", "balance_performance", "balance_power", "power", "default"]
                .map(|name| control.epp(name))
        };
        assert_eq!(values(Control::Hwp), [Some(0), Some(128), Some(192), Some(255), None]);
        let amd = values(Control::AmdPstateEpp);
        assert_eq!(amd, [Some(0), Some(128), Some(191), Some(255), None]);
    }

    #[test]
    fn rule_is_reported_as_assumed_and_other_platforms_are_refused() {
        let mut bench = Bench::new();
        bench.platform.can.driver_rules = true;
        let policy = bench.make("hardware-pstates", None).unwrap();
        assert!(policy.remark().unwrap().contains("assumed"));
        for (text, says) in [
            ("hardware-pstates:epp=fast", "balance_performance"),
            ("hardware-pstates:control=x", "amd-pstate-epp"),
            ("hardware-pstates:least_busy=0.9,most_busy=0.5", "above"),
        ] {
            let error = bench.refused(text);
            assert!(error.contains(says), "{error}");
        }
        bench.platform.can.driver_rules = false;
        let error = bench.refused("hardware-pstates");
        assert!(error.contains("wattline govern"), "{error}");
    }
}
