//! Order of a setting's values by the power that they let a machine draw.
//!
//! Each value is an interval: the least and the most that a machine may draw under it, on a scale
//! of its setting. A value that lets it draw more at either end raises. Values that cannot be
//! judged count as raising.

use crate::setting::Setting;
use serde::Serialize;
use wattline_linux::ethtool::Coalesce;
use wattline_linux::napi::Napi;

/// Effect of a write on the power that a machine may draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// May draw less, and never more.
    Less,
    /// The setting does not affect power, or both values are equivalent.
    Neither,
    /// May draw more.
    More,
}

impl Direction {
    /// Returns a description for users.
    pub fn words(self) -> &'static str {
        match self {
            Self::Less => "less power",
            Self::Neither => "power as before",
            Self::More => "more power",
        }
    }

    /// Returns the effect of giving a setting another value; `read` reads the settings that it
    /// depends on.
    pub fn between(
        setting: &Setting,
        (from, to): (&str, &str),
        read: impl Fn(&Setting) -> Option<String>,
    ) -> Self {
        if from == to || !is_ordered(setting) {
            return Self::Neither;
        }
        match (draw(setting, from, &read), draw(setting, to, &read)) {
            (Some(from), Some(to)) if from == to => Self::Neither,
            (Some(from), Some(to)) if to.0 <= from.0 && to.1 <= from.1 => Self::Less,
            _ => Self::More,
        }
    }
}

/// Returns the value to write instead of `wanted`: the one found, unless `wanted` saves more.
pub fn not_above(
    setting: &Setting,
    (found, wanted): (&str, &str),
    read: impl Fn(&Setting) -> Option<String>,
) -> String {
    let saves = !is_ordered(setting)
        || Direction::between(setting, (found, wanted), read) == Direction::Less;
    if saves { wanted } else { found }.to_owned()
}

/// Files with numeric values; true if a higher value may draw more.
const NUMBERS: [(&str, bool); 11] = [
    ("/scaling_min_freq", true),
    ("/scaling_max_freq", true),
    ("/scaling_setspeed", true),
    ("/min_freq_khz", true),
    ("/max_freq_khz", true),
    ("/boost", true),
    ("/no_turbo", false),
    ("/disable", true),
    ("/min_perf_pct", true),
    ("/max_perf_pct", true),
    ("/energy_perf_bias", false),
];
const GOVERNOR: &str = "scaling_governor";
const PREFERENCE: &str = "/energy_performance_preference";
const WAKE_UP: &str = "/pm_qos_resume_latency_us";

/// Returns true if values of a setting affect power.
pub fn is_ordered(setting: &Setting) -> bool {
    match setting {
        Setting::File(path) => {
            NUMBERS.iter().any(|(end, _)| path.ends_with(end))
                || [GOVERNOR, PREFERENCE, WAKE_UP].iter().any(|end| path.ends_with(end))
        }
        Setting::Coalesce { parameter, .. } | Setting::QueueCoalesce { parameter, .. } => {
            matches!(parameter, Coalesce::RxUsecs)
        }
        Setting::Napi { setting, .. } => matches!(setting, Napi::GroFlushTimeout),
        _ => false,
    }
}

/// Returns least and most draw under a value; `None` for a value that cannot be judged.
fn draw(
    setting: &Setting,
    value: &str,
    read: &impl Fn(&Setting) -> Option<String>,
) -> Option<(f64, f64)> {
    let point = |draw: f64| Some((draw, draw));
    let number = || value.parse::<f64>().ok();
    let Setting::File(path) = setting else {
        // Interrupts that wait longer wake cores less often.
        return point(-number()?);
    };
    if path.ends_with(PREFERENCE) {
        return point(-preference(value)?);
    }
    if path.ends_with(WAKE_UP) {
        // 0 means no limit, "n/a" that the CPU must not sleep.
        return point(match value {
            "0" => f64::MIN,
            "n/a" => 0.0,
            _ => -number()?,
        });
    }
    if let Some(policy) = path.strip_suffix(GOVERNOR) {
        return governor(policy, value, read);
    }
    let (_, rises) = NUMBERS.iter().find(|(end, _)| path.ends_with(end))?;
    point(if *rises { number()? } else { -number()? })
}

/// Returns the kernel's figure of an energy performance preference, by name or as a number.
fn preference(value: &str) -> Option<f64> {
    Some(match value {
        "performance" => 0.0,
        "default" | "balance_performance" => 128.0,
        "balance_power" => 192.0,
        "power" => 255.0,
        number => f64::from(number.parse::<u8>().ok()?),
    })
}

/// Returns the draw under a governor, from 0 at the lowest frequency to 1 at the highest. A fixed
/// speed determines its draw; unknown speeds count as the highest.
fn governor(
    policy: &str,
    value: &str,
    read: &impl Fn(&Setting) -> Option<String>,
) -> Option<(f64, f64)> {
    let file = |name: &str| read(&Setting::File(format!("{policy}{name}")));
    let hertz = |name: &str| file(name)?.parse::<f64>().ok();
    Some(match value {
        "performance" => (1.0, 1.0),
        // The driver's own control of the frequency has this name.
        "powersave" if is_autonomous(&file("scaling_driver")?) => (0.0, 1.0),
        "powersave" => (0.0, 0.0),
        "userspace" => {
            let speed = hertz("scaling_setspeed");
            let range = hertz("scaling_min_freq").zip(hertz("scaling_max_freq"));
            match speed.zip(range) {
                Some((speed, (low, high))) if high > low => {
                    let place = ((speed - low) / (high - low)).clamp(0.0, 1.0);
                    (place, place)
                }
                _ => (1.0, 1.0),
            }
        }
        // They follow the load.
        _ => (0.0, 1.0),
    })
}

fn is_autonomous(driver: &str) -> bool {
    matches!(driver, "intel_pstate" | "amd-pstate-epp")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(setting: &str, from: &str, to: &str, driver: &str) -> Direction {
        let read = |setting: &Setting| {
            let path = setting.to_string();
            let file = path.rsplit('/').next().unwrap_or_default();
            let value = match file {
                "scaling_driver" => driver,
                "scaling_min_freq" => "1000000",
                "scaling_max_freq" => "3000000",
                "scaling_setspeed" => "1500000",
                _ => return None,
            };
            Some(value.to_owned())
        };
        Direction::between(&setting.parse().unwrap(), (from, to), read)
    }

    /// The lines of each list are ascending: every later value raises over every earlier one.
    #[test]
    fn values_ascend_by_the_power_they_allow() {
        const CPU: &str = "/sys/devices/system/cpu";
        for (file, driver, ascending) in [
            (
                "cpufreq/policy0/scaling_governor",
                "acpi-cpufreq",
                &["powersave", "ondemand", "performance"][..],
            ),
            (
                "cpufreq/policy0/scaling_governor",
                "cppc_cpufreq",
                &["powersave", "userspace", "performance"],
            ),
            ("cpufreq/policy0/scaling_governor", "cppc_cpufreq", &["userspace", "schedutil"]),
            ("cpufreq/policy0/scaling_governor", "intel_pstate", &["powersave", "performance"]),
            (
                "cpufreq/policy0/energy_performance_preference",
                "intel_pstate",
                &["power", "balance_power", "170", "default", "64", "performance"],
            ),
            ("cpu0/power/energy_perf_bias", "", &["15", "8", "6", "4", "0"]),
            ("cpu0/power/pm_qos_resume_latency_us", "", &["0", "200", "20", "n/a"]),
            ("cpu0/cpuidle/state2/disable", "", &["0", "1"]),
            ("intel_pstate/no_turbo", "", &["1", "0"]),
            ("cpufreq/boost", "", &["0", "1"]),
            ("cpufreq/policy0/scaling_min_freq", "", &["800000", "1000000"]),
        ] {
            let setting = format!("{CPU}/{file}");
            for (place, low) in ascending.iter().enumerate() {
                for high in &ascending[place + 1..] {
                    assert_eq!(
                        direction(&setting, low, high, driver),
                        Direction::More,
                        "{low} {high}"
                    );
                    assert_eq!(
                        direction(&setting, high, low, driver) == Direction::Less,
                        !(*low == "userspace" && *high == "schedutil"),
                        "{high} {low}"
                    );
                }
            }
            let odd = direction(&setting, ascending[0], "odd value", driver);
            assert!(odd != Direction::Less, "{setting}");
        }
        let governor = format!("{CPU}/cpufreq/policy0/scaling_governor");
        for (one, other) in [("ondemand", "schedutil"), ("schedutil", "conservative")] {
            assert_eq!(direction(&governor, one, other, "acpi-cpufreq"), Direction::Neither);
        }
        assert_eq!(direction("ethtool:eth0/rx-usecs", "100", "50", ""), Direction::More);
        assert_eq!(direction("ethtool:eth0/combined-channels", "1", "8", ""), Direction::Neither);
    }
}
