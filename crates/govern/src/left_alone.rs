//! Knobs that the machine has but a configuration does not use, and the keys that would use them.

use crate::config::{Config, Listed, Moderation};
use crate::inventory::Inventory;
use crate::profile::PROFILES;
use crate::session::options;
use wattline_host::{Host, HostOptions, NoWorkers, Scope};
use wattline_knobs::{Machine as Settings, Plan};
use wattline_linux::sysfs::Tree;
use wattline_policy::Can;

/// Returns true if a configuration governs knobs of a kind.
fn is_governed(knob: Listed, config: &Config) -> bool {
    match knob {
        Listed::Moderation => config.moderates(),
        _ => knob.is_in(config.scope),
    }
}

/// Returns true if a machine has knobs of a kind.
fn is_there(knob: Listed, can: Can) -> bool {
    match knob {
        Listed::Frequency => can.set_frequency,
        Listed::Idle => can.limit_idle,
        Listed::Moderation => can.set_moderation,
        Listed::Cores => can.set_cores,
    }
}

/// Returns the knobs of the machine of `tree` that a configuration does not use. Writes nothing.
pub(crate) fn find(config: &Config, inventory: &Inventory, tree: &Tree) -> Vec<Listed> {
    let wanted = |knob: &Listed| !is_governed(*knob, config);
    if !Listed::ALL.iter().any(wanted) {
        return Vec::new();
    }
    // The machine as seen by a configuration that governs everything.
    let all = Config { scope: Scope::KERNEL, moderation: Moderation::Policy, ..config.clone() };
    let options = HostOptions { meters: false, ..options(&all, inventory, tree) };
    let knobs = Plan::new(Settings::new(tree));
    // A machine that cannot be governed is reported elsewhere.
    let Ok(host) = Host::new(options, knobs, Box::new(NoWorkers)) else { return Vec::new() };
    let can = wattline_governor::machine::Machine::platform(&host).can;
    Listed::ALL.into_iter().filter(|knob| wanted(knob) && is_there(*knob, can)).collect()
}

/// Describes a knob that the machine has, and the keys that would use it.
pub(crate) fn line(knob: Listed, config: &Config, inventory: &Inventory) -> String {
    let cpus = inventory.layout.cpus.len();
    let subject = match knob {
        Listed::Frequency => format!("frequency of {cpus} CPUs"),
        Listed::Idle => format!("idle states of {cpus} CPUs"),
        Listed::Moderation => {
            format!("interrupt moderation of {}", inventory.interfaces().join(", "))
        }
        Listed::Cores => {
            format!("cores that get packets of {}", inventory.interfaces().join(", "))
        }
    };
    let mut remedies = Vec::new();
    if !knob.is_in(config.scope) {
        let listed = Listed::ALL.iter().filter(|one| **one == knob || one.is_in(config.scope));
        let names: Vec<String> = listed.map(|one| format!("\"{}\"", one.name())).collect();
        remedies.push(format!("knobs = [{}]", names.join(", ")));
    }
    if knob == Listed::Moderation && config.moderation == Moderation::Keep {
        remedies.push("moderation = \"100us\"".to_owned());
    }
    let profiles: Vec<String> = PROFILES
        .iter()
        .filter(|profile| {
            Config::parse(profile.text, profile.name, config.policies)
                .is_ok_and(|own| is_governed(knob, &own))
        })
        .map(|profile| format!("\"{}\"", profile.name))
        .collect();
    let profiles = match &profiles[..] {
        [] => String::new(),
        names => format!(", or profile {}", names.join(" or ")),
    };
    format!(
        "{subject}: there is this knob, and this configuration leaves it alone; to use it: {} in \
         [govern]{profiles}",
        remedies.join(" and "),
    )
}
