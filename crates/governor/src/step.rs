//! The steps from one operating point to the next, in an order in which no packet is lost.
//!
//! Capacity is added first: the uncore and frequencies rise, cores wake, and only then the
//! indirection table is widened. Capacity is removed last: the table is narrowed, the cores that
//! left it drain their rings, and then they sleep (PowerSave, section 5.3). So a transition may
//! stop after any step: the steps not taken can be deferred or left out.

pub use super::knob::Step;

use super::knob::{Different, Facts, KNOBS, Order, Selection};
use wattline_policy::{CoreSet, OperatingPoint, Platform};

/// Writes the steps from one operating point to another to `steps`, in order. Steps that the
/// platform cannot take are left out.
pub fn between(
    platform: &Platform,
    from: &OperatingPoint,
    to: &OperatingPoint,
    steps: &mut Vec<Step>,
) {
    let uncore = from.uncore_limit(platform);
    let state = MachineState { awake: from.active, uncore, tables_differ: false };
    between_from_state(platform, (from, state, &from.weights), to, steps);
}

/// Returns the steps that bring a machine in an unknown state to a point, with all cores awake.
/// Settings that the point does not contain are left unchanged.
pub fn establish(platform: &Platform, point: &OperatingPoint) -> Vec<Step> {
    let all = |facts: &'static Facts| {
        let places = 0..facts.places.count(platform);
        let steps = places.filter_map(|place| (facts.step)(point, place));
        steps.filter(|step| (facts.can)(&platform.can, step))
    };
    let mut steps: Vec<Step> = KNOBS.iter().flat_map(all).collect();
    steps.extend((0..platform.cores).map(|core| Step::Wake { core }));
    if platform.can.set_cores {
        steps.push(Step::Redirect { active: point.active });
    }
    steps
}

/// State of a machine that its operating point does not contain.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineState {
    /// Cores that are awake: the active ones, those woken before the table reaches them, and those
    /// that have left the table and are not parked yet.
    pub awake: CoreSet,
    /// The uncore's limit. An operating point may leave it to follow the cores.
    pub uncore: Option<usize>,
    /// True if one indirection table could be written and another could not.
    pub tables_differ: bool,
}

/// [`between`] for a machine between two points; `written_weights` are weights already written that
/// the tables do not follow yet.
pub(super) fn between_from_state(
    platform: &Platform,
    (from, state, written_weights): (&OperatingPoint, MachineState, &[u8]),
    to: &OperatingPoint,
    steps: &mut Vec<Step>,
) {
    steps.clear();
    let can = &platform.can;
    let of = |order| KNOBS.iter().filter(move |facts| facts.order == order);
    let different = Different::between(from, to);
    let uncore = state.uncore.zip(to.uncore_limit(platform)).filter(|_| can.set_uncore);
    if let Some((old, new)) = uncore
        && new > old
    {
        steps.push(Step::Uncore { index: new });
    }
    for facts in of(Order::Capacity) {
        (facts.changes)(can, &different, [from, to], Selection::Adding, steps);
    }
    let (mut parked, mut woken) = (CoreSet::EMPTY, CoreSet::EMPTY);
    if can.set_cores {
        let awake = state.awake;
        (woken, parked) = (to.active.without(awake), awake.without(to.active));
    }
    for facts in of(Order::Setting) {
        (facts.changes)(can, &different, [from, to], Selection::All, steps);
    }
    if !parked.is_empty() {
        // These cores may sleep deeper only once they are drained, so that step follows the
        // parking.
        let drains =
            |step: &Step| matches!(step, Step::IdleLimit { core, .. } if parked.contains(*core));
        steps.retain(|step| !drains(step));
    }
    steps.extend(woken.iter().map(|core| Step::Wake { core }));
    let mut redirect = can.set_cores && (from.active != to.active || state.tables_differ);
    if can.set_weights {
        let weights = written_weights.iter().zip(&to.weights).enumerate();
        steps.extend(
            weights
                .filter(|(_, (old, new))| old != new)
                .map(|(core, (_, &weight))| Step::Weight { core, weight }),
        );
        redirect |= from.weights != to.weights;
    }
    if redirect {
        steps.push(Step::Redirect { active: to.active });
    }
    for core in parked.iter() {
        steps.push(Step::Park { core });
        if can.limit_idle && from.cores[core].idle_limit != to.cores[core].idle_limit {
            steps.push(Step::IdleLimit { core, state: to.cores[core].idle_limit });
        }
    }
    for facts in of(Order::Capacity).rev() {
        (facts.changes)(can, &different, [from, to], Selection::Taking, steps);
    }
    if let Some((old, new)) = uncore
        && new < old
    {
        steps.push(Step::Uncore { index: new });
    }
}
