//! Checks of a league before its first run: features that its servers lack.

use crate::case::{Budget, Case};
use crate::error::LeagueError;
use crate::policy_text::problems_of;
use crate::problems::Problems;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use wattline_cores::ModelError;
use wattline_policies::POLICIES;
use wattline_policy::PolicySpec;
use wattline_server::{Application, ServerModel};
use wattline_sim::SimError;
use wattline_traffic::Spec;
use wattline_units::Span;

/// Length of the shortest frame, which passes soonest.
const SHORTEST: u32 = 64;

/// Servers, traffic and budgets that policies are played on.
pub(crate) struct Stage<'a> {
    pub servers: &'a [(String, ServerModel)],
    /// `None` where it cannot be read.
    pub application: Option<Application>,
    pub duration: Span,
    pub warmup: Span,
}

impl Stage<'_> {
    /// Returns the cases of a traffic, one for each server.
    fn cases<'a>(&'a self, traffic: &'a Spec) -> impl Iterator<Item = Case<'a>> {
        let (duration, warmup) = (self.duration, self.warmup);
        self.servers.iter().filter_map(move |(_, server)| {
            let application = self.application?;
            Some(Case { server, application, traffic, duration, warmup, seed: 1 })
        })
    }

    /// Lists features that servers lack for a policy, once for each server.
    pub fn missing_features(&self, spec: &PolicySpec, traffics: &[(String, Spec)]) -> Vec<String> {
        let mut lacking: Vec<String> = Vec::new();
        let mut checked = BTreeSet::new();
        for (_, traffic) in traffics {
            for case in self.cases(traffic) {
                let scenario = case.scenario(spec.clone(), &[]);
                // A policy depends on the traffic only by the mean length of a packet.
                if !checked.insert((&case.server.name, scenario.mean_bytes())) {
                    continue;
                }
                let Err(error) = scenario.check_policy() else { continue };
                let mut problem = format!("on server {}: ", case.server.name);
                // The caller adds the text of the policy.
                let _ = match error {
                    SimError::Model(ModelError::Policy(error)) => {
                        write!(problem, "{}", problems_of(&error).join("; "))
                    }
                    error => write!(problem, "{error}"),
                };
                if !lacking.contains(&problem) {
                    lacking.push(problem);
                }
            }
        }
        lacking
    }

    /// Notes traffics that cannot be generated or read, or that the links of a server do not carry.
    pub fn traffics<'a>(
        &self,
        field: &str,
        traffics: impl IntoIterator<Item = &'a (String, Spec)>,
        problems: &mut Problems<'_>,
    ) {
        for (text, traffic) in traffics {
            if let Err(error) = traffic.build(1) {
                problems.note(field, format_args!("{text}: {error}"));
            }
            for case in self.cases(traffic) {
                let Ok(unused) = POLICIES.parse("poll") else { continue };
                match case.scenario(unused, &[]).check() {
                    Ok(()) => {}
                    Err(error @ SimError::Duration) => {
                        let problem = error.to_string();
                        let (_, problem) = problem.split_once(": ").unwrap_or(("", &problem));
                        problems.note("duration", problem);
                    }
                    Err(error) => problems.note(field, format_args!("{text}: {error}")),
                }
            }
        }
    }

    /// Notes budgets within which no packet passes a server, and servers without the application.
    pub fn budgets(
        &self,
        budgets: &[(String, Span)],
        traffics: &[(String, Spec)],
        problems: &mut Problems<'_>,
    ) {
        let Some((_, traffic)) = traffics.first() else { return };
        for case in self.cases(traffic) {
            for (_, budget) in budgets {
                match case.slack_seconds(Budget::p99(*budget), SHORTEST) {
                    Ok(_) => {}
                    Err(error @ LeagueError::Budget { .. }) => problems.note("budgets", error),
                    Err(error @ LeagueError::Application { .. }) => {
                        problems.note("application", error);
                    }
                    Err(error) => problems.note("servers", error),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::Plan;

    #[test]
    fn missing_server_features_are_reported_before_the_first_run() {
        let text = "servers = [\"westmere-2010\", \"xeon-platinum-8470\"]\n\
            policies = [\"napi:cores=100\", \"poll\"]\n\
            traffics = [\"constant:1Mpps,size=64\", \"capture:no-such.pcap\"]\n\
            budgets = [\"2us\", \"100us\"]\nseeds = [1]\nduration = \"20d\"\nwarmup = \"0s\"\n\
            [tuning]\nseeds = [2]\ngrids = [\"napi:cores=1|2|100|120\"]\n\
            [tuning.traffics]\n\"constant:1Mpps,size=64\" = \"capture:no-such-either.pcap\"\n";
        let error = Plan::parse("x.toml", text).unwrap_err().to_string();
        for problem in [
            "policies: \"napi:cores=100\": on server westmere-2010: ",
            "policies: \"napi:cores=100\": on server xeon-platinum-8470: ",
            "traffics: capture:no-such.pcap: ",
            "budgets: p99 = 2.00 us: no packet passes westmere-2010 in less than",
            "duration: \"20d\" is too long; allowed: at most 10 days",
            "tuning.grids: \"napi:cores=1|2|100|120\": on server westmere-2010: ",
            "tuning.traffics: capture:no-such-either.pcap: ",
        ] {
            assert!(error.contains(&format!("league x.toml: {problem}")), "{problem:?} in {error}");
        }
        assert_eq!(error.matches("tuning.grids: ").count(), 1, "{error}");
    }
}
