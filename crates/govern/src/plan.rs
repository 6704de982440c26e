//! Writes that a governor would make on a machine, with reasons; nothing is written.

use crate::choice;
use crate::config::Config;
use crate::guard::{Bounds, RuleSeen};
use crate::inventory::{Inventory, LeftOut};
use crate::left_alone;
use crate::session::options;
use crate::tell;
use serde::Serialize;
use wattline_host::{PlanError, PowerPlan, plan_with};
use wattline_linux::sysfs::Tree;
use wattline_policy::Policy;

/// A plan, and what it is about.
#[derive(Debug, Clone, Serialize)]
pub struct GovernPlan {
    /// The profile.
    pub profile: &'static str,
    /// Governed parts with the reasons, a line each.
    pub intent: Vec<String>,
    /// CPUs and interfaces that are left out.
    pub left_out: Vec<LeftOut>,
    /// Writes to be made.
    #[serde(flatten)]
    pub plan: PowerPlan,
    /// Ways to enable missing knobs, if nothing can be set.
    pub remedies: Vec<&'static str>,
}

/// Reason why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GovernPlanError {
    /// The configuration leaves nothing of this machine to govern.
    #[error("{0}")]
    Nothing(String),
    /// The policy cannot work here.
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// The plan of a configuration on the machine of `tree`.
///
/// # Errors
/// [`GovernPlanError`].
pub fn plan(config: &Config, tree: &Tree) -> Result<GovernPlan, GovernPlanError> {
    let inventory = Inventory::find(tree, config);
    if let Some(why) = inventory.refusal() {
        return Err(GovernPlanError::Nothing(why));
    }
    let alone = left_alone::find(config, &inventory, tree);
    let mut intent = Vec::new();
    let mut remedies = Vec::new();
    // What may not be written looks as if it were not there, and what is there needs no remedy.
    let blind = tree.is_live() && !rustix::process::geteuid().is_root();
    let make = |platform: &wattline_policy::Platform| {
        intent.extend(blind.then(|| tell::BLIND.to_owned()));
        intent.extend(tell::lines(config, &inventory, platform, &alone));
        intent.extend(inventory.in_vain.iter().cloned());
        if !blind {
            remedies = tell::remedies(platform.can, &alone);
        }
        let guarded = choice::policy(config, platform, RuleSeen::default())?;
        let policy: Box<dyn Policy> = Box::new(guarded);
        intent.extend(policy.remark());
        Ok(policy)
    };
    let bound = |platform: &_, point: &mut _| Bounds::of(config, platform).apply(platform, point);
    let options = options(config, &inventory, tree);
    let mut plan = plan_with(config.policy.clone(), make, bound, options)?;
    plan.rivals = tell::relevant(plan.rivals, config);
    let left_out = inventory.left_out;
    Ok(GovernPlan { profile: config.profile.name, intent, left_out, plan, remedies })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use wattline_policies::POLICIES;

    /// A machine whose only knob is a card's interrupt moderation.
    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        };
        write("sys/devices/system/cpu/online", "0-1");
        write("sys/devices/system/cpu/present", "0-1");
        write("ethtool/eth9/rx-usecs", "3");
        write("ethtool/eth9/combined-channels", "2");
        root
    }

    fn told(root: &Path, text: &str) -> (String, Vec<&'static str>) {
        let config = Config::parse(text, "test", POLICIES).unwrap();
        let plan = plan(&config, &Tree::at(root)).unwrap();
        (plan.intent.join("\n"), plan.remedies)
    }

    /// Without tables copi never saves anything: whoever forgot them learns it before the start.
    #[test]
    fn plan_contains_the_remark_of_the_policy() {
        let root = machine();
        let (intent, _) = told(root.path(), "[govern]\npolicy = \"copi\"\n");
        assert!(intent.contains("copi has no tables"), "{intent}");
    }

    #[test]
    fn interfaces_that_do_not_exist_are_named_with_those_that_do() {
        let root = machine();
        let (intent, _) = told(root.path(), "[govern]\ninterfaces = [\"eht9\"]\n");
        assert!(intent.contains("no interface eht9; there are eth9"), "{intent}");
        let config = Config::parse("[govern]\ncpus = [7]\n", "test", POLICIES).unwrap();
        let begun = crate::session::Session::begin(&config, &Tree::at(root.path()));
        let planned = plan(&config, &Tree::at(root.path()));
        for error in [begun.err().unwrap().to_string(), planned.unwrap_err().to_string()] {
            assert!(error.contains("no CPU 7") && error.contains("on line are 0, 1"), "{error}");
        }
    }

    #[test]
    fn a_knob_that_the_configuration_leaves_alone_is_not_one_that_is_missing() {
        let root = machine();
        let (intent, remedies) = told(root.path(), "");
        for words in [
            "this configuration turns none of the knobs that this machine has",
            "interrupt moderation of eth9: there is this knob",
            "knobs = [\"frequency\", \"moderation\"] and moderation = \"100us\" in [govern]",
            "or profile \"max-save\"",
        ] {
            assert!(intent.contains(words), "{words}: {intent}");
        }
        assert!(!intent.contains("this machine has no knob"), "{intent}");
        assert_eq!(remedies.len(), 2, "{remedies:?}");
        assert!(!remedies.iter().any(|hint| hint.starts_with("interrupt")), "{remedies:?}");

        // What is listed needs only a value.
        let (intent, _) = told(root.path(), "[govern]\nknobs = [\"moderation\"]\n");
        assert!(intent.contains("to use it: moderation = \"100us\" in [govern]"), "{intent}");
        let (intent, remedies) = told(root.path(), "[govern]\nprofile = \"max-save\"\n");
        assert!(intent.contains("interrupt moderation of eth9: 100 us"), "{intent}");
        assert!(!intent.contains("leaves it alone") && remedies.is_empty(), "{intent}");

        std::fs::remove_dir_all(root.path().join("ethtool")).unwrap();
        let (intent, remedies) = told(root.path(), "");
        assert!(intent.contains("this machine has no knob that could be turned"), "{intent}");
        assert_eq!(remedies.len(), 3, "{remedies:?}");
    }
}
