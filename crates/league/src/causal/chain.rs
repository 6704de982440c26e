//! Traffic of two states as a Markov chain over slots.

use wattline_traffic::spec::TwoStates;

/// A slot of the traffic, as a policy sees it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    /// Packets that arrive in the slot.
    pub packets: f64,
    /// Packets that may wait at the end of the slot without being late: those that arrived within the
    /// slack.
    pub window: f64,
    /// Next slots with their probabilities.
    pub next: Vec<(usize, f64)>,
}

/// Returns the slots of both states by age. A state lasts at least as many slots as the slack; after
/// that it ends in each slot with the same probability, which gives its mean duration. `None` if a
/// state is shorter on average.
pub(super) fn chain(states: &TwoStates, slot: f64, slack: f64) -> Option<Vec<Node>> {
    let span = slack / slot;
    let ages = span.ceil().max(1.0) as usize;
    let states = [states.low, states.high];
    let index = |state: usize, age: usize| state * ages + age;
    let mut nodes = Vec::new();
    for (state, &(rate, seconds)) in states.iter().enumerate() {
        let other = states[1 - state].0;
        let end = 1.0 / (seconds / slot - (ages - 1) as f64);
        if !(0.0..=1.0).contains(&end) {
            return None;
        }
        for age in 0..ages {
            let own = span.min((age + 1) as f64);
            let mut next = if age + 1 < ages {
                vec![(index(state, age + 1), 1.0)]
            } else {
                vec![(index(state, age), 1.0 - end), (index(1 - state, 0), end)]
            };
            next.retain(|(_, chance)| *chance > 0.0);
            let window = slot * (rate * own + other * (span - own));
            nodes.push(Node { packets: slot * rate, window, next });
        }
    }
    Some(nodes)
}

/// Returns the same traffic for a policy that also knows the next slot.
pub(super) fn foreseen(nodes: &[Node]) -> Vec<Node> {
    let firsts: Vec<usize> = nodes
        .iter()
        .scan(0, |sum, node| {
            let first = *sum;
            *sum += node.next.len();
            Some(first)
        })
        .collect();
    let edge = |to: usize| {
        let next = nodes[to].next.iter().enumerate();
        next.map(|(number, &(_, chance))| (firsts[to] + number, chance)).collect()
    };
    let edges = |node: &Node| {
        let next = node.next.iter();
        next.map(|&(to, _)| Node { next: edge(to), ..node.clone() }).collect::<Vec<_>>()
    };
    nodes.iter().flat_map(edges).collect()
}
