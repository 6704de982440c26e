//! The cheapest decisions slot by slot, when only the past and the present slot are known: a Markov
//! decision process.
//!
//! Its state at the beginning of a slot is the slot before ([`Node`]), the number of ready cores and
//! the backlog. The slot is drawn. Knowing it, the policy chooses the packets that are served in it
//! and the number of cores that are ready in the next one. Energy, wake-ups and late packets cost.

use super::chain::Node;
use super::machine::{Machine, ROUNDING};

/// Slots for which decisions are kept before they are improved again.
const SWEEPS: usize = 40;
/// Most improvements, and the relative error of the mean cost at which they end.
const IMPROVEMENTS: usize = 400;
const CLOSE: f64 = 1e-5;

/// All decisions of a policy on some traffic.
pub(super) struct Decisions<'a> {
    nodes: &'a [Node],
    machine: &'a Machine,
    /// Backlogs at the ends of slots among which a policy chooses, in packets; they rise from zero.
    backlogs: &'a [f64],
    /// By node, ready cores, backlog before and after: joules of the slot, infinite if impossible.
    energy: Vec<f64>,
}

/// A decision: its cost in the slot and the state that it leads to.
#[derive(Debug, Clone, Copy)]
struct Choice {
    cost: f64,
    to: usize,
}

impl<'a> Decisions<'a> {
    pub fn new(nodes: &'a [Node], machine: &'a Machine, backlogs: &'a [f64]) -> Self {
        let mut energy = Vec::new();
        for node in nodes {
            for ready in 0..machine.ready.len() {
                for before in backlogs {
                    energy.extend(backlogs.iter().map(|after| {
                        let served = before + node.packets - after;
                        if served < -ROUNDING {
                            return f64::INFINITY;
                        }
                        machine.joules(ready, served.max(0.0))
                    }));
                }
            }
        }
        Self { nodes, machine, backlogs, energy }
    }

    fn state(&self, node: usize, ready: usize, backlog: usize) -> usize {
        (node * self.machine.ready.len() + ready) * self.backlogs.len() + backlog
    }

    /// Returns the least cost from each state on if it is `after` from the next slot on, where a late
    /// packet costs `price`.
    #[cfg(test)]
    pub fn step(&self, after: &[f64], price: f64) -> Vec<f64> {
        self.sweep(&self.improve(after, price), after)
    }

    /// Returns a cost of zero for each state.
    pub fn nothing(&self) -> Vec<f64> {
        vec![0.0; self.nodes.len() * self.machine.ready.len() * self.backlogs.len()]
    }

    /// Returns the mean cost of a slot in the long run, at most [`CLOSE`] too low. `value` has the costs
    /// to begin with, and those that were found.
    pub fn mean(&self, price: f64, value: &mut Vec<f64>) -> f64 {
        let mut best = f64::NEG_INFINITY;
        for _ in 0..IMPROVEMENTS {
            let choices = self.improve(value, price);
            let next = self.sweep(&choices, value);
            // The mean lies between the least and the largest increase (MacQueen's bounds).
            let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
            for (after, before) in
                next.iter().zip(value.iter()).filter(|(after, _)| after.is_finite())
            {
                least = least.min(after - before);
                most = most.max(after - before);
            }
            best = best.max(least);
            if most - least <= CLOSE * least.abs() || least.is_infinite() {
                break;
            }
            // States that cannot be left without loss show one after the other.
            let lost = |value: &[f64]| value.iter().filter(|cost| cost.is_infinite()).count();
            let sweeps = if lost(&next) == lost(value) { SWEEPS } else { 0 };
            *value = next;
            for _ in 0..sweeps {
                *value = self.sweep(&choices, value);
            }
            let first = value.iter().copied().find(|cost| cost.is_finite()).unwrap_or(0.0);
            value.iter_mut().for_each(|cost| *cost -= first);
        }
        best
    }

    /// Returns the best decision for each state and each slot that may follow, in order.
    fn improve(&self, after: &[f64], price: f64) -> Vec<Choice> {
        let rest: Vec<Vec<Choice>> =
            (0..self.nodes.len()).map(|node| self.rest(node, after)).collect();
        let (levels, places) = (self.machine.ready.len(), self.backlogs.len());
        let mut choices = Vec::new();
        for node in self.nodes {
            for ready in 0..levels {
                for (before, waiting) in self.backlogs.iter().enumerate() {
                    let overdue = (waiting - node.window).max(0.0);
                    choices.extend(node.next.iter().map(|&(to, _)| {
                        let slot = &self.nodes[to];
                        let from = ((to * levels + ready) * places + before) * places;
                        let mut best = Choice { cost: f64::INFINITY, to: 0 };
                        let mut least = f64::INFINITY;
                        for (place, left) in self.backlogs.iter().enumerate() {
                            let served = waiting + slot.packets - left;
                            // Packets are served in order, and counted when they become late.
                            let late = left - slot.window - (overdue - served).max(0.0);
                            let cost = self.energy[from + place] + price * late.max(0.0);
                            let then = rest[to][ready * places + place];
                            let cost = cost + then.cost;
                            if cost + after[then.to] < least {
                                least = cost + after[then.to];
                                best = Choice { cost, to: then.to };
                            }
                        }
                        best
                    }));
                }
            }
        }
        choices
    }

    /// Returns the best number of cores for the slot after `node`, by ready cores and backlog.
    fn rest(&self, node: usize, after: &[f64]) -> Vec<Choice> {
        let (levels, places) = (self.machine.ready.len(), self.backlogs.len());
        let mut rest = vec![Choice { cost: 0.0, to: self.state(node, 0, 0) }; levels * places];
        for ready in 0..levels {
            for place in 0..places {
                let mut least = f64::INFINITY;
                for next in 0..levels {
                    let cost = self.machine.wake_joules(ready, next);
                    let to = self.state(node, next, place);
                    if cost + after[to] < least {
                        least = cost + after[to];
                        rest[ready * places + place] = Choice { cost, to };
                    }
                }
                if least.is_infinite() {
                    rest[ready * places + place].cost = f64::INFINITY;
                }
            }
        }
        rest
    }

    /// Returns the cost of each state under these decisions.
    fn sweep(&self, choices: &[Choice], after: &[f64]) -> Vec<f64> {
        let mut choices = choices.iter();
        let mut value = Vec::with_capacity(after.len());
        for node in self.nodes {
            for _ in 0..self.machine.ready.len() * self.backlogs.len() {
                let expected = node.next.iter().zip(choices.by_ref());
                value.push(
                    expected.map(|((_, chance), by)| chance * (by.cost + after[by.to])).sum(),
                );
            }
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::super::chain::foreseen;
    use super::*;

    /// Joules of a late packet: many are late on purpose, or few.
    const PRICES: [f64; 2] = [0.1, 2.3];
    const BACKLOGS: [f64; 5] = [0.0, 1.0, 2.0, 3.0, 4.0];

    /// Slots of 0 to 3 packets. A packet that arrived in the slot may wait at its end.
    fn traffic() -> Vec<Node> {
        let node = |packets: f64, next: Vec<(usize, f64)>| Node { packets, window: packets, next };
        vec![
            node(1.0, vec![(0, 0.7), (1, 0.3)]),
            node(3.0, vec![(1, 0.4), (0, 0.35), (2, 0.25)]),
            node(0.0, vec![(1, 1.0)]),
        ]
    }

    fn machine() -> Machine {
        let slots = vec![
            vec![(0.0, 0.0)],
            vec![(0.0, 0.5), (1.0, 1.0), (2.0, 2.25)],
            vec![(0.0, 1.0), (1.0, 1.5), (2.0, 2.0), (4.0, 4.5)],
        ];
        Machine { ready: vec![0, 1, 3], slots, wake: 0.75 }
    }

    /// Traffic, machine, and price of a late packet.
    type Case<'a> = (&'a [Node], &'a Machine, f64);

    /// All that has happened: waiting packets with the numbers of their slots, and the cores.
    #[derive(Debug, Clone)]
    struct Past {
        node: usize,
        slot: usize,
        ready: usize,
        waiting: Vec<usize>,
    }

    /// Everything that can be done in a slot whose node has been drawn: the cost, and the past then.
    fn options((nodes, machine, price): Case<'_>, past: &Past, drawn: usize) -> Vec<(f64, Past)> {
        let mut waiting = past.waiting.clone();
        waiting.extend(vec![past.slot; nodes[drawn].packets as usize]);
        let mut options = Vec::new();
        for served in 0..=waiting.len() {
            let left = waiting[served..].to_vec();
            let energy = machine.joules(past.ready, served as f64);
            if !energy.is_finite() || left.len() >= BACKLOGS.len() {
                continue;
            }
            // A packet becomes late at the end of the slot after its own.
            let late = left.iter().filter(|came| **came + 1 == past.slot).count();
            for next in 0..machine.ready.len() {
                let wake = [0.0, 0.75, 2.25][next] - [0.0, 0.75, 2.25][past.ready.min(next)];
                let cost = energy + price * late as f64 + wake;
                let slot = past.slot + 1;
                options
                    .push((cost, Past { node: drawn, slot, ready: next, waiting: left.clone() }));
            }
        }
        options
    }

    /// The least expected cost of so many slots over all decision trees: histories share nothing.
    fn best_tree(case: Case<'_>, past: &Past, slots: usize) -> f64 {
        if slots == 0 {
            return 0.0;
        }
        let drawn = |&(drawn, chance): &(usize, f64)| {
            let options = options(case, past, drawn).into_iter();
            let costs = options.map(|(cost, past)| cost + best_tree(case, &past, slots - 1));
            chance * costs.fold(f64::INFINITY, f64::min)
        };
        case.0[past.node].next.iter().map(drawn).sum()
    }

    /// The expected cost of each policy: every combination of what is done after every history, where a
    /// policy is one list of costs by outcome.
    fn all_policies(case: Case<'_>, past: &Past, slots: usize) -> Vec<f64> {
        if slots == 0 {
            return vec![0.0];
        }
        let mut policies = vec![0.0];
        for &(drawn, chance) in &case.0[past.node].next {
            let mut after = Vec::new();
            for (cost, then) in options(case, past, drawn) {
                let rest = all_policies(case, &then, slots - 1);
                after.extend(rest.into_iter().map(|rest| chance * (cost + rest)));
            }
            let pairs = policies.iter().flat_map(|sum| after.iter().map(move |more| sum + more));
            policies = pairs.collect();
        }
        policies
    }

    /// The cost of so many slots, by ready cores, after slot `node` with nothing waiting.
    fn solved((nodes, machine, price): Case<'_>, node: usize, ready: usize, slots: usize) -> f64 {
        let decisions = Decisions::new(nodes, machine, &BACKLOGS);
        let mut value = decisions.nothing();
        for _ in 0..slots {
            value = decisions.step(&value, price);
        }
        value[decisions.state(node, ready, 0)]
    }

    #[test]
    fn decisions_cost_as_much_as_the_best_of_all_decision_trees() {
        let (nodes, machine) = (traffic(), machine());
        for price in PRICES {
            let case = (&nodes[..], &machine, price);
            for (node, ready) in (0..3).flat_map(|node| (0..3).map(move |ready| (node, ready))) {
                for slots in 1..=4 {
                    let past = Past { node, slot: 0, ready, waiting: Vec::new() };
                    let (tree, found) =
                        (best_tree(case, &past, slots), solved(case, node, ready, slots));
                    let equal = (found - tree).abs() < 1e-9 || found == tree;
                    assert!(equal, "{past:?} {price}: {found} {tree}");
                }
            }
        }
    }

    #[test]
    fn decisions_cost_as_much_as_the_best_of_all_policies() {
        let (nodes, machine) = (traffic(), machine());
        for price in PRICES {
            let case = (&nodes[..], &machine, price);
            let past = Past { node: 2, slot: 0, ready: 1, waiting: Vec::new() };
            let policies = all_policies(case, &past, 2);
            assert!(policies.len() > 4_000, "{}", policies.len());
            let least = policies.into_iter().fold(f64::INFINITY, f64::min);
            let found = solved(case, 2, 1, 2);
            assert!((found - least).abs() < 1e-9, "{found} {least}");
        }
    }

    #[test]
    fn foresight_of_a_slot_costs_less() {
        let (nodes, machine) = (traffic(), machine());
        // Node 0 is edge 0 or 1 of the foreseen traffic; both have arrived before the first slot.
        let ahead = foreseen(&nodes);
        let blind = solved((&nodes, &machine, 2.3), 0, 1, 4);
        let seen: f64 = nodes[0]
            .next
            .iter()
            .enumerate()
            .map(|(edge, (_, chance))| chance * solved((&ahead, &machine, 2.3), edge, 1, 4))
            .sum();
        assert!(seen < blind - 1e-3, "{seen} {blind}");
    }

    /// The mean is the cost of one more slot after many.
    #[test]
    fn mean_is_the_cost_of_a_slot_in_the_long_run() {
        let (nodes, machine) = (traffic(), machine());
        let decisions = Decisions::new(&nodes, &machine, &BACKLOGS);
        let mean = decisions.mean(2.3, &mut decisions.nothing());
        let cost = |slots| solved((&nodes, &machine, 2.3), 0, 1, slots);
        let more = cost(401) - cost(400);
        assert!(mean <= more + 1e-9 && mean > more * (1.0 - 2.0 * CLOSE), "{mean} {more}");
    }
}
