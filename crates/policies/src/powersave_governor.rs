//! Linux's `powersave` governor: the slowest frequency, all idle states allowed.

use super::fixed::Fixed;
use wattline_policy::{BuildContext, Parameters, Policy, PolicyInfo};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "powersave-governor",
    summary: "Linux's governor that holds the slowest frequency; every idle state is allowed",
    source: "Linux, Documentation/admin-guide/pm/cpufreq.rst",
    parameters: &[],
    make,
};

fn make(_: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    Ok(Box::new(Fixed::linux(0, context.platform)))
}
