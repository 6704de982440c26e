//! From one operating point to the next, in an order in which no packet is lost.
//!
//! More capacity comes first: an uncore and frequencies that rise, cores that wake, and only then
//! an indirection table that is wider. Less capacity comes last: the table is narrowed, the core
//! that got nothing more drains its rings, and then it sleeps (PowerSave, section 5.3). So any number
//! of steps from the front may be taken, and the rest left out or put off.

pub use super::knob::Step;

use super::knob::{Different, Facts, KNOBS, Order, Which};
use wattline_policy::{CoreSet, OperatingPoint, Platform};

/// The steps from one operating point to another, in the order in which they are to be taken;
/// what the platform cannot do is left out. `steps` is overwritten.
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

/// The steps that bring a machine to a point with all cores awake, whatever it is at. What the point
/// leaves to others stays.
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

/// What holds on a machine beside what its operating point says.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineState {
    /// Cores that are awake: beside the active ones those that were woken and got no packets
    /// yet, or got no more and are not parked yet.
    pub awake: CoreSet,
    /// The uncore's limit, which an operating point may leave to the cores.
    pub uncore: Option<usize>,
    /// Whether one indirection table could be written and another could not.
    pub tables_differ: bool,
}

/// [`between`] from a point that was left half way; `told` are the weights that cores were given.
pub(super) fn between_from_state(
    platform: &Platform,
    (from, state, told): (&OperatingPoint, MachineState, &[u8]),
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
        (facts.changes)(can, &different, [from, to], Which::Adding, steps);
    }
    let (mut parked, mut woken) = (CoreSet::EMPTY, CoreSet::EMPTY);
    if can.set_cores {
        let awake = state.awake;
        (woken, parked) = (to.active.without(awake), awake.without(to.active));
    }
    for facts in of(Order::Setting) {
        (facts.changes)(can, &different, [from, to], Which::All, steps);
    }
    if !parked.is_empty() {
        // They sleep deeper only when they are drained.
        let drains =
            |step: &Step| matches!(step, Step::IdleLimit { core, .. } if parked.contains(*core));
        steps.retain(|step| !drains(step));
    }
    steps.extend(woken.iter().map(|core| Step::Wake { core }));
    let mut redirect = can.set_cores && (from.active != to.active || state.tables_differ);
    if can.set_weights {
        let weights = told.iter().zip(&to.weights).enumerate();
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
        (facts.changes)(can, &different, [from, to], Which::Taking, steps);
    }
    if let Some((old, new)) = uncore
        && new < old
    {
        steps.push(Step::Uncore { index: new });
    }
}
