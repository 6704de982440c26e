//! Checks that were written before their model: `crates/reproduce/published/checks/PAPER.toml`.
//!
//! The file says what is compared, with which value and with which tolerance. The code only
//! supplies the computed value. A change of the model therefore cannot change a tolerance or a
//! published figure.

use crate::error::ReproduceError;
use crate::printed::{printed, printed_at, text_of};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use wattline_report::table::number;
use wattline_report::{Basis, Check};

const SOHAN: &str = include_str!("../published/checks/sohan.toml");
const LIAO: &str = include_str!("../published/checks/liao.toml");
const COPI: &str = include_str!("../published/checks/copi.toml");
const COPI_SETS: &str = include_str!("../published/sets/copi.toml");
const READINGS: &str = include_str!("../published/checks/powersave-readings.toml");

/// The planned checks of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// Date on which they were written.
    pub(super) date: String,
    #[serde(rename = "check")]
    pub(super) checks: Vec<Planned>,
    /// Space of the search, where the plan is about one.
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
    basis: PlannedBasis,
    /// Change of an input that makes a predicted check come out otherwise. One that differs needs
    /// none.
    flip: Option<String>,
    #[serde(flatten)]
    kind: Kind,
    why: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PlannedBasis {
    Predicted,
    Fitted,
    Rule,
    Arithmetic,
    Data,
}

impl From<PlannedBasis> for Basis {
    fn from(basis: PlannedBasis) -> Self {
        match basis {
            PlannedBasis::Predicted => Self::Predicted,
            PlannedBasis::Fitted => Self::Fitted,
            PlannedBasis::Rule => Self::Rule,
            PlannedBasis::Arithmetic => Self::Arithmetic,
            PlannedBasis::Data => Self::Data,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Kind {
    Near { published: Figure, tolerance: f64 },
    Each { tolerance: f64 },
    Range { low: Figure, high: Figure, tolerance: f64 },
    Above { bound: Figure },
    Below { bound: Figure },
    Holds { expects: String },
}

impl Kind {
    fn figures(&self) -> Vec<&Figure> {
        match self {
            Self::Near { published, .. } => vec![published],
            Self::Range { low, high, .. } => vec![low, high],
            Self::Above { bound } | Self::Below { bound } => vec![bound],
            Self::Each { .. } | Self::Holds { .. } => Vec::new(),
        }
    }
}

/// A figure that a check is held against.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Figure {
    /// Our reading of a text that prints no number.
    Reading(f64),
    /// A printed number: `PS-118`, or `PS-118#2` for the second one of that claim.
    Printed(String),
}

impl Figure {
    /// Returns the number; NaN, which meets nothing, if the claim prints none.
    fn number(&self) -> f64 {
        match self {
            Self::Reading(number) => *number,
            Self::Printed(reference) => match reference.split_once('#') {
                Some((id, place)) => {
                    let place = place.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
                    place.map_or(f64::NAN, |index| printed_at(id, index))
                }
                None => printed(reference),
            },
        }
    }
}

/// The part of a file of `published/sets` that affects bases.
#[derive(Debug, Deserialize)]
struct Sets {
    #[serde(rename = "constraint")]
    constraints: Vec<Constraint>,
}

#[derive(Debug, Deserialize)]
struct Constraint {
    check: String,
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

/// Returns the claims that constrained a search: all of PowerSave's readings, and those of the
/// checks that a file of `published/sets` names.
pub(super) fn constraints() -> Result<BTreeSet<&'static str>, ReproduceError> {
    let broken = |error: String| broken("../sets/copi.toml", &error);
    let sets: Sets = toml::from_str(COPI_SETS).map_err(|error| broken(error.to_string()))?;
    let mut all: BTreeSet<&str> =
        powersave_readings()?.checks.iter().flat_map(Planned::claims).collect();
    for constraint in &sets.constraints {
        all.extend(copi()?.find(&constraint.check)?.claims());
    }
    Ok(all)
}

fn read(plan: &'static Read) -> Result<&'static Plan, ReproduceError> {
    plan.as_ref().map_err(|error| ReproduceError::Model(error.clone()))
}

fn broken(file: &str, what: &str) -> ReproduceError {
    ReproduceError::Model(format!("crates/reproduce/published/checks/{file}: {what}"))
}

impl Plan {
    fn parse(file: &'static str, text: &str) -> Result<Self, String> {
        let failed = |what: String| format!("crates/reproduce/published/checks/{file}: {what}");
        let plan: Self = toml::from_str(text).map_err(|error| failed(error.to_string()))?;
        for planned in &plan.checks {
            let id = &planned.id;
            if planned.basis != PlannedBasis::Predicted && planned.flip.is_some() {
                return Err(failed(format!("{id}: only predicted checks name a flip")));
            }
            if planned.kind.figures().iter().any(|figure| figure.number().is_nan()) {
                return Err(failed(format!("{id}: no such number in claims.csv")));
            }
        }
        Ok(Self { file, ..plan })
    }

    /// Returns the value that the paper prints, where the check is of one.
    pub(super) fn published(&'static self, id: &str) -> Option<f64> {
        match &self.find(id).ok()?.kind {
            Kind::Near { published, .. } => Some(published.number()),
            _ => None,
        }
    }

    /// Checks one number (`near`, `above`, `below`), or several that must all be in a `range`.
    pub(super) fn check(&'static self, id: &str, ours: &[f64]) -> Result<Check, ReproduceError> {
        let planned = self.find(id)?;
        let claims = planned.claims();
        let (quantity, one) = (planned.quantity.as_str(), ours.first().copied());
        let single = ours.len() == 1;
        let check = match (&planned.kind, one) {
            (Kind::Near { published, tolerance }, Some(ours)) if single => {
                // The addition allows for the rounding of binary fractions.
                Check::near(&claims, quantity, ours, published.number(), tolerance + 1e-9)
                    .tolerance(*tolerance)
            }
            (Kind::Above { bound }, Some(ours)) if single => {
                Check::above(&claims, quantity, ours, bound.number())
            }
            (Kind::Below { bound }, Some(ours)) if single => {
                Check::below(&claims, quantity, ours, bound.number())
            }
            (Kind::Range { low, high, tolerance }, Some(_)) => {
                let (low, high) = (low.number(), high.number());
                let slack = tolerance + 1e-9;
                let within = ours.iter().all(|ours| (low - slack..=high + slack).contains(ours));
                let text = ours.iter().map(|ours| number(*ours)).collect::<Vec<_>>().join(", ");
                let published = format!("{} to {}", number(low), number(high));
                Check::holds(&claims, quantity, within, text, &published).tolerance(*tolerance)
            }
            _ => return Err(broken(self.file, &format!("{id} takes other figures"))),
        };
        Ok(planned.based(check.planned(&self.date, &planned.why)))
    }

    /// Checks that a statement holds.
    pub(super) fn holds(
        &'static self,
        id: &str,
        holds: bool,
        ours: impl Into<String>,
    ) -> Result<Check, ReproduceError> {
        let planned = self.find(id)?;
        let Kind::Holds { expects } = &planned.kind else {
            return Err(broken(self.file, &format!("{id} is not a statement")));
        };
        let claims = planned.claims();
        let texts: Vec<String> = claims.iter().map(|id| text_of(id)).collect();
        let check = Check::holds(&claims, &planned.quantity, holds, ours, &texts.join("; "));
        let why = format!("{expects}; {}", planned.why);
        Ok(planned.based(check.planned(&self.date, &why)))
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
        let published = printed(claim);
        if published.is_nan() {
            return Err(unknown());
        }
        let quantity = format!("{of}: {}", planned.quantity);
        let check = Check::near(&[claim], &quantity, ours, published, tolerance + 1e-9);
        Ok(planned.based(check.tolerance(tolerance).planned(&self.date, &planned.why)))
    }

    fn find(&'static self, id: &str) -> Result<&'static Planned, ReproduceError> {
        let found = self.checks.iter().find(|planned| planned.id == id);
        found.ok_or_else(|| broken(self.file, &format!("no check {id}")))
    }
}

impl Planned {
    fn based(&'static self, check: Check) -> Check {
        match self.basis {
            PlannedBasis::Predicted => check.predicted(self.flip.as_deref()),
            basis => check.basis(basis.into()),
        }
    }

    fn claims(&'static self) -> Vec<&'static str> {
        self.claims.iter().map(String::as_str).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims;
    use crate::inputs::Inputs;
    use crate::paper::Paper;
    use crate::printed::{numbers_in, numbers_of};
    use wattline_report::Verdict;
    use wattline_traffic::requests::Workload;

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

    /// A number is read from `claims.csv` where a claim of the check prints it. Zero and one are
    /// too common to tell.
    #[test]
    fn plans_repeat_no_printed_number() {
        let mut repeated = Vec::new();
        for plan in [sohan(), liao(), copi(), powersave_readings()].map(Result::unwrap) {
            for planned in &plan.checks {
                let printed = |number: &f64| {
                    *number > 1.0 && planned.claims.iter().any(|id| numbers_of(id).contains(number))
                };
                let typed = planned.kind.figures().into_iter().filter_map(|figure| match figure {
                    Figure::Reading(number) => Some(*number),
                    Figure::Printed(_) => None,
                });
                let stated = match &planned.kind {
                    Kind::Holds { expects } => numbers_in(expects),
                    _ => Vec::new(),
                };
                let all = typed.chain(stated).filter(printed);
                repeated.extend(all.map(|number| format!("{} {number}", planned.id)));
            }
        }
        assert!(repeated.is_empty(), "{repeated:#?}");
    }

    /// A flip that names no input, or leaves all of them as they are, is found without a simulation.
    #[test]
    fn planned_flips_change_an_input() {
        let plans = [liao(), copi()].map(Result::unwrap);
        for planned in plans.iter().flat_map(|plan| &plan.checks) {
            let Some(flip) = planned.flip.as_deref() else { continue };
            let (inputs, shipped) = (Inputs::changed(flip).unwrap(), Inputs::default());
            let server = |inputs: &Inputs| inputs.server("xeon-silver-4108").unwrap();
            let requests = |inputs: &Inputs| inputs.requests(Workload::Nginx, 1.0).unwrap();
            let changed = server(&inputs).requests().unwrap()
                != server(&shipped).requests().unwrap()
                || requests(&inputs) != requests(&shipped)
                || inputs.receive_path().unwrap() != shipped.receive_path().unwrap();
            assert!(changed, "{}: {flip}", planned.id);
        }
    }

    #[test]
    fn plan_with_an_idle_flip_or_without_number_is_refused() {
        let parse = |lines: &str| {
            let head =
                "date = \"2026-11-27\"\n[[check]]\nid = \"a\"\nclaims = []\nquantity = \"q\"\n";
            Plan::parse("a.toml", &format!("{head}why = \"w\"\nkind = \"above\"\n{lines}"))
        };
        assert!(parse("basis = \"rule\"\nbound = \"PS-118#2\"").is_ok());
        for lines in [
            "basis = \"rule\"\nbound = 2.0\nflip = \"receive: ring = 1\"",
            "basis = \"rule\"\nbound = \"PS-118#9\"",
        ] {
            assert!(parse(lines).is_err(), "{lines}");
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
