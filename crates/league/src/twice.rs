//! Duplicates in a league file. Rows are identified by server, traffic, budget, seed and policy, so
//! a duplicate would count as a second draw: the figures would be wrong, and the intervals too
//! narrow.

use crate::policy_text::policy;
use crate::problems::Problems;
use std::fmt::Display;
use wattline_policy::PolicySpec;
use wattline_units::Span;

/// Notes each repeated value of a list.
pub(crate) fn values<T: PartialEq + Display>(
    field: &str,
    values: &[T],
    problems: &mut Problems<'_>,
) {
    let same = |a: &T, b: &T| a == b;
    for (_, value) in pairs(values, same) {
        problems.note(field, format_args!("{value} is there twice; leave one out"));
    }
}

/// Notes texts that are equal or mean the same, such as two budgets of the same time or two server
/// files with the same name. `are` describes the equality in messages.
pub(crate) fn texts<T>(
    field: &str,
    read: &[(String, T)],
    (same, are): (impl Fn(&T, &T) -> bool, &str),
    problems: &mut Problems<'_>,
) {
    for ((first, _), (second, _)) in pairs(read, |a, b| same(&a.1, &b.1)) {
        if first == second {
            problems.note(field, format_args!("\"{first}\" is there twice; leave one out"));
        } else {
            let problem = format_args!("\"{first}\" and \"{second}\" are {are}; leave one out");
            problems.note(field, problem);
        }
    }
}

/// Notes policies that are equal, or become equal when a budget replaces `{p99}`.
pub(crate) fn policies(
    written: &[String],
    budgets: &[(String, Span)],
    problems: &mut Problems<'_>,
) {
    for (budget, span) in budgets {
        let read = |text: &String| Some((text.clone(), policy(text, *span).ok()?));
        let read: Vec<(String, PolicySpec)> = written.iter().filter_map(read).collect();
        for ((first, spec), (second, _)) in pairs(&read, |a, b| same_policy(&a.1, &b.1)) {
            if first == second {
                let problem = format_args!("\"{first}\" is there twice; leave one out");
                problems.note("policies", problem);
            } else if first.contains("{p99}") || second.contains("{p99}") {
                let problem = format_args!(
                    "\"{first}\" and \"{second}\" are both \"{spec}\" with the budget {budget}; \
                     leave one out, or give it other parameters"
                );
                problems.note("policies", problem);
            } else {
                let problem =
                    format_args!("\"{first}\" and \"{second}\" are the same; leave one out");
                problems.note("policies", problem);
            }
        }
    }
}

/// Returns true if two policies are equal after defaults are filled in.
fn same_policy(a: &PolicySpec, b: &PolicySpec) -> bool {
    a.policy.name == b.policy.name && a.parameters == b.parameters && a.moderation == b.moderation
}

/// Returns a pair for each element that equals an earlier one: the first equal element, then this
/// one.
fn pairs<T>(all: &[T], same: impl Fn(&T, &T) -> bool) -> Vec<(&T, &T)> {
    let earlier = |(at, value)| all[..at].iter().find(|known| same(known, value)).zip(Some(value));
    all.iter().enumerate().filter_map(earlier).collect()
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;

    const GOOD: &str = "servers = [\"westmere-2010\"]\n\
        policies = [\"wattline:p99={p99}\", \"poll\"]\n\
        traffics = [\"poisson:1Mpps,size=64\"]\nbudgets = [\"50us\", \"100us\"]\nseeds = [1, 2]\n\
        duration = \"1s\"\nwarmup = \"0s\"\n[tuning]\nseeds = [3]\ngrids = [\"napi:cores=1|2\"]\n";

    #[test]
    fn each_duplicate_is_named_with_its_field() {
        Plan::parse("x.toml", GOOD).unwrap();
        for (from, to, problem) in [
            (
                "\"poll\"",
                "\"wattline:p99=100us\"",
                "policies: \"wattline:p99={p99}\" and \"wattline:p99=100us\" are both \
                 \"wattline:p99=100us\" with the budget 100us; leave one out",
            ),
            ("\"poll\"", "\"poll\", \"poll\"", "policies: \"poll\" is there twice; leave one out"),
            (
                "\"poll\"",
                "\"napi\", \"napi:idle=C1\"",
                "policies: \"napi\" and \"napi:idle=C1\" are the same",
            ),
            (
                "[\"poisson:1Mpps,size=64\"]",
                "[\"poisson:1Mpps,size=64\", \"poisson:1Mpps,size=64\"]",
                "traffics: \"poisson:1Mpps,size=64\" is there twice; leave one out",
            ),
            (
                "[\"50us\"",
                "[\"0.1ms\"",
                "budgets: \"0.1ms\" and \"100us\" are the same span of time; leave one out",
            ),
            ("[\"50us\"", "[\"100us\"", "budgets: \"100us\" is there twice; leave one out"),
            ("seeds = [1, 2]", "seeds = [1, 2, 1]", "seeds: 1 is there twice; leave one out"),
            ("seeds = [3]", "seeds = [3, 3]", "tuning.seeds: 3 is there twice; leave one out"),
            (
                "[\"westmere-2010\"]",
                "[\"westmere-2010\", \"westmere-2010\"]",
                "servers: \"westmere-2010\" is there twice; leave one out",
            ),
        ] {
            let text = GOOD.replace(from, to);
            let error = Plan::parse("x.toml", &text).map(|_| ()).expect_err(problem).to_string();
            assert!(error.contains(problem), "{problem:?} is missing in {error}");
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }

    #[test]
    fn duplicates_are_reported_at_once_with_the_other_problems() {
        let text = GOOD.replace("[1, 2]", "[1, 1]").replace("[\"50us\"", "[\"0.1ms\"");
        let text = text.replace("\"1s\"", "\"0s\"").replace("seeds = [3]", "seeds = [3, 3, 1]");
        let error = Plan::parse("x.toml", &text).unwrap_err().to_string();
        for problem in
            ["budgets: ", "seeds: 1 is there", "duration: \"0s\" is 0", "tuning.seeds: 3 is there"]
        {
            assert!(error.contains(&format!("league x.toml: {problem}")), "{problem} in {error}");
        }
        assert!(error.contains("tuning.seeds: 1 is among the league's seeds"), "{error}");
    }
}
