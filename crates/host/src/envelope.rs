//! The envelope within which hardware or the kernel controls the frequency.
//!
//! Processors with hardware P-states and the kernel's governors react within a millisecond. Users
//! who leave them in control set a preference between power and performance, and no frequency.

use wattline_knobs::{Change, cpufreq};
use wattline_units::named;

// In ascending order: the position is the index of a policy's frequency on a platform whose
// frequency is not controlled here.
named! {
    /// A preference between power and performance, by its names in the kernel
    /// (`energy_performance_preference`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Preference {
        /// The least power.
        Power = "power",
        /// Rather less power.
        BalancePower = "balance_power",
        /// Rather more performance.
        BalancePerformance = "balance_performance",
        /// The most performance.
        Performance = "performance",
    }
}

impl Preference {
    /// Returns the preference of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Returns the matching bias, by the kernel's names (Documentation/ABI, `energy_perf_bias`).
    fn bias(self) -> u8 {
        match self {
            Self::Power => 15,
            Self::BalancePower => 8,
            Self::BalancePerformance => 4,
            Self::Performance => 0,
        }
    }

    /// Returns its position in [`Self::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The kernel's governors that follow the load where the hardware does not, the preferred first.
const KERNEL: [&str; 3] = ["schedutil", "ondemand", "conservative"];

/// Returns the writes that give a policy a preference: limits stay as they are, and turbo is off at
/// `power` only. Empty if the policy has no choice.
pub(super) fn changes(policy: &cpufreq::Policy, preference: Preference) -> Vec<Change> {
    let mut changes = Vec::new();
    let fastest = preference == Preference::Performance;
    if !policy.driver.is_autonomous() {
        let governor = if fastest { Some("performance") } else { follower(policy) };
        changes.extend(governor.and_then(|one| policy.govern(one).ok()).unwrap_or_default());
    } else if policy.preferences.is_empty() {
        // intel_pstate without hardware P-states has its own control under this name.
        let governor = if fastest { "performance" } else { "powersave" };
        changes.extend(policy.govern(governor).unwrap_or_default());
    }
    changes.extend(policy.prefer(preference.name()).unwrap_or_default());
    changes.extend(policy.bias(preference.bias()));
    changes.extend(policy.turbo(preference != Preference::Power));
    changes
}

/// Returns a governor that follows the load: the present one if it does, since all of them do.
fn follower(policy: &cpufreq::Policy) -> Option<&str> {
    let present = KERNEL.into_iter().find(|one| policy.governor == *one);
    present.or_else(|| KERNEL.into_iter().find(|one| policy.governors.iter().any(|has| has == one)))
}

/// Returns the reason, with the remedy, if nothing controls the frequency of a policy.
pub(super) fn lacking(policy: &cpufreq::Policy) -> Option<String> {
    let has = policy.driver.is_autonomous() || follower(policy).is_some();
    (!has).then(|| {
        format!(
            "frequency: cpufreq policy {} has no governor that follows the load (load the module \
             cpufreq_ondemand), so that its governor {} stays",
            policy.number, policy.governor
        )
    })
}
