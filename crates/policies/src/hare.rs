//! The hare: races at the fastest frequency, then sleeps.

use super::fixed::{self, Fixed};
use wattline_policy::{BuildContext, Parameters, Policy, PolicyInfo, Wait};
use wattline_units::Span;

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "hare",
    summary: "Runs a given number of cores at the fastest frequency and lets them sleep when done",
    source: "PowerSave, section 5.1, equation 3 (race to idle)",
    parameters: &[fixed::CORES, fixed::IDLE],
    make,
};

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    Ok(Box::new(Fixed {
        cores: fixed::core_count(parameters, context.platform)?,
        frequency: context.platform.fastest(),
        idle: fixed::idle_state(parameters, context.platform)?,
        wait: Wait::Interrupt,
        moderation: Span::ZERO,
    }))
}
