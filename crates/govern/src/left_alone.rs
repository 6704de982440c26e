//! Knobs that the machine has and a configuration leaves alone, and what would use them.

use crate::config::{Config, Moderation};
use crate::inventory::Inventory;
use crate::profile::PROFILES;
use crate::session::options;
use wattline_host::{Host, HostOptions, NoWorkers, Scope};
use wattline_knobs::{Machine as Settings, Plan};
use wattline_linux::sysfs::Tree;
use wattline_policy::Can;

/// A knob, as `knobs` in a configuration names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Knob {
    Frequency,
    Idle,
    Moderation,
}

impl Knob {
    pub const ALL: [Self; 3] = [Self::Frequency, Self::Idle, Self::Moderation];

    fn name(self) -> &'static str {
        match self {
            Self::Frequency => "frequency",
            Self::Idle => "idle",
            Self::Moderation => "moderation",
        }
    }

    /// Whether `knobs` of a configuration names it.
    fn is_listed(self, config: &Config) -> bool {
        match self {
            Self::Frequency => config.scope.frequency,
            Self::Idle => config.scope.idle,
            Self::Moderation => config.scope.moderation,
        }
    }

    /// Whether a configuration governs it.
    fn is_governed(self, config: &Config) -> bool {
        match self {
            Self::Moderation => config.moderates(),
            _ => self.is_listed(config),
        }
    }

    fn is_in(self, can: Can) -> bool {
        match self {
            Self::Frequency => can.set_frequency,
            Self::Idle => can.limit_idle,
            Self::Moderation => can.set_moderation,
        }
    }
}

/// The knobs of the machine of `tree` that a configuration leaves alone. Nothing is written.
pub(crate) fn find(config: &Config, inventory: &Inventory, tree: &Tree) -> Vec<Knob> {
    let wanted = |knob: &Knob| !knob.is_governed(config);
    if !Knob::ALL.iter().any(wanted) {
        return Vec::new();
    }
    // The machine, as a configuration that governs everything would find it.
    let all = Config { scope: Scope::KERNEL, moderation: Moderation::Policy, ..config.clone() };
    let options = HostOptions { meters: false, ..options(&all, inventory, tree) };
    let knobs = Plan::new(Settings::new(tree));
    // A machine that cannot be governed is told of elsewhere.
    let Ok(host) = Host::new(options, knobs, Box::new(NoWorkers)) else { return Vec::new() };
    let can = wattline_governor::machine::Machine::platform(&host).can;
    Knob::ALL.into_iter().filter(|knob| wanted(knob) && knob.is_in(can)).collect()
}

/// Says that the machine has a knob, and what would use it.
pub(crate) fn line(knob: Knob, config: &Config, inventory: &Inventory) -> String {
    let cpus = inventory.layout.cpus.len();
    let what = match knob {
        Knob::Frequency => format!("frequency of {cpus} CPUs"),
        Knob::Idle => format!("idle states of {cpus} CPUs"),
        Knob::Moderation => {
            format!("interrupt moderation of {}", inventory.interfaces().join(", "))
        }
    };
    let mut remedies = Vec::new();
    if !knob.is_listed(config) {
        let listed = Knob::ALL.iter().filter(|one| **one == knob || one.is_listed(config));
        let names: Vec<String> = listed.map(|one| format!("\"{}\"", one.name())).collect();
        remedies.push(format!("knobs = [{}]", names.join(", ")));
    }
    if knob == Knob::Moderation && config.moderation == Moderation::Keep {
        remedies.push("moderation = \"100us\"".to_owned());
    }
    let profiles: Vec<String> = PROFILES
        .iter()
        .filter(|profile| {
            Config::parse(profile.text, profile.name).is_ok_and(|own| knob.is_governed(&own))
        })
        .map(|profile| format!("\"{}\"", profile.name))
        .collect();
    format!(
        "{what}: there is this knob, and this configuration leaves it alone; to use it: {} in \
         [govern], or profile {}",
        remedies.join(" and "),
        profiles.join(" or ")
    )
}
