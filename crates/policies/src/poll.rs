//! Polling, as Click and DPDK do it: no core ever sleeps.

use super::fixed::{self, Fixed};
use wattline_policy::{BuildContext, Parameters, Policy, PolicyInfo, Wait};
use wattline_units::Span;

/// See the module.
pub static INFO: PolicyInfo = PolicyInfo {
    name: "poll",
    summary: "Cores poll their queues without end and never sleep (Click, DPDK)",
    source: "PowerSave, section 3",
    parameters: &[fixed::CORES, fixed::FREQUENCY],
    make,
};

fn make(parameters: &Parameters, context: &BuildContext<'_>) -> Result<Box<dyn Policy>, String> {
    Ok(Box::new(Fixed {
        cores: fixed::core_count(parameters, context.platform)?,
        frequency: fixed::frequency(parameters, context.platform)?,
        idle: 0,
        wait: Wait::Poll,
        moderation: Span::ZERO,
    }))
}
