//! The list of policies: the one place to add a new one.

use crate::PolicyInfo;
use crate::policies::*;
use std::fmt;

/// All policies, baselines first.
pub static POLICIES: &[PolicyInfo] = &[
    poll::INFO,
    napi::INFO,
    performance::INFO,
    powersave_governor::INFO,
    ondemand::INFO,
    conservative::INFO,
    schedutil::INFO,
    intel_pstate::INFO,
    hardware_pstates::INFO,
    dpdk_power::INFO,
    l3fwd_power::INFO,
    ovs_sleep::INFO,
    vpp_adaptive::INFO,
    grout_sleep::INFO,
    grout_autoscale::INFO,
    metronome::INFO,
    rsspp::INFO,
    shenango::INFO,
    snabb::INFO,
    cndp_idle::INFO,
    hare::INFO,
    tortoise::INFO,
    table::INFO,
    oracle::INFO,
    queue_length::INFO,
    copi::INFO,
    wattline::INFO,
];

/// Names that policies once had, and still answer to.
pub(crate) static FORMER_NAMES: &[FormerName] = &[FormerName {
    name: "powersave",
    now: "queue-length",
    remark: "Linux's governor of that name is \"powersave-governor\"",
}];

/// A name that a policy once had. Its text form is the note for whoever still uses it.
#[derive(Debug, PartialEq, Eq)]
pub struct FormerName {
    pub(crate) name: &'static str,
    /// The policy's present name.
    pub(crate) now: &'static str,
    remark: &'static str,
}

impl FormerName {
    /// Returns the former name with which the text form of a policy begins, and the text with the
    /// present name in its place.
    pub fn replace_in(text: &str) -> Option<(&'static Self, String)> {
        let end = text.find([':', '+']).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        let former = FORMER_NAMES.iter().find(|former| former.name == name)?;
        Some((former, format!("{}{rest}", former.now)))
    }
}

impl fmt::Display for FormerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "policy \"{}\" is called \"{}\" now; {}", self.name, self.now, self.remark)
    }
}

/// The policy of this name.
pub fn find(name: &str) -> Option<&'static PolicyInfo> {
    POLICIES.iter().find(|policy| policy.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::testing::{Bench, server};
    use crate::{BuildContext, PolicySpec, build};
    use wattline_server::Application;

    #[test]
    fn every_policy_builds_with_its_defaults_and_decides() {
        let model = server();
        let cost = model.packet_cost(Application::Ipv4, 64).unwrap();
        for info in POLICIES {
            let mut bench = Bench::new();
            // As the request simulator has it.
            bench.platform.can.driver_rules = true;
            let context = BuildContext {
                platform: &bench.platform,
                server: Some(&model),
                packet: Some((cost, 64)),
                seed: 1,
            };
            let spec = PolicySpec::parse(info.name).unwrap();
            let mut policy = build(&spec, &context).unwrap();
            assert_eq!(policy.name(), info.name);
            bench.start(policy.as_mut());
            assert!(!bench.point.active.is_empty(), "{}", info.name);
        }
    }
}
