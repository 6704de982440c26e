//! Idle states that a CPU may enter (Documentation/admin-guide/pm/cpuidle.rst).

use crate::change::Change;
use crate::registration::{Found, Probe, Recorded, Registration};
use crate::setting::Setting;
use serde::Serialize;
use wattline_linux::missing::Missing;
use wattline_linux::sysfs::{ReadError, Tree};
use wattline_units::Span;

/// One idle state of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct State {
    /// Its number; the larger, the deeper.
    pub number: u32,
    /// Its name, such as `C6`.
    pub name: String,
    /// Longest time from a waking event until the CPU executes.
    #[serde(skip)]
    pub exit_latency: Span,
    /// True if it is forbidden now.
    pub disabled: bool,
}

/// Returns the idle states of a CPU, the shallowest first; none without a cpuidle driver.
///
/// # Errors
/// [`ReadError`] for a missing or broken file.
pub fn states(tree: &Tree, cpu: u32) -> Result<Vec<State>, ReadError> {
    let directory = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle");
    tree.numbered(&directory, "state")
        .into_iter()
        .map(|(number, state)| {
            let file = |name: &str| format!("{directory}/{state}/{name}");
            Ok(State {
                number,
                name: tree.text(file("name"))?,
                exit_latency: Span::from_micros(tree.number(file("latency"))?),
                disabled: tree.number::<u64>(file("disable"))? != 0,
            })
        })
        .collect()
}

/// Returns the writes that allow a CPU exactly the states with an exit latency within `longest`.
/// The shallowest state always stays allowed. Permissions come before prohibitions, so that some
/// state is allowed at any moment.
pub fn limit(cpu: u32, states: &[State], longest: Span) -> Vec<Change> {
    let allowed = |index: usize, state: &State| index == 0 || state.exit_latency <= longest;
    let mut changes: Vec<(bool, Change)> = states
        .iter()
        .enumerate()
        .map(|(index, state)| {
            let forbid = !allowed(index, state);
            let setting =
                Setting::cpu(format_args!("cpu{cpu}/cpuidle/state{}/disable", state.number));
            let verb = if forbid { "forbid" } else { "allow" };
            let micros = state.exit_latency.as_seconds() * 1e6;
            let why = format!("{verb} {} (exit latency {micros} us)", state.name);
            (forbid, Change { setting, value: u8::from(forbid).to_string(), why })
        })
        .collect();
    changes.sort_by_key(|(forbid, _)| *forbid);
    changes.into_iter().map(|(_, change)| change).collect()
}

/// Allowed idle states.
pub const KNOB: Registration = Registration {
    name: "idle states",
    label: "idle",
    files: "`cpuN/cpuidle/stateM/disable`",
    values: "0 (allowed), 1 (forbidden)",
    notes: "the shallowest always stays; permissions are written before prohibitions",
    owns: |setting| setting.is_cpu_file("/cpuidle/"),
    probe: show,
    recorded: Recorded {
        directories: &["cpuidle"],
        of_each_cpu: &["cpuidle"],
        ..Recorded::NOTHING
    },
    ..Registration::NOTHING
};

fn show(probe: &Probe<'_>, found: &mut Found) {
    let driver = probe.tree.text("/sys/devices/system/cpu/cpuidle/current_driver").ok();
    match states(probe.tree, 0) {
        Ok(states) if states.is_empty() => found.lacks(
            "cpuidle",
            "CPU 0 has no idle states in sysfs",
            if probe.guest {
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
