//! A rival in one kind of traffic: tuned for each budget, then judged.

use crate::case::Case;
use crate::choice::{Choice, Trial, best};
use crate::error::LeagueError;
use crate::plan::Plan;
use crate::play::Played;
use crate::policy_text::policy;
use crate::runs::{Named, Runs};
use crate::tuning::{Contender, Tuning};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use wattline_policy::PolicySpec;
use wattline_server::ServerModel;

/// A rival on one server with one traffic.
pub(crate) struct Rival<'a> {
    pub tuning: &'a Tuning,
    pub contender: &'a Contender,
    pub server: &'a ServerModel,
    /// Index of the traffic in the plan.
    pub traffic: usize,
}

/// Result within one budget.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Judged {
    /// The setting, with the budget in it.
    pub policy: String,
    /// True if the setting kept the budget on all tuning seeds.
    pub kept: bool,
    /// Its runs on the league's seeds, in their order.
    pub runs: Vec<Played>,
}

impl<'a> Rival<'a> {
    /// Tunes the rival for each budget of the plan, and plays the chosen settings on the plan's
    /// seeds. Each run is judged by all budgets, since few policies depend on the budget.
    ///
    /// # Errors
    /// The first error of any run.
    pub fn play(&self, plan: &Plan, runs: &Runs<'_>) -> Result<Vec<Judged>, LeagueError> {
        let mut tried: BTreeMap<(String, u64), Vec<Played>> = BTreeMap::new();
        let mut played: BTreeMap<(String, u64), Vec<Played>> = BTreeMap::new();
        let mut found = Vec::with_capacity(plan.budgets.len());
        for (within, &budget) in plan.budgets.iter().enumerate() {
            let read = |text: &String| {
                policy(text, budget).map_err(|error| LeagueError::File {
                    place: "tuning.grids".into(),
                    problem: error.to_string(),
                })
            };
            let settings: Vec<PolicySpec> =
                self.contender.settings.iter().map(read).collect::<Result<_, _>>()?;
            let run = |kept: &mut BTreeMap<_, Vec<Played>>, named: Named<'_>, setting: usize| {
                let key = (settings[setting].to_string(), named.case.seed);
                if !kept.contains_key(&key) {
                    let now = runs.play_within(&named, &settings[setting], &plan.budgets)?;
                    kept.insert(key.clone(), now);
                }
                Ok::<_, LeagueError>(kept[&key][within].clone())
            };
            let Choice { setting, kept } =
                best(settings.len(), self.tuning.seeds.len(), |setting, seed| {
                    let run = run(&mut tried, self.tuned_on(plan, seed), setting)?;
                    Ok::<_, LeagueError>(Trial {
                        energy_joules: run.energy_joules,
                        late_fraction: run.late_fraction,
                        feasible: run.feasible,
                    })
                })?;
            let mut of_seeds = Vec::with_capacity(plan.seeds.len());
            for &seed in &plan.seeds {
                of_seeds.push(run(&mut played, self.judged_on(plan, seed), setting)?);
            }
            found.push(Judged { policy: settings[setting].to_string(), kept, runs: of_seeds });
        }
        Ok(found)
    }

    /// Returns everything that its result depends on, except the build.
    ///
    /// # Errors
    /// When a capture cannot be read.
    pub fn key(&self, plan: &Plan, runs: &Runs<'_>) -> Result<String, LeagueError> {
        let mut key = format!("rival {:?} {:?}", self.contender, plan.budgets);
        let tuned = (0..self.tuning.seeds.len()).map(|seed| self.tuned_on(plan, seed));
        let judged = plan.seeds.iter().map(|&seed| self.judged_on(plan, seed));
        for named in tuned.chain(judged) {
            key.push('\n');
            key.push_str(&runs.key(&named)?);
        }
        Ok(key)
    }

    /// Returns the case of a trial on the tuning seed with this index.
    fn tuned_on(&self, plan: &Plan, seed: usize) -> Named<'a> {
        let (text, traffic) = &self.tuning.traffics[self.traffic];
        let (duration, seed) = (self.tuning.durations[self.traffic], self.tuning.seeds[seed]);
        let Plan { application, warmup, .. } = *plan;
        let case = Case { server: self.server, application, traffic, duration, warmup, seed };
        Named { case, traffic: text }
    }

    /// Returns the case in which the rival is judged on one of the plan's seeds.
    pub fn judged_on<'p>(&self, plan: &'p Plan, seed: u64) -> Named<'p>
    where
        'a: 'p,
    {
        let (text, traffic) = &plan.traffics[self.traffic];
        let Plan { application, warmup, duration, .. } = *plan;
        let case = Case { server: self.server, application, traffic, duration, warmup, seed };
        Named { case, traffic: text }
    }
}
