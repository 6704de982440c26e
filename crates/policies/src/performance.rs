//! Linux's `performance` governor: the fastest frequency, all idle states allowed.

use super::fixed::Fixed;
use wattline_policy::{BuildContext, Parameters, Policy, PolicyInfo};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "performance",
    summary: "Linux's governor that holds the fastest frequency; every idle state is allowed",
    source: "Linux, Documentation/admin-guide/pm/cpufreq.rst",
    parameters: &[],
    make,
};

fn make(_: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    Ok(Box::new(Fixed::linux(context.platform.fastest(), context.platform)))
}
