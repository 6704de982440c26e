//! Idle states from the view of the kernel's idle governor.

use crate::input::Section;
use crate::model::micros;
use serde::Serialize;
use wattline_units::{Span, Watts};

/// A C-state and the idle time from which it saves energy.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestIdleState {
    /// Name, such as `C1E`.
    pub name: String,
    /// Power of one core in this state, at any V/F state, above a core in the deepest state.
    pub power: Watts,
    /// Share of the core's static power at its present voltage that remains in this state: 1 if
    /// only clocks stop, 0 if the voltage drops to its lowest value or is cut off.
    pub static_share: f64,
    /// Time from the waking event to the core's first instruction.
    pub exit_latency: Span,
    /// Shortest idle time for which the kernel chooses this state.
    pub target_residency: Span,
}

impl RequestIdleState {
    pub(super) fn read(section: &Section<'_, '_>) -> Option<Self> {
        let name = section.text("name");
        let power = section.number_or("power_watts", 0.0, 0.0..=1000.0);
        let share = section.number_or("static_share", 0.0, 0.0..=1.0);
        let exit = section.number("exit_latency_us", 0.0..=1e6);
        let residency = section.number("target_residency_us", 0.0..=1e7);
        Some(Self {
            name: name?,
            power: Watts(power?),
            static_share: share?,
            exit_latency: micros(exit?),
            target_residency: micros(residency?),
        })
    }

    /// Checks that deeper states take longer to leave and have longer target residencies.
    pub(super) fn check_order(section: &Section<'_, '_>, states: &[Self]) {
        for pair in states.windows(2) {
            let [shallow, deep] = pair else { continue };
            if deep.exit_latency < shallow.exit_latency
                || deep.target_residency < shallow.target_residency
            {
                let why = format!(
                    "{} is deeper than {} but left faster or worth while sooner",
                    deep.name, shallow.name
                );
                section.contradiction("idle_state", why);
            }
        }
    }
}
