//! The least energy of a policy without foresight, for traffic whose rate switches between two values.
//!
//! A lower bound that knows the future cannot tell how much of a policy's distance is due to not knowing
//! it. Here the same problem is solved twice on a simple model, exactly: for a policy that learns the
//! rate of a slot at its beginning, and for one that learns it a slot earlier. The model:
//!
//! - A slot lasts as long as a core takes to leave its deepest idle state. A core that is called in one
//!   slot is ready in the next; parking, light idle states and frequencies take no time.
//! - Packets are a fluid of known rates. When a state ends is not known, only its mean duration
//!   ([`chain`]): a policy that has learnt the period of a wave has foresight.
//! - Packets are served in order. A packet is late if it waits at the end of a slot for longer than the
//!   slack. As many may be late as the budget allows, on average; the price of a late packet that makes
//!   the mean energy largest is the constraint's (Lagrange).
//! - A backlog that does not fit into the rings is not allowed.
//!
//! Except for the length of slots all this favours the policy, so a real one needs more.

mod chain;
mod decisions;
mod machine;

use crate::arrivals::Arrivals;
use crate::bound::{along, base_joules};
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use chain::{Node, chain, foreseen};
use decisions::Decisions;
use machine::{Machine, slot_seconds};

/// The least energy without foresight, and by how much it exceeds the least with it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Causal {
    /// Mean energy of the server over the case.
    pub joules: f64,
    /// As a share of the energy with foresight.
    pub gap: f64,
}

/// Backlogs at the end of a slot among which a policy chooses, beside those that are just in time.
const BACKLOGS: usize = 32;

/// Computes it; `None` if the rate does not switch between two values, if it does so faster than the
/// budget, or if no policy keeps the budget.
///
/// # Errors
/// When the budget is shorter than any packet takes, or service times are random.
pub fn causal(
    case: &Case<'_>,
    budget: Budget,
    arrivals: &Arrivals,
) -> Result<Option<Causal>, LeagueError> {
    let bytes = u32::from(arrivals.shortest);
    let (slack, slot) = (case.slack_seconds(budget, bytes)?, slot_seconds(case));
    let Some(states) = case.traffic.two_states() else { return Ok(None) };
    let Some(nodes) = chain(&states, slot, slack) else { return Ok(None) };
    let highest = states.low.0.max(states.high.0) * (slot + slack);
    let rings = case.server.nic.rx_ring.unwrap_or(usize::MAX);
    let rings = rings.saturating_mul(case.cores() * case.server.nic.ports) as f64;
    let machine = Machine::of(case, bytes, slack)?;
    let mut backlogs: Vec<f64> = nodes.iter().map(|node| node.window).collect();
    backlogs.extend((0..=BACKLOGS).map(|part| highest * part as f64 / BACKLOGS as f64));
    backlogs.retain(|packets| *packets <= rings);
    backlogs.sort_by(f64::total_cmp);
    backlogs.dedup();

    let seconds = states.low.1 + states.high.1;
    let rate = (states.low.0 * states.low.1 + states.high.0 * states.high.1) / seconds;
    let least = |nodes: &[Node]| {
        let decisions = Decisions::new(nodes, &machine, &backlogs);
        let value = std::cell::RefCell::new(decisions.nothing());
        let allowed = budget.late * rate * slot;
        let at = |price: f64| decisions.mean(price, &mut value.borrow_mut()) - price * allowed;
        let scale = machine.wake / (rate * slot);
        let above = along(&at, scale * 1e-3, scale * 1e4).1.max(at(0.0));
        let duration = arrivals.duration as f64 * 1e-12;
        let bits = case.traffic.bit_rate().map_or(0.0, |rate| rate.0) * duration;
        let traffic = case.server.power.traffic_per_gigabit.0 * bits * 1e-9;
        base_joules(case, arrivals) + traffic + above * duration / slot
    };
    let (joules, known) = (least(&nodes), least(&foreseen(&nodes)));
    let found = Causal { joules, gap: joules / known - 1.0 };
    Ok(joules.is_finite().then_some(found))
}
