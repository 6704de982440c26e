//! Accepted sets: values of unprinted parameters that the printed figures allow, and ranges of
//! claims over them. The plan of a search is in `crates/reproduce/published/sets`.

use crate::error::ReproduceError;
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng as _};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use wattline_report::table::number;

/// Names and values of parameters.
pub(crate) type Choice = Vec<(&'static str, f64)>;

/// Plan of a search, written before it.
#[derive(Debug, Deserialize)]
pub(crate) struct SearchPlan {
    plan: Draw,
    pub judged: Judging,
    pub range: Width,
    #[serde(rename = "parameter")]
    parameters: Vec<Parameter>,
    #[serde(default, rename = "constraint")]
    constraints: Vec<Constraint>,
    #[serde(skip)]
    hash: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "method", rename_all = "kebab-case")]
enum Draw {
    /// Draws each parameter once from each of as many strata as there are sets.
    LatinHypercube {
        sets: usize,
        seed: u64,
        #[serde(flatten)]
        runs: Runs,
    },
    /// Evenly spaced values of the only parameter, including its bounds.
    Grid { sets: usize },
}

#[derive(Debug, Deserialize)]
pub(crate) struct Judging {
    /// Number of accepted sets that are judged.
    pub sets: usize,
    /// Numbers of connections; 0 for equal load.
    pub connections: Vec<u32>,
    /// Checks to judge, if the plan names them.
    #[serde(default)]
    pub checks: Vec<String>,
}

/// Widest range that is still meaningful for a claim that only some sets meet.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(crate) struct Width {
    pub widest_of_printed: f64,
    pub widest_of_tolerance: f64,
}

#[derive(Debug, Deserialize)]
struct Parameter {
    name: String,
    low: f64,
    high: f64,
    scale: Scale,
}

impl Parameter {
    /// Returns the value at a fraction of the range from the lower to the upper bound.
    fn at(&self, part: f64) -> f64 {
        let Self { low, high, .. } = self;
        rounded(match self.scale {
            Scale::Linear => low + part * (high - low),
            Scale::Logarithmic => low * (high / low).powf(part),
        })
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Scale {
    Linear,
    Logarithmic,
}

#[derive(Debug, Deserialize)]
struct Constraint {
    check: String,
}

/// Length of a search run, and its moderation periods.
#[derive(Debug, Deserialize)]
pub(crate) struct Runs {
    pub duration_ms: u64,
    pub warmup_ms: u64,
    pub traffic_seed: u64,
    pub periods_us: Vec<f64>,
}

type Read = LazyLock<Result<SearchPlan, String>>;

/// Returns Co-PI's plan.
pub(crate) fn copi() -> Result<&'static SearchPlan, ReproduceError> {
    static PLAN: Read =
        LazyLock::new(|| SearchPlan::parse(include_str!("../published/sets/copi.toml")));
    read("copi", &PLAN)
}

/// Returns PowerSave's plan.
pub(crate) fn powersave() -> Result<&'static SearchPlan, ReproduceError> {
    static PLAN: Read =
        LazyLock::new(|| SearchPlan::parse(include_str!("../published/sets/powersave.toml")));
    read("powersave", &PLAN)
}

fn read(file: &str, plan: &'static Read) -> Result<&'static SearchPlan, ReproduceError> {
    plan.as_ref().map_err(|error| {
        ReproduceError::Model(format!("crates/reproduce/published/sets/{file}.toml: {error}"))
    })
}

impl SearchPlan {
    fn parse(text: &str) -> Result<Self, String> {
        let plan: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for Parameter { name, low, high, scale } in &plan.parameters {
            let least = if matches!(scale, Scale::Linear) { 0.0 } else { f64::MIN_POSITIVE };
            if !(*low >= least && low < high && high.is_finite()) {
                return Err(format!("{name}: bounds {low} and {high} must ascend from {least}"));
            }
        }
        if let Draw::Grid { sets } = plan.plan
            && (sets < 2 || plan.parameters.len() != 1)
        {
            return Err("a grid has two values or more of one parameter".to_owned());
        }
        // A recorded result belongs to the exact text of its plan.
        Ok(Self { hash: hash([text]), ..plan })
    }

    /// Returns the names of the checks that constrain the search, in order.
    pub fn constraints(&self) -> impl Iterator<Item = &str> {
        self.constraints.iter().map(|constraint| constraint.check.as_str())
    }

    /// Returns the runs of the search; `None` if the runs of a figure are judged.
    pub fn runs(&self) -> Option<&Runs> {
        match &self.plan {
            Draw::LatinHypercube { runs, .. } => Some(runs),
            Draw::Grid { .. } => None,
        }
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parameters.iter().map(|one| one.name.as_str())
    }

    pub fn choice(&'static self, values: &[f64]) -> Choice {
        self.names().zip(values.iter().copied()).collect()
    }

    /// Draws the sets of the plan.
    pub fn draw(&self) -> Vec<Vec<f64>> {
        let (sets, seed) = match self.plan {
            Draw::LatinHypercube { sets, seed, .. } => (sets, seed),
            Draw::Grid { sets } => {
                let part = |step: usize| step as f64 / (sets - 1) as f64;
                let set = |step| self.parameters.iter().map(|one| one.at(part(step))).collect();
                return (0..sets).map(set).collect();
            }
        };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut all = vec![Vec::new(); sets];
        for parameter in &self.parameters {
            let mut strata: Vec<usize> = (0..sets).collect();
            for last in (1..sets).rev() {
                strata.swap(last, random.random_range(0..=last));
            }
            for (set, stratum) in all.iter_mut().zip(strata) {
                set.push(parameter.at((stratum as f64 + 0.5) / sets as f64));
            }
        }
        all
    }

    /// Returns an empty result of this plan.
    pub fn empty(&self) -> Found {
        Found { plan: self.hash.clone(), ..Found::default() }
    }

    /// Parses a recorded result.
    ///
    /// # Errors
    /// When the record is damaged or belongs to another plan.
    pub fn cached(&self, text: &str) -> Result<Found, ReproduceError> {
        let failed = |what: &str| {
            ReproduceError::Model(format!("cached sets: {what}; run its test with UPDATE_GOLDEN=1"))
        };
        let found: Found =
            serde_json::from_str(text).map_err(|error| failed(&error.to_string()))?;
        if found.plan == self.hash { Ok(found) } else { Err(failed("the plan has changed")) }
    }

    /// Describes the range of accepted values of each parameter.
    pub fn accepted(&self, found: &Found) -> String {
        let ranges = self.parameters.iter().enumerate().filter_map(|(index, one)| {
            let (low, high) = extremes(found.accepted.iter().map(|set| set[index]))?;
            Some(format!("{} {low:.4} to {high:.4}", one.name))
        });
        ranges.collect::<Vec<_>>().join(", ")
    }
}

/// Returns a hash of concatenated texts.
pub(crate) fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let hash = texts.into_iter().fold(Sha256::new(), Sha256::chain_update);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Rounds to four decimals, so that a result equals its record.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Returns the least and the greatest value.
pub(crate) fn extremes(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| {
        let (low, high) = range.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

/// Result of a search.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Found {
    plan: String,
    /// Number of sets tried, including the shipped values.
    pub tried: usize,
    /// Number of rejected sets by the first constraint that failed.
    pub rejected: BTreeMap<String, usize>,
    /// Accepted sets in the order of the plan.
    pub accepted: Vec<Vec<f64>>,
    pub judged: Vec<Judged>,
}

/// Figures of one accepted set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Judged {
    pub set: usize,
    pub connections: u32,
    /// Computed figures by check. Values that are not finite are omitted, since JSON cannot
    /// represent them.
    pub figures: BTreeMap<String, Vec<f64>>,
}

/// Verdict on a claim over all judged sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetVerdict {
    /// The claim holds for all sets.
    All,
    /// The claim holds for some sets.
    Some,
    /// The claim holds for no set.
    None,
    /// The claim holds for some sets, and its range is too wide to be meaningful.
    SaysNothing,
}

impl SetVerdict {
    /// All verdicts.
    pub const ALL: [Self; 4] = [Self::All, Self::Some, Self::None, Self::SaysNothing];

    /// Returns the verdict in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::All => "holds for all",
            Self::Some => "holds for some",
            Self::None => "holds for none",
            Self::SaysNothing => "says nothing",
        }
    }
}

/// Range of a claim over the runs of the judged sets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OverSets {
    /// Least figure.
    pub low: f64,
    /// Greatest figure.
    pub high: f64,
    /// Number of runs of judged sets that meet the claim. A set has a run for each kind of load.
    pub held: usize,
    /// Number of these runs.
    pub judged: usize,
    /// Verdict over all of them.
    pub verdict: SetVerdict,
}

impl OverSets {
    /// Returns range, verdict and share.
    pub(crate) fn text(&self) -> String {
        let (low, high) = (number(self.low), number(self.high));
        let verdict = self.verdict.text();
        format!("{low} to {high}: {verdict} ({} of {} runs)", self.held, self.judged)
    }

    /// Judges figures, each with true if it meets the claim; `widest` is the widest meaningful
    /// range.
    pub(crate) fn of(all: &[(bool, Vec<f64>)], widest: f64) -> Option<Self> {
        let (low, high) = extremes(all.iter().flat_map(|(_, figures)| figures).copied())?;
        let (held, judged) = (all.iter().filter(|(holds, _)| *holds).count(), all.len());
        let verdict = match held {
            0 => SetVerdict::None,
            _ if held == judged => SetVerdict::All,
            _ if high - low > widest => SetVerdict::SaysNothing,
            _ => SetVerdict::Some,
        };
        Some(Self { low, high, held, judged, verdict })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stratum_of_each_parameter_is_drawn_once() {
        let plan = copi().unwrap();
        let sets = plan.draw();
        let Draw::LatinHypercube { sets: planned, .. } = plan.plan else { panic!("another") };
        assert_eq!((sets.len(), &sets), (planned, &plan.draw()));
        for (index, one) in plan.parameters.iter().enumerate() {
            let part = |set: &Vec<f64>| match one.scale {
                Scale::Linear => (set[index] - one.low) / (one.high - one.low),
                Scale::Logarithmic => (set[index] / one.low).ln() / (one.high / one.low).ln(),
            };
            let mut strata: Vec<usize> =
                sets.iter().map(|set| (part(set) * sets.len() as f64) as usize).collect();
            strata.sort_unstable();
            assert!(strata.into_iter().eq(0..sets.len()), "{}", one.name);
        }
    }

    #[test]
    fn grid_has_both_bounds_and_equal_steps() {
        let sets = powersave().unwrap().draw();
        let expected = (0..=20).map(|step| vec![rounded(f64::from(step) / 20.0)]);
        assert_eq!(sets, expected.collect::<Vec<_>>());
    }

    #[test]
    fn plan_with_descending_bounds_is_refused() {
        let text = include_str!("../published/sets/copi.toml");
        assert!(SearchPlan::parse(text).is_ok());
        for (from, to) in [("high = 32", "high = 1"), ("low = 1\n", "low = 0\n")] {
            assert!(text.contains(from));
            let error = SearchPlan::parse(&text.replace(from, to)).unwrap_err();
            assert!(error.starts_with("requests.burst: bounds"), "{error}");
        }
    }

    #[test]
    fn cache_of_another_plan_is_refused() {
        let plan = copi().unwrap();
        let text = serde_json::to_string(&plan.empty()).unwrap();
        assert_eq!(plan.cached(&text).unwrap(), plan.empty());
        let error = plan.cached(&text.replace(&plan.hash, "0")).unwrap_err().to_string();
        assert!(error.contains("the plan has changed"), "{error}");
    }

    #[test]
    fn range_is_judged_by_the_share_that_holds_and_by_its_width() {
        let verdict = |all: &[(bool, f64)], widest| {
            let all: Vec<_> = all.iter().map(|(holds, one)| (*holds, vec![*one])).collect();
            OverSets::of(&all, widest).map(|over| (over.verdict, over.held))
        };
        let mixed = [(true, 1.0), (false, 3.0)];
        assert_eq!(verdict(&mixed, 2.0), Some((SetVerdict::Some, 1)));
        assert_eq!(verdict(&mixed, 1.9), Some((SetVerdict::SaysNothing, 1)));
        assert_eq!(verdict(&[(true, 1.0), (true, 3.0)], 1.0), Some((SetVerdict::All, 2)));
        assert_eq!(verdict(&[(false, 1.0), (false, 3.0)], 1.0), Some((SetVerdict::None, 0)));
        assert_eq!(verdict(&[], 1.0), None);
    }
}
