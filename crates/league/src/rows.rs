//! Results of a league, row by row.

use crate::envelope::Envelope;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A policy in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The policy, with the setting that was played.
    pub policy: String,
    /// Whose row it is: the policy, or the name of a rival that was tuned, whose settings differ
    /// between kinds of traffic.
    pub contender: String,
    /// Whether its setting was chosen on other seeds.
    pub tuned: bool,
    /// The server.
    pub server: String,
    /// The traffic.
    pub traffic: String,
    /// The seed.
    pub seed: u64,
    /// Latency that at most 1 % of the packets may exceed.
    pub budget_seconds: f64,
    /// Energy of the server.
    pub energy_joules: f64,
    /// Gap to the lower bound, as a share of it; `None` in a league without bounds, and where no
    /// schedule keeps the budget.
    pub gap_to_lower_bound: Option<f64>,
    /// The same less the base power on both sides, which no decision changes.
    pub gap_above_base: Option<f64>,
    /// Share of the packets that were late or lost.
    pub late_fraction: f64,
    /// Packets that found their ring full.
    pub dropped_packets: u64,
    /// Packets that a later one of their flow overtook.
    pub reordered_packets: u64,
    /// Changes of cores or frequency, per second.
    pub changes_per_second: f64,
    /// Whether the budget was kept and nothing lost.
    pub feasible: bool,
    /// Latency that 99 of 100 packets did not exceed.
    pub p99_seconds: Option<f64>,
}

/// The yardsticks of one case, with the names of the case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EnvelopeRow {
    /// The server.
    pub server: String,
    /// The traffic.
    pub traffic: String,
    /// The seed.
    pub seed: u64,
    /// The budget.
    pub budget_seconds: f64,
    /// The yardsticks.
    #[serde(flatten)]
    pub envelope: Envelope,
}

/// The setting that was chosen for a rival, one kind of traffic and a budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TunedRow {
    /// The rival.
    pub contender: String,
    /// The server.
    pub server: String,
    /// The traffic on which it is judged.
    pub traffic: String,
    /// The budget.
    pub budget_seconds: f64,
    /// The setting, as the text of a policy.
    pub policy: String,
    /// Number of settings that were tried.
    pub settings: usize,
    /// Whether this one kept the budget with no packet lost on all tuning seeds; if not, no
    /// setting did.
    pub kept: bool,
}

/// All that a league found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// Every policy in every case.
    pub rows: Vec<Row>,
    /// Every case.
    pub envelopes: Vec<EnvelopeRow>,
    /// Every rival that was tuned, in every kind.
    pub tunings: Vec<TunedRow>,
}

/// Server, traffic and budget in nanoseconds.
pub(crate) type Kind = (String, String, u64);
/// A contender with its rows.
pub(crate) type OfPolicy<'a> = (&'a str, Vec<&'a Row>);

/// Rows by what they are of, in the order of the contenders: of one contender and traffic (server
/// and budget included), all seeds.
pub(crate) fn by_kind(rows: &[Row]) -> BTreeMap<Kind, Vec<OfPolicy<'_>>> {
    let mut kinds: BTreeMap<Kind, Vec<OfPolicy<'_>>> = BTreeMap::new();
    for row in rows {
        let nanos = (row.budget_seconds * 1e9).round() as u64;
        let kind = kinds.entry((row.server.clone(), row.traffic.clone(), nanos)).or_default();
        match kind.iter_mut().find(|(contender, _)| *contender == row.contender) {
            Some((_, rows)) => rows.push(row),
            None => kind.push((&row.contender, vec![row])),
        }
    }
    kinds
}
