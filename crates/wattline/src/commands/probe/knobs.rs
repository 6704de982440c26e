//! The knobs of a machine in words.

use serde::Serialize;
use wattline_knobs::latency::{self, DmaLatency};
use wattline_knobs::{Access, Machine, cpufreq, cpuidle, moderation, uncore};
use wattline_linux::ethtool::Coalesce;
use wattline_linux::sysfs::Tree;
use wattline_meters::{Missing, is_guest};

/// A knob and its present state.
#[derive(Debug, Serialize)]
pub struct Knob {
    pub name: String,
    pub state: String,
}

/// What was found and what was not.
#[derive(Debug, Default)]
pub struct Found {
    pub knobs: Vec<Knob>,
    pub missing: Vec<Missing>,
}

impl Found {
    fn has(&mut self, name: impl Into<String>, state: impl Into<String>) {
        self.knobs.push(Knob { name: name.into(), state: state.into() });
    }

    fn lacks(&mut self, what: &str, why: &str, remedy: &str) {
        self.missing.push(Missing::because(what, why, remedy));
    }
}

/// Network interfaces with hardware behind them.
pub fn interfaces(tree: &Tree) -> Vec<String> {
    let net = "/sys/class/net";
    let mut names = tree.entries(net);
    names.retain(|name| tree.exists(format!("{net}/{name}/device")));
    // Hand-made trees have the settings of a card without the card.
    names.extend(tree.entries("/ethtool").into_iter().filter(|_| !tree.is_live()));
    names.dedup();
    names
}

/// Looks for every knob.
pub fn find(tree: &Tree, interfaces: &[String]) -> Found {
    let mut found = Found::default();
    let guest = is_guest(tree);
    frequency(tree, guest, &mut found);
    idle(tree, guest, &mut found);
    latency_limits(tree, &mut found);
    let (uncores, broken) = uncore::find(tree);
    for uncore in &uncores {
        let (low, high) = (uncore.minimum_hertz.gigahertz(), uncore.maximum_hertz.gigahertz());
        found
            .has(format!("uncore frequency {}", uncore.name), format!("{low:.1} to {high:.1} GHz"));
    }
    found.missing.extend(broken.iter().map(|why| Missing::new("uncore frequency", why)));
    let machine = Machine::new(tree);
    for interface in interfaces {
        let value = |parameter| machine.read(&moderation::setting(interface, parameter));
        match (value(Coalesce::RxUsecs), value(Coalesce::AdaptiveRx)) {
            (Ok(micros), Ok(adaptive)) => {
                let adaptive = if adaptive == "0" { "off" } else { "on" };
                let state = format!("{micros} us, adaptive {adaptive}");
                found.has(format!("interrupt moderation {interface}"), state);
            }
            (Err(why), _) | (_, Err(why)) => {
                let what = format!("interrupt moderation of {interface}");
                found.lacks(&what, &why.to_string(), "use a card whose driver has `ethtool -C`");
            }
        }
    }
    found
}

fn frequency(tree: &Tree, guest: bool, found: &mut Found) {
    let (policies, broken) = cpufreq::find(tree);
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
        if guest {
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

fn idle(tree: &Tree, guest: bool, found: &mut Found) {
    let driver = tree.text("/sys/devices/system/cpu/cpuidle/current_driver").ok();
    match cpuidle::states(tree, 0) {
        Ok(states) if states.is_empty() => found.lacks(
            "cpuidle",
            "CPU 0 has no idle states in sysfs",
            if guest {
                "run on the host, or let the guest use mwait (QEMU: -overcommit cpu-pm=on)"
            } else {
                "do not boot with idle=poll; enable C-states in the BIOS"
            },
        ),
        Ok(states) => {
            let names: Vec<String> = states
                .iter()
                .map(|state| {
                    let micros = state.exit_latency.as_seconds() * 1e6;
                    let off = if state.disabled { ", disabled" } else { "" };
                    format!("{} ({micros:.0} us{off})", state.name)
                })
                .collect();
            let driver = driver.map_or(String::new(), |driver| format!("{driver}: "));
            found.has("idle states", format!("{driver}{}", names.join(", ")));
        }
        Err(why) => found.missing.push(Missing::new("cpuidle", &why)),
    }
}

fn latency_limits(tree: &Tree, found: &mut Found) {
    match tree.text("/sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us") {
        Ok(text) => {
            let state = match text.as_str() {
                "0" => "CPU 0: no limit".to_string(),
                "n/a" => "CPU 0: no latency allowed".to_string(),
                micros => format!("CPU 0: {micros} us"),
            };
            found.has("wake-up latency per CPU", state);
        }
        Err(why) => found.missing.push(Missing::new("wake-up latency per CPU", &why)),
    }
    match DmaLatency::present(tree) {
        Ok(limit) => {
            let state = format!("{} s at most", limit.as_seconds());
            found.has("wake-up latency of the machine", state);
        }
        // A recording has no device files.
        Err(_) if !tree.is_live() => {}
        Err(why) => found.missing.push(Missing::new(latency::DEVICE, &why)),
    }
}
