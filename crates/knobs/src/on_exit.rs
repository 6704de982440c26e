//! State in which a governor leaves its machine.

use crate::change::Change;
use crate::cpufreq;
use crate::setting::Setting;
use serde::{Deserialize, Serialize};
use wattline_linux::sysfs::Tree;

/// State in which a machine is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnExit {
    /// As it was found.
    #[default]
    Restore,
    /// As it is; `wattline restore` undoes it later.
    Keep,
    /// As it was found, but with the CPUs whose frequency was set at their fastest, for the program
    /// that takes over the load; `wattline restore` undoes that later.
    Performance,
}

impl OnExit {
    /// Name and value of each.
    pub const ALL: [(&'static str, Self); 3] =
        [("restore", Self::Restore), ("keep", Self::Keep), ("performance", Self::Performance)];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, one)| *one == self).map_or("restore", |(name, _)| name)
    }
}

impl std::str::FromStr for OnExit {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, one)| *one);
        found.ok_or_else(|| format!("{text:?}: must be restore, keep or performance"))
    }
}

/// Returns the cpufreq policies that settings belong to.
pub(crate) fn policies(settings: &[Setting]) -> Vec<u32> {
    let number = |setting: &Setting| match setting {
        Setting::File(path) => {
            path.split("/cpufreq/policy").nth(1)?.split('/').next()?.parse().ok()
        }
        _ => None,
    };
    let mut numbers: Vec<u32> = settings.iter().filter_map(number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// Returns the changes that bring cpufreq policies to their fastest within their limits.
pub(crate) fn fastest(tree: &Tree, policies: &[u32]) -> Vec<Change> {
    let present = policies.iter().filter_map(|number| cpufreq::Policy::look(tree, *number).ok());
    let changes = present.filter_map(|policy| {
        let within = policy.within(policy.minimum_hertz, policy.maximum_hertz);
        policy.govern("performance").or_else(|_| within.fix(within.highest_hertz)).ok()
    });
    changes.flatten().collect()
}
