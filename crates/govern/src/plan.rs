//! What a governor would write on a machine, and why; nothing is written.

use crate::choice;
use crate::config::Config;
use crate::guard::{Bounds, RuleSeen};
use crate::inventory::{Inventory, LeftOut};
use crate::session::options;
use crate::tell;
use serde::Serialize;
use wattline_host::{PlanError, PowerPlan, plan_with};
use wattline_linux::sysfs::Tree;

/// A plan, and what it is about.
#[derive(Debug, Clone, Serialize)]
pub struct GovernPlan {
    /// The profile.
    pub profile: &'static str,
    /// What would be governed and why, a line each.
    pub intent: Vec<String>,
    /// CPUs and interfaces that are left out.
    pub left_out: Vec<LeftOut>,
    /// What would be written.
    #[serde(flatten)]
    pub plan: PowerPlan,
    /// What would enable knobs, where there are none.
    pub remedies: Vec<&'static str>,
}

/// The plan of a configuration on the machine of `tree`.
///
/// # Errors
/// [`PlanError`].
pub fn plan(config: &Config, tree: &Tree) -> Result<GovernPlan, PlanError> {
    let inventory = Inventory::find(tree, config);
    let mut intent = Vec::new();
    let mut remedies = Vec::new();
    let make = |platform: &wattline_policy::Platform| {
        intent = tell::lines(config, &inventory, platform);
        let can = platform.can;
        if !(can.set_frequency || can.limit_idle || can.set_moderation) {
            remedies = tell::REMEDIES.to_vec();
        }
        choice::policy(config, platform, RuleSeen::default())
    };
    let bound = |platform: &_, point: &mut _| Bounds::of(config, platform).apply(platform, point);
    let options = options(config, &inventory, tree);
    let mut plan = plan_with(config.policy.clone(), make, bound, options)?;
    plan.rivals = tell::relevant(plan.rivals, config);
    let left_out = inventory.left_out;
    Ok(GovernPlan { profile: config.profile.name, intent, left_out, plan, remedies })
}
