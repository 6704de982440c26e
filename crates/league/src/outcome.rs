//! Summary at the top of a league's page: leading policies and conditions.

use crate::plan::Plan;
use crate::policy_text::{BUDGET, policy};
use crate::span::in_words;
use crate::standings::Standing;
use std::fmt::Write as _;
use wattline_units::Span;

/// A kind of case: server, traffic and budget.
type Kind<'a> = (&'a str, &'a str, f64);

/// Names the leading policy in a sentence: the one with the least energy of those that kept the
/// budget on every seed. Also lists the cases in which others lead.
pub(crate) fn outcome(plan: &Plan, standings: &[Standing]) -> (String, Vec<String>) {
    let mut kinds: Vec<Kind<'_>> = Vec::new();
    for row in standings {
        let kind = (row.server.as_str(), row.traffic.as_str(), row.budget_seconds);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    // Each leader with the kinds in which it leads; `None` if no policy kept the budget.
    let mut leads: Vec<(Option<String>, Vec<Kind<'_>>)> = Vec::new();
    for kind in &kinds {
        let of_kind = standings.iter().filter(|row| {
            (row.server.as_str(), row.traffic.as_str(), row.budget_seconds) == *kind
                && row.feasible == row.seeds
        });
        // All are compared with the same first policy on the same seeds.
        let first = of_kind.min_by(|a, b| a.beside_first.total_cmp(&b.beside_first));
        let leader =
            first.map(|row| written(plan, &row.policy, Span::from_seconds(row.budget_seconds)));
        match leads.iter_mut().find(|(known, _)| *known == leader) {
            Some((_, at)) => at.push(*kind),
            None => leads.push((leader, vec![*kind])),
        }
    }
    leads.sort_by_key(|(leader, at)| (leader.is_none(), usize::MAX - at.len()));
    let cases = match (plan.servers.len(), plan.budgets.as_slice()) {
        (1, [budget]) => format!("kinds of traffic within {}", in_words(*budget)),
        (1, _) => "pairs of traffic and budget".to_owned(),
        _ => "triples of server, traffic and budget".to_owned(),
    };
    let mut sentence = String::new();
    for (number, (leader, at)) in leads.iter().enumerate() {
        let count = at.len();
        let _ = match (number, leader) {
            (_, None) if number == 0 => {
                write!(
                    sentence,
                    "No policy kept the budget on every seed in any of the {count} {cases}"
                )
            }
            (_, None) => write!(sentence, ", and in {count} none kept it"),
            (0, Some(name)) => write!(
                sentence,
                "{name} took the least energy of the policies that kept the budget on every seed in \
                 {count} of {} {cases}",
                kinds.len()
            ),
            (_, Some(name)) => write!(sentence, ", {name} in {count}"),
        };
    }
    sentence.push('.');
    let others = leads.iter().skip(1).map(|(leader, at)| {
        let name = leader.as_deref().unwrap_or("none kept the budget");
        let at: Vec<String> = at.iter().map(|kind| place(plan, *kind)).collect();
        format!("{name}: {}", at.join("; "))
    });
    (sentence, others.collect())
}

/// Returns the name of a policy, which is the same for all budgets.
pub(crate) fn written(plan: &Plan, name: &str, budget: Span) -> String {
    let is_it = |text: &&String| policy(text, budget).is_ok_and(|spec| spec.to_string() == name);
    match plan.policies.iter().find(is_it) {
        Some(text) if plan.budgets.len() > 1 => text.replace(BUDGET, "budget"),
        _ => name.to_owned(),
    }
}

/// Names a kind, without the parts that all kinds share.
fn place(plan: &Plan, (server, traffic, budget): Kind<'_>) -> String {
    let mut text = traffic.to_owned();
    if plan.budgets.len() > 1 {
        let _ = write!(text, " within {}", in_words(Span::from_seconds(budget)));
    }
    if plan.servers.len() > 1 {
        let _ = write!(text, " on {server}");
    }
    text
}

/// Describes the conditions under which the league was played, in a sentence.
pub(crate) fn conditions(plan: &Plan) -> String {
    let list = |values: &[u64]| {
        let listed = values.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        format!("{} {listed}", if values.len() == 1 { "seed" } else { "seeds" })
    };
    let servers: Vec<&str> = plan.servers.iter().map(|server| server.name.as_str()).collect();
    let mut sentence = format!(
        "Played on {} with the application {} and {}; each run counts {} after {} of warm-up",
        servers.join(", "),
        plan.application,
        list(&plan.seeds),
        in_words(plan.duration),
        in_words(plan.warmup),
    );
    if let Some(tuning) = &plan.tuning {
        let _ = write!(
            sentence,
            "; tuned on {} in trials of {}",
            list(&tuning.seeds),
            in_words(tuning.duration)
        );
    }
    sentence.push('.');
    sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAGUE: &str = "servers = [\"westmere-2010\"]\npolicies = [\"wattline:p99={p99}\", \"poll\"]\n\
        traffics = [\"poisson:1Mpps,size=64\", \"poisson:2Mpps,size=64\"]\n\
        budgets = [\"50us\", \"100us\"]\nseeds = [1, 2]\nduration = \"1.5s\"\nwarmup = \"10ms\"\n\
        [tuning]\nseeds = [3]\nduration = \"100ms\"\ngrids = [\"napi:cores=1|2\"]\n";

    fn standing(
        traffic: &str,
        micros: f64,
        policy: &str,
        beside: f64,
        feasible: usize,
    ) -> Standing {
        Standing {
            server: "westmere-2010".into(),
            traffic: traffic.into(),
            budget_seconds: micros * 1e-6,
            policy: policy.into(),
            setting: policy.into(),
            seeds: 2,
            feasible,
            gap: f64::NAN,
            gap_within: f64::NAN,
            gap_above_base: f64::NAN,
            beside_first: beside,
            beside_first_within: 0.0,
            worst_late: 0.0,
            dropped_packets: 0,
            changes_per_second: 0.0,
        }
    }

    #[test]
    fn sentence_names_the_leader_and_list_the_other_leaders() {
        let plan = Plan::parse("x.toml", LEAGUE).unwrap();
        let (one, two) = ("poisson:1Mpps,size=64", "poisson:2Mpps,size=64");
        let standings = [
            standing(one, 50.0, "wattline:p99=50us", 0.0, 2),
            standing(one, 50.0, "poll", -0.1, 1),
            standing(one, 100.0, "wattline:p99=100us", 0.0, 2),
            standing(one, 100.0, "poll", 0.1, 2),
            standing(two, 50.0, "wattline:p99=50us", 0.0, 2),
            standing(two, 50.0, "napi, tuned", -0.1, 2),
            standing(two, 100.0, "wattline:p99=100us", 0.0, 1),
            standing(two, 100.0, "poll", 0.0, 0),
        ];
        let (sentence, others) = outcome(&plan, &standings);
        assert_eq!(
            sentence,
            "wattline:p99=budget took the least energy of the policies that kept the budget on every \
             seed in 2 of 4 pairs of traffic and budget, napi, tuned in 1, and in 1 none kept it."
        );
        assert_eq!(
            others,
            [
                "napi, tuned: poisson:2Mpps,size=64 within 50 us",
                "none kept the budget: poisson:2Mpps,size=64 within 100 us"
            ]
        );
        assert_eq!(
            conditions(&plan),
            "Played on westmere-2010 with the application ipv4 and seeds 1, 2; each run counts 1.5 s \
             after 10 ms of warm-up; tuned on seed 3 in trials of 100 ms."
        );
    }
}
