//! Idle states as the kernel's idle governor knows them.

use crate::input::Section;
use crate::model::micros;
use serde::Serialize;
use wattline_units::{Span, Watts};

/// A C-state with the time from which on it pays.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestIdleState {
    /// Its name, such as `C1E`.
    pub name: String,
    /// Power of one core in it, whatever its V/F state, above one in the deepest.
    pub power: Watts,
    /// Share of the core's static power at its present voltage that it draws besides: 1 where
    /// only clocks stop, 0 where voltage goes to its lowest or is cut off.
    pub static_share: f64,
    /// Time from the waking event until the core executes.
    pub exit_latency: Span,
    /// Shortest idle time for which the kernel chooses it.
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

    /// Deeper states must take longer to leave and to pay.
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
