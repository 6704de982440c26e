//! The yardsticks of a case: lower bound, found schedule and best fixed point.

use crate::arrivals::Arrivals;
use crate::bound::{base_joules, lower_bound, slot_length};
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use crate::fixed::best_fixed;
use crate::schedule::best_schedule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wattline_policy::Wait;

/// The yardsticks of a case; all are `None` where no schedule keeps the budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// Lower bound on the energy of schedules that keep the budget (E2); `None` where none does,
    /// since all cores at their highest frequency make too many packets late.
    pub lower_bound_joules: Option<f64>,
    /// Energy of the best schedule found that keeps the budget (E3); `None` where none was found.
    pub feasible_joules: Option<f64>,
    /// Energy of the best constant operating point (E0); `None` where none keeps the budget.
    pub static_best_joules: Option<f64>,
    /// Best fixed point, in words.
    pub static_best: Option<String>,
    /// Gap of the schedule to the bound, as a share of the bound.
    pub feasible_gap: Option<f64>,
    /// Part of the bound that no decision changes.
    pub base_joules: f64,
    /// Packets that arrived.
    pub packets: u64,
}

/// Computes the yardsticks of a case.
///
/// # Errors
/// When the packets cannot be generated or read, or no packet can be in time.
pub fn envelope(case: &Case<'_>, budget: Budget) -> Result<Envelope, LeagueError> {
    let arrivals = arrivals(case, budget)?;
    let Some(bound) = lower_bound(case, budget, &arrivals)? else {
        return Ok(Envelope {
            lower_bound_joules: None,
            feasible_joules: None,
            static_best_joules: None,
            static_best: None,
            feasible_gap: None,
            base_joules: base_joules(case, &arrivals),
            packets: arrivals.total(),
        });
    };
    let fixed = best_fixed(case, budget, &arrivals)?;
    let schedule = best_schedule(case, budget, &arrivals, fixed.as_ref())?;
    let feasible = schedule.map(|schedule| schedule.played.energy_joules);
    Ok(Envelope {
        lower_bound_joules: Some(bound.joules),
        feasible_joules: feasible,
        static_best_joules: fixed.as_ref().map(|fixed| fixed.played.energy_joules),
        static_best: fixed.map(|fixed| {
            let point = fixed.point;
            let hertz = case.server.processor.frequencies[point.frequency];
            let wait = match point.wait {
                Wait::Poll => "polling".to_owned(),
                Wait::Pause => "pausing".to_owned(),
                Wait::Sleep(nap) => format!("naps of {:.1} µs", nap.as_seconds() * 1e6),
                Wait::Interrupt => "interrupts".to_owned(),
            };
            let cores = if point.cores == 1 { "core" } else { "cores" };
            format!("{} {cores} at {:.2} GHz, {wait}", point.cores, hertz.gigahertz())
        }),
        feasible_gap: feasible.map(|joules| joules / bound.joules - 1.0),
        base_joules: bound.base_joules,
        packets: arrivals.total(),
    })
}

/// Counts the packets of a case in slots as fine as the bound needs.
fn arrivals(case: &Case<'_>, budget: Budget) -> Result<Arrivals, LeagueError> {
    let slack = case.slack_seconds(budget, 64)?;
    Arrivals::of(case, slot_length(case, slack))
}
