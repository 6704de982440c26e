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
    /// The policy, or the name of a tuned rival, whose settings differ between kinds of traffic.
    pub contender: String,
    /// True if the setting was chosen on other seeds.
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
    /// The same gap without the base power, which no decision changes, on both sides.
    pub gap_above_base: Option<f64>,
    /// Share of the packets that were late or lost.
    pub late_fraction: f64,
    /// Packets dropped because their ring was full.
    pub dropped_packets: u64,
    /// Packets that a later packet of their flow overtook.
    pub reordered_packets: u64,
    /// Changes of cores or frequency, per second.
    pub changes_per_second: f64,
    /// True if the budget was kept and nothing lost.
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

/// The setting chosen for a rival in one kind of traffic and budget.
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
    /// True if this setting kept the budget with no packet lost on all tuning seeds; if false, no
    /// setting did.
    pub kept: bool,
}

/// The results of a league.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Results {
    /// Every policy in every case.
    pub rows: Vec<Row>,
    /// Every case.
    pub envelopes: Vec<EnvelopeRow>,
    /// Every tuned rival in every kind of case.
    pub tunings: Vec<TunedRow>,
}

/// Server, traffic and budget in nanoseconds.
pub(crate) type Kind = (String, String, u64);
/// A contender with its rows.
pub(crate) type OfPolicy<'a> = (&'a str, Vec<&'a Row>);

/// Groups rows by server, traffic and budget, and then by contender in their order; each group
/// holds all seeds.
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
