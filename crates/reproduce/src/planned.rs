//! Checks of a paper's claims: `crates/reproduce/published/checks/PAPER.toml`.
//!
//! The file defines each comparison with its published value and tolerance, and gives the reason
//! for claims without a check. The code only supplies the computed value, so a change of the model
//! cannot change a tolerance or a published figure. A file with a date was written before its
//! model.

use crate::error::ReproduceError;
use crate::paper::Paper;
use crate::printed::{printed, printed_at, text_of};
use crate::sets::{self, Width};
use serde::Deserialize;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use wattline_report::table::number;
use wattline_report::{Basis, Check, Grounds, Verdict};

pub(super) const POWERSAVE: &str = include_str!("../published/checks/powersave.toml");
const BOLLA: &str = include_str!("../published/checks/bolla.toml");
pub(super) const LIAO: &str = include_str!("../published/checks/liao.toml");
const SOHAN: &str = include_str!("../published/checks/sohan.toml");
pub(super) const COPI: &str = include_str!("../published/checks/copi.toml");
const READINGS: &str = include_str!("../published/checks/powersave-readings.toml");
const NAPI: &str = include_str!("../published/checks/bolla-napi.toml");

/// The checks of a paper.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plan {
    /// Date of the plan, if it was written before the model.
    date: Option<String>,
    #[serde(rename = "check")]
    pub(super) checks: Vec<Planned>,
    /// Claims that no check answers.
    #[serde(default)]
    pub(super) unchecked: Vec<Unchecked>,
    /// Space of the search, if the plan has one.
    #[serde(default)]
    pub(super) space: Option<toml::Table>,
    #[serde(skip)]
    file: &'static str,
}

/// Claims that no check answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Unchecked {
    pub(super) claims: Vec<String>,
    pub(super) basis: Option<Basis>,
    pub(super) verdict: Verdict,
    /// Reason.
    pub(super) why: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Planned {
    pub(super) id: String,
    /// Claims that the check answers; none for a figure that only accompanies others.
    pub(super) claims: Vec<String>,
    quantity: String,
    basis: Option<Basis>,
    #[serde(default)]
    grounds: Grounds,
    /// Change of an input that changes the verdict of a predicted check. A check that differs needs
    /// none.
    flip: Option<String>,
    #[serde(flatten)]
    kind: Kind,
    /// Reason for the tolerance; empty for a check that was written after the model.
    #[serde(default)]
    why: String,
    #[serde(default)]
    note: String,
    /// Contradiction within the paper.
    contradiction: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Kind {
    /// A figure compared with a published one, or with another computed one.
    Near {
        published: Option<Figure>,
        tolerance: f64,
    },
    Each {
        tolerance: f64,
    },
    Range {
        low: Figure,
        high: Figure,
        tolerance: f64,
    },
    Above {
        bound: Figure,
    },
    Below {
        bound: Figure,
        /// Allowance beyond the bound.
        #[serde(default)]
        tolerance: f64,
    },
    /// A statement; the text of the claims by default.
    Holds {
        #[serde(default)]
        expects: String,
    },
}

impl Kind {
    fn figures(&self) -> Vec<&Figure> {
        match self {
            Self::Near { published, .. } => published.iter().collect(),
            Self::Range { low, high, .. } => vec![low, high],
            Self::Above { bound } | Self::Below { bound, .. } => vec![bound],
            Self::Each { .. } | Self::Holds { .. } => Vec::new(),
        }
    }
}

/// Reference figure of a check.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
enum Figure {
    /// Our reading of a text that prints no number.
    Reading(f64),
    /// A printed number: `PS-118`, or `PS-118#2` for the second one of that claim.
    Printed(String),
}

impl Figure {
    /// Returns the number, or NaN, which meets no check, if the claim prints none.
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

type Read = LazyLock<Result<Plan, String>>;

/// Returns the checks of a paper.
pub(super) fn made_for(paper: Paper) -> Result<&'static Plan, ReproduceError> {
    static PLANS: [Read; 5] = [
        LazyLock::new(|| Plan::parse("powersave.toml", POWERSAVE)),
        LazyLock::new(|| Plan::parse("bolla.toml", BOLLA)),
        LazyLock::new(|| Plan::parse("liao.toml", LIAO)),
        LazyLock::new(|| Plan::parse("sohan.toml", SOHAN)),
        LazyLock::new(|| Plan::parse("copi.toml", COPI)),
    ];
    read(&PLANS[paper as usize])
}

/// Returns the planned checks of the readings of PowerSave's text.
pub(super) fn powersave_readings() -> Result<&'static Plan, ReproduceError> {
    static PLAN: Read = LazyLock::new(|| Plan::parse("powersave-readings.toml", READINGS));
    read(&PLAN)
}

/// Returns the planned check of Bolla's form function from NAPI's costs.
pub(super) fn bolla_napi() -> Result<&'static Plan, ReproduceError> {
    static PLAN: Read = LazyLock::new(|| Plan::parse("bolla-napi.toml", NAPI));
    read(&PLAN)
}

/// Returns the claims that constrained a search: all claims of PowerSave's readings, and the claims
/// of checks named in `published/sets`.
pub(super) fn constraints() -> Result<BTreeSet<&'static str>, ReproduceError> {
    let mut all: BTreeSet<&str> =
        powersave_readings()?.checks.iter().flat_map(Planned::claims).collect();
    for constraint in sets::copi()?.constraints() {
        all.extend(made_for(Paper::Copi)?.find(constraint)?.claims());
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
            if planned.basis != Some(Basis::Predicted) && planned.flip.is_some() {
                return Err(failed(format!("{id}: only predicted checks name a flip")));
            }
            if planned.kind.figures().iter().any(|figure| figure.number().is_nan()) {
                return Err(failed(format!("{id}: no such number in claims.csv")));
            }
        }
        Ok(Self { file, ..plan })
    }

    /// Returns the changes that change the verdicts of predicted checks.
    #[cfg(test)]
    pub(super) fn flips(&'static self) -> impl Iterator<Item = &'static str> {
        self.checks.iter().filter_map(|planned| planned.flip.as_deref())
    }

    /// Returns the first figure that a check compares with.
    pub(super) fn published(&'static self, id: &str) -> Option<f64> {
        Some(self.find(id).ok()?.kind.figures().first()?.number())
    }

    pub(super) fn claims_of(&'static self, id: &str) -> Result<Vec<&'static str>, ReproduceError> {
        Ok(self.find(id)?.claims())
    }

    /// Returns the widest range of figures that is still meaningful for a check.
    pub(super) fn widest(&'static self, id: &str, width: Width) -> Result<f64, ReproduceError> {
        let kind = &self.find(id)?.kind;
        let printed = kind.figures().into_iter().map(|figure| figure.number().abs());
        let printed = printed.fold(0.0, f64::max);
        let tolerance = match kind {
            Kind::Near { tolerance, .. } | Kind::Range { tolerance, .. } => *tolerance,
            _ => 0.0,
        };
        Ok((width.widest_of_printed * printed).max(width.widest_of_tolerance * tolerance))
    }

    /// Checks one number (`near`, `above`, `below`), two equal numbers (`near` without
    /// `published`), or several numbers in a `range`.
    pub(super) fn check(&'static self, id: &str, ours: &[f64]) -> Result<Check, ReproduceError> {
        let planned = self.find(id)?;
        let claims = planned.claims();
        let (quantity, one) = (planned.quantity.as_str(), ours.first().copied());
        let single = ours.len() == 1;
        let check = match (&planned.kind, one) {
            (Kind::Near { published, tolerance }, Some(one))
                if ours.len() == 1 + usize::from(published.is_none()) =>
            {
                let published = published.as_ref().map_or(ours[ours.len() - 1], Figure::number);
                // The addition allows for the rounding of binary fractions.
                Check::near(&claims, quantity, one, published, tolerance + 1e-9)
                    .tolerance(*tolerance)
            }
            (Kind::Above { bound }, Some(ours)) if single => {
                Check::above(&claims, quantity, ours, bound.number())
            }
            (Kind::Below { bound, tolerance }, Some(ours)) if single => {
                Check::below(&claims, quantity, ours, bound.number() + tolerance)
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
        Ok(planned.finish(check, self.date.as_deref(), &planned.why))
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
        let (claims, date) = (planned.claims(), self.date.as_deref());
        let texts: Vec<String> = claims.iter().map(|id| text_of(id)).collect();
        let text = if date.is_some() || expects.is_empty() { &texts.join("; ") } else { expects };
        let check = Check::holds(&claims, &planned.quantity, holds, ours, text);
        Ok(planned.finish(check, date, &format!("{expects}; {}", planned.why)))
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
        let check = Check::near(&[claim], &planned.quantity, ours, published, tolerance + 1e-9);
        let check = check.of(of).tolerance(tolerance);
        Ok(planned.finish(check, self.date.as_deref(), &planned.why))
    }

    fn find(&'static self, id: &str) -> Result<&'static Planned, ReproduceError> {
        let found = self.checks.iter().find(|planned| planned.id == id);
        found.ok_or_else(|| broken(self.file, &format!("no check {id}")))
    }
}

impl Planned {
    /// Adds the other fields of the file to a check; date and reason only if it has both.
    fn finish(&'static self, check: Check, date: Option<&str>, why: &str) -> Check {
        let check = check.on(self.grounds).note(&self.note);
        let check = match self.basis {
            Some(Basis::Predicted) => check.predicted(self.flip.as_deref()),
            Some(basis) => check.basis(basis),
            None => check,
        };
        let check = match &self.contradiction {
            Some(why) => check.contradiction(why),
            None => check,
        };
        match date.filter(|_| !self.why.is_empty()) {
            Some(date) => check.planned(date, why),
            None => check,
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
    fn plans_answer_each_claim_of_their_paper() {
        for paper in Paper::ALL {
            let known: BTreeSet<String> =
                claims::claims_of(paper).unwrap().into_iter().map(|claim| claim.id).collect();
            let whole = made_for(paper).unwrap();
            let plans = match paper {
                Paper::Powersave => vec![whole, powersave_readings().unwrap()],
                Paper::Bolla => vec![whole, bolla_napi().unwrap()],
                _ => vec![whole],
            };
            let mut answered = BTreeSet::new();
            for plan in plans {
                let mut ids = BTreeSet::new();
                for planned in &plan.checks {
                    assert!(ids.insert(&planned.id), "{} twice", planned.id);
                    assert!(planned.claims.iter().all(|id| known.contains(id)), "{}", planned.id);
                    answered.extend(&planned.claims);
                }
            }
            for unchecked in &whole.unchecked {
                assert!(!unchecked.why.is_empty() && unchecked.verdict != Verdict::Meets);
                for id in &unchecked.claims {
                    assert!(answered.insert(id), "{id} is answered twice");
                }
            }
            assert_eq!(answered, known.iter().collect(), "{}", paper.name());
        }
    }

    /// Searches the sources for the ids. Co-PI composes some ids; its own module tests them.
    #[test]
    fn every_check_is_made_somewhere() {
        for paper in Paper::ALL.into_iter().filter(|paper| *paper != Paper::Copi) {
            let folder = format!("{}/src/{}", env!("CARGO_MANIFEST_DIR"), paper.name());
            let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            let code: String =
                files.filter_map(|path| std::fs::read_to_string(path).ok()).collect();
            for planned in &made_for(paper).unwrap().checks {
                assert!(code.contains(&format!("\"{}\"", planned.id)), "{}", planned.id);
            }
        }
    }

    /// Numbers printed by a claim of the check must be read from `claims.csv`. Zero and one are too
    /// common to test.
    #[test]
    fn plans_repeat_no_printed_number() {
        let mut repeated = Vec::new();
        let plans =
            Paper::ALL.map(made_for).into_iter().chain([powersave_readings(), bolla_napi()]);
        for plan in plans.map(Result::unwrap) {
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

    /// Finds flips without an input or without an effect on it, without simulating.
    #[test]
    fn planned_flips_change_an_input() {
        for flip in
            [Paper::Liao, Paper::Copi].iter().flat_map(|paper| made_for(*paper).unwrap().flips())
        {
            let (inputs, shipped) = (Inputs::changed(flip).unwrap(), Inputs::default());
            let server = |inputs: &Inputs| inputs.server("xeon-silver-4108").unwrap();
            let requests = |inputs: &Inputs| inputs.requests(Workload::Nginx, 1.0).unwrap();
            let changed = server(&inputs).requests().unwrap()
                != server(&shipped).requests().unwrap()
                || requests(&inputs) != requests(&shipped)
                || inputs.receive_path().unwrap() != shipped.receive_path().unwrap();
            assert!(changed, "{flip}");
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
    fn check_answers_as_planned() {
        let plan = made_for(Paper::Liao).unwrap();
        assert_eq!(plan.check("skb-misses", &[1.36]).unwrap().verdict, Verdict::Meets);
        assert_eq!(plan.check("skb-misses", &[1.34]).unwrap().verdict, Verdict::Differs);
        assert_eq!(plan.check("rx-nic-share", &[4.6, 7.6]).unwrap().verdict, Verdict::Meets);
        assert_eq!(plan.check("rx-nic-share", &[4.4, 7.6]).unwrap().verdict, Verdict::Differs);
        assert!(plan.check("steps", &[1.0]).is_err() && plan.check("no", &[1.0]).is_err());
        assert!(plan.holds("skb-misses", true, "").is_err());
    }
}
