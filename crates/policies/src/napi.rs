//! NAPI: an interrupt wakes the core, which polls until its queues are empty and naps.

use super::fixed::{self, Fixed};
use wattline_policy::{BuildContext, Parameters, Policy, PolicyInfo, Wait};

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "napi",
    summary: "An interrupt wakes a core; it polls until its queues are empty, then naps (NAPI-Click)",
    source: "PowerSave, section 3; Linux, Documentation/networking/napi.rst",
    parameters: &[fixed::CORES, fixed::FREQUENCY, fixed::IDLE, fixed::MODERATION],
    make,
};

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    Ok(Box::new(Fixed {
        cores: fixed::core_count(parameters, context.platform)?,
        frequency: fixed::frequency(parameters, context.platform)?,
        idle: fixed::idle_state(parameters, context.platform)?,
        wait: Wait::Interrupt,
        moderation: fixed::moderation(parameters, context.platform)?,
    }))
}
