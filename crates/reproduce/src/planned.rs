//! Checks that were written before their model: `crates/reproduce/published/checks/PAPER.toml`.
//!
//! The file says what is compared, with which value and with which tolerance. The code only
//! supplies the computed value. A change of the model therefore cannot change a tolerance or a
//! published figure.

use crate::claim;
use crate::error::ReproduceError;
use serde::Deserialize;
use std::sync::LazyLock;
use wattline_report::Check;
use wattline_report::table::number;

const SOHAN: &str = include_str!("../published/checks/sohan.toml");
const LIAO: &str = include_str!("../published/checks/liao.toml");
const COPI: &str = include_str!("../published/checks/copi.toml");
const READINGS: &str = include_str!("../published/checks/powersave-readings.toml");

/// The planned checks of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// Date on which they were written.
    pub(super) date: String,
    #[serde(rename = "check")]
    pub(super) checks: Vec<Planned>,
    /// What is searched, where the plan is about a search.
    #[serde(default)]
    pub(super) space: Option<toml::Table>,
    #[serde(skip)]
    file: &'static str,
}

#[derive(Debug, Deserialize)]
pub(super) struct Planned {
    pub(super) id: String,
    pub(super) claims: Vec<String>,
    quantity: String,
    /// True if a parameter was fitted to this value: the best verdict is then "fitted".
    #[serde(default)]
    fitted: bool,
    #[serde(flatten)]
    kind: Kind,
    why: String,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Kind {
    Near { published: f64, tolerance: f64 },
    Each { tolerance: f64 },
    Range { low: f64, high: f64, tolerance: f64 },
    Above { bound: f64 },
    Below { bound: f64 },
    Holds { published: String },
}

type Read = LazyLock<Result<Plan, String>>;

/// The planned checks of Sohan et al.
pub(super) fn sohan() -> Result<&'static Plan, ReproduceError> {
    static PLAN: Read = LazyLock::new(|| Plan::parse("sohan.toml", SOHAN));
    read(&PLAN)
}

/// The planned checks of Liao and Bhuyan.
pub(super) fn liao() -> Result<&'static Plan, ReproduceError> {
    static PLAN: Read = LazyLock::new(|| Plan::parse("liao.toml", LIAO));
    read(&PLAN)
}

/// The planned checks of Co-PI.
pub(super) fn copi() -> Result<&'static Plan, ReproduceError> {
    static PLAN: Read = LazyLock::new(|| Plan::parse("copi.toml", COPI));
    read(&PLAN)
}

/// The planned checks of the readings of PowerSave's text.
pub(super) fn powersave_readings() -> Result<&'static Plan, ReproduceError> {
    static PLAN: Read = LazyLock::new(|| Plan::parse("powersave-readings.toml", READINGS));
    read(&PLAN)
}

fn read(plan: &'static Read) -> Result<&'static Plan, ReproduceError> {
    plan.as_ref().map_err(|error| ReproduceError::Model(error.clone()))
}

fn broken(file: &str, what: &str) -> ReproduceError {
    ReproduceError::Model(format!("crates/reproduce/published/checks/{file}: {what}"))
}

impl Plan {
    fn parse(file: &'static str, text: &str) -> Result<Self, String> {
        let plan: Self = toml::from_str(text)
            .map_err(|error| format!("crates/reproduce/published/checks/{file}: {error}"))?;
        Ok(Self { file, ..plan })
    }

    /// Checks one number (`near`, `above`, `below`), or several that must all be in a `range`.
    /// The value that the paper prints, where the check is of one.
    pub(super) fn published(&'static self, id: &str) -> Option<f64> {
        match self.find(id).ok()?.kind {
            Kind::Near { published, .. } => Some(published),
            _ => None,
        }
    }

    pub(super) fn check(&'static self, id: &str, ours: &[f64]) -> Result<Check, ReproduceError> {
        let planned = self.find(id)?;
        let claims = planned.claims();
        let (quantity, one) = (planned.quantity.as_str(), ours.first().copied());
        let single = ours.len() == 1;
        let check = match (&planned.kind, one) {
            (Kind::Near { published, tolerance }, Some(ours)) if single => {
                // The addition allows for the rounding of binary fractions.
                Check::near(&claims, quantity, ours, *published, tolerance + 1e-9)
                    .tolerance(*tolerance)
            }
            (Kind::Above { bound }, Some(ours)) if single => {
                Check::above(&claims, quantity, ours, *bound)
            }
            (Kind::Below { bound }, Some(ours)) if single => {
                Check::below(&claims, quantity, ours, *bound)
            }
            (Kind::Range { low, high, tolerance }, Some(_)) => {
                let slack = tolerance + 1e-9;
                let within = ours.iter().all(|ours| (low - slack..=high + slack).contains(ours));
                let text = ours.iter().map(|ours| number(*ours)).collect::<Vec<_>>().join(", ");
                let published = format!("{} to {}", number(*low), number(*high));
                Check::holds(&claims, quantity, within, text, &published).tolerance(*tolerance)
            }
            _ => return Err(broken(self.file, &format!("{id} takes other figures"))),
        };
        Ok(planned.fitted(check.planned(&self.date, &planned.why)))
    }

    /// Checks that a statement holds.
    pub(super) fn holds(
        &'static self,
        id: &str,
        holds: bool,
        ours: impl Into<String>,
    ) -> Result<Check, ReproduceError> {
        let planned = self.find(id)?;
        let Kind::Holds { published } = &planned.kind else {
            return Err(broken(self.file, &format!("{id} is not a statement")));
        };
        let claims = planned.claims();
        let check = Check::holds(&claims, &planned.quantity, holds, ours, published);
        Ok(planned.fitted(check.planned(&self.date, &planned.why)))
    }

    /// Checks one of several claims of a kind; the published value comes from `claims.csv`.
    pub(super) fn each(
        &'static self,
        id: &str,
        claim: &str,
        of: &str,
        ours: f64,
    ) -> Result<Check, ReproduceError> {
        let planned = self.find(id)?;
        let Kind::Each { tolerance } = planned.kind else {
            return Err(broken(self.file, &format!("{id} is not one of several")));
        };
        let unknown = || broken(self.file, &format!("{id} does not name {claim}"));
        let claim =
            planned.claims().into_iter().find(|known| *known == claim).ok_or_else(unknown)?;
        let row = claim::find(claim)?.ok_or_else(unknown)?;
        let published: f64 = row.value.parse().map_err(|_| unknown())?;
        let quantity = format!("{of}: {}", planned.quantity);
        let check = Check::near(&[claim], &quantity, ours, published, tolerance + 1e-9);
        Ok(check.tolerance(tolerance).planned(&self.date, &planned.why))
    }

    fn find(&'static self, id: &str) -> Result<&'static Planned, ReproduceError> {
        let found = self.checks.iter().find(|planned| planned.id == id);
        found.ok_or_else(|| broken(self.file, &format!("no check {id}")))
    }
}

impl Planned {
    fn fitted(&self, check: Check) -> Check {
        if self.fitted { check.fitted("fitted to this claim") } else { check }
    }

    fn claims(&'static self) -> Vec<&'static str> {
        self.claims.iter().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims;
    use crate::paper::Paper;
    use std::collections::BTreeSet;
    use wattline_report::Verdict;

    #[test]
    fn plans_name_claims_of_their_paper_and_have_a_date() {
        for (paper, plan) in [
            (Paper::Sohan, sohan()),
            (Paper::Liao, liao()),
            (Paper::Copi, copi()),
            (Paper::Powersave, powersave_readings()),
        ] {
            let plan = plan.unwrap();
            assert_eq!(plan.date.len(), "2026-11-22".len());
            let known: BTreeSet<String> =
                claims::claims_of(paper).unwrap().into_iter().map(|claim| claim.id).collect();
            let mut ids = BTreeSet::new();
            for planned in &plan.checks {
                assert!(ids.insert(&planned.id), "{} twice", planned.id);
                assert!(!planned.why.is_empty());
                assert!(planned.claims.iter().all(|id| known.contains(id)), "{}", planned.id);
            }
        }
    }

    #[test]
    fn a_check_answers_as_it_was_planned() {
        let plan = liao().unwrap();
        assert_eq!(plan.check("skb-misses", &[1.36]).unwrap().verdict, Verdict::Meets);
        assert_eq!(plan.check("skb-misses", &[1.34]).unwrap().verdict, Verdict::Differs);
        assert_eq!(plan.check("rx-nic-share", &[4.6, 7.6]).unwrap().verdict, Verdict::Meets);
        assert_eq!(plan.check("rx-nic-share", &[4.4, 7.6]).unwrap().verdict, Verdict::Differs);
        assert!(plan.check("steps", &[1.0]).is_err() && plan.check("no", &[1.0]).is_err());
        assert!(plan.holds("skb-misses", true, "").is_err());
    }
}
