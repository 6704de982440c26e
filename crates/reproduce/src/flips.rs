//! Robustness of predicted checks: inputs that no paper prints are changed by a quarter, one at a
//! time. `crates/reproduce/published/flips.toml` lists them; `flips.json` is the record of all
//! flips.

use crate::claims::ClaimReport;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::made::Memo;
use crate::planned::{COPI, LIAO, POWERSAVE};
use crate::runner;
use crate::sets::hash;
use crate::target::{Target, Wanted};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use toml::Value;
use wattline_report::{Basis, Check, Verdict};
use wattline_server::library::{Kind, text_of};
use wattline_study::receive::ReceivePath;

const PLAN: &str = include_str!("../published/flips.toml");
const RECORD: &str = include_str!("../published/flips.json");

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlipPlan {
    factors: Vec<f64>,
    #[serde(rename = "subject")]
    subjects: Vec<Subject>,
    /// Inputs of a file that are not changed, with the reason.
    #[serde(rename = "left-out")]
    left_out: BTreeMap<String, String>,
}

/// Figures with predicted checks, and their inputs that no paper prints.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    figures: Vec<String>,
    /// Server file whose assumed and fitted figures are inputs.
    file: Option<String>,
    inputs: Vec<String>,
}

/// Results of all flips.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct Flips {
    /// Hash of plan, inputs and checks.
    depends: String,
    /// Claims of the predicted checks.
    claims: BTreeSet<String>,
    /// Claims with a check whose verdict changes, by flip.
    changed: BTreeMap<String, BTreeSet<String>>,
    /// Flips that the models refuse, with the reason.
    refused: BTreeMap<String, String>,
}

impl FlipPlan {
    fn read() -> Result<Self, ReproduceError> {
        toml::from_str(PLAN).map_err(|error| broken("toml", error))
    }

    fn inputs(&self, subject: &Subject) -> Result<Vec<String>, ReproduceError> {
        let mut all = subject.inputs.clone();
        if let Some(file) = &subject.file {
            let text = text_of(file, Kind::Servers).unwrap_or_default();
            let root = toml::from_str(text).map_err(|error| broken("toml", error))?;
            unprinted(&Value::Table(root), &format!("{file}: "), &mut all);
        }
        all.retain(|input| !self.left_out.contains_key(input));
        Ok(all)
    }

    fn flips(&self, subject: &Subject) -> Result<Vec<String>, ReproduceError> {
        let inputs = self.inputs(subject)?;
        let pairs = inputs.iter().flat_map(|input| self.factors.iter().map(move |by| (input, by)));
        Ok(pairs.map(|(input, by)| format!("{input} * {by}")).collect())
    }

    /// Returns a hash of everything that the record depends on, except the program.
    fn depends(&self) -> Result<String, ReproduceError> {
        let path = toml::to_string(&ReceivePath::default());
        let path = path.map_err(|error| broken("toml", error))?;
        let files = self.subjects.iter().filter_map(|subject| subject.file.as_deref());
        let servers = files.filter_map(|file| text_of(file, Kind::Servers));
        Ok(hash([PLAN, POWERSAVE, LIAO, COPI, path.as_str()].into_iter().chain(servers)))
    }
}

fn broken(kind: &str, error: impl std::fmt::Display) -> ReproduceError {
    ReproduceError::Model(format!("crates/reproduce/published/flips.{kind}: {error}"))
}

/// Collects the figures of a file that are assumed or fitted.
fn unprinted(at: &Value, path: &str, found: &mut Vec<String>) {
    let below = |key: &str| match path.ends_with(' ') {
        true => format!("{path}{key}"),
        false => format!("{path}.{key}"),
    };
    match at {
        Value::Table(table) if table.contains_key("value") || table.contains_key("values") => {
            let origin = table.get("origin").and_then(Value::as_str);
            if matches!(origin, Some("assumed" | "fitted")) {
                found.push(path.to_owned());
            }
        }
        Value::Table(table) => {
            table.iter().for_each(|(key, value)| unprinted(value, &below(key), found));
        }
        Value::Array(all) => {
            for one in all {
                if let Some(name) = one.get("name").and_then(Value::as_str) {
                    unprinted(one, &below(name), found);
                }
            }
        }
        _ => {}
    }
}

impl Subject {
    /// Makes the figures with brief runs.
    fn made(&self, inputs: Inputs) -> Result<Vec<Figure>, ReproduceError> {
        let targets = self.figures.iter().map(|name| name.parse());
        let targets: Vec<Target> = targets.collect::<Result<_, _>>()?;
        let wanted = Wanted::of(&targets);
        let steps: Vec<_> = wanted.iter().flat_map(Wanted::steps).collect();
        let made = runner::run(&steps, &inputs.briefly(), None, |_| ())?;
        let mut figures: Vec<Figure> = made.into_iter().flatten().collect();
        figures.retain(|figure| targets.iter().any(|target| target.figure == Some(figure.id)));
        Ok(figures)
    }
}

fn is_predicted(check: &Check) -> bool {
    let judged = matches!(check.verdict, Verdict::Meets | Verdict::Differs);
    // A brief run omits settings: a check without a figure would differ under every flip.
    let made = check.ours.contains(|letter: char| letter.is_ascii_digit());
    judged && made && check.basis == Some(Basis::Predicted)
}

/// Returns the claims of predicted checks whose verdicts differ.
fn changed(before: &[Figure], after: &[Figure]) -> BTreeSet<String> {
    let figures = before.iter().zip(after);
    let pairs = figures.flat_map(|(before, after)| before.checks.iter().zip(&after.checks));
    let other =
        pairs.filter(|(before, after)| is_predicted(before) && before.verdict != after.verdict);
    other.flat_map(|(before, _)| before.claims.iter().map(|id| (*id).to_owned())).collect()
}

/// Makes the flips that are not on record, and calls `kept` after each.
fn search(
    plan: &FlipPlan,
    record: &mut Flips,
    mut kept: impl FnMut(&Flips),
) -> Result<(), ReproduceError> {
    for subject in &plan.subjects {
        let mut flips = plan.flips(subject)?;
        flips.retain(|flip| {
            !record.changed.contains_key(flip) && !record.refused.contains_key(flip)
        });
        if flips.is_empty() {
            continue;
        }
        let base = subject.made(Inputs::default())?;
        let checks = base.iter().flat_map(|figure| &figure.checks);
        let claims = checks.filter(|check| is_predicted(check)).flat_map(|check| &check.claims);
        record.claims.extend(claims.map(|id| (*id).to_owned()));
        for flip in flips {
            match Inputs::changed(&flip).and_then(|inputs| subject.made(inputs)) {
                Ok(figures) => {
                    record.changed.insert(flip, changed(&base, &figures));
                }
                Err(error) => {
                    record.refused.insert(flip, error.to_string());
                }
            }
            kept(record);
        }
    }
    Ok(())
}

fn record(fresh: bool) -> Result<Flips, ReproduceError> {
    static MADE: Memo<bool, Flips> = Memo::new();
    MADE.get_or_make(fresh, || {
        let plan = FlipPlan::read()?;
        let depends = plan.depends()?;
        if fresh {
            let mut record = Flips { depends, ..Flips::default() };
            search(&plan, &mut record, |_| ())?;
            return Ok(record);
        }
        let record: Flips = serde_json::from_str(RECORD).map_err(|error| broken("json", error))?;
        if record.depends == depends {
            Ok(record)
        } else {
            Err(broken("json", "an input has changed; run its test with UPDATE_GOLDEN=1"))
        }
    })
}

impl Flips {
    /// Returns the flips that change a claim; `None` for a claim that is not predicted.
    fn changing(&self, claim: &str) -> Option<Vec<&str>> {
        let changes = self.changed.iter().filter(|(_, claims)| claims.contains(claim));
        self.claims.contains(claim).then(|| changes.map(|(flip, _)| flip.as_str()).collect())
    }
}

/// Returns true if no flip on record changes a predicted claim; `None` if the claim is not
/// predicted.
pub(crate) fn robust(claim: &str) -> Result<Option<bool>, ReproduceError> {
    Ok(record(false)?.changing(claim).map(|flips| flips.is_empty()))
}

/// Adds the robustness of each predicted claim.
pub(crate) fn add(inputs: &Inputs, claims: &mut [ClaimReport]) -> Result<(), ReproduceError> {
    for claim in claims.iter_mut().filter(|claim| claim.basis == Some(Basis::Predicted)) {
        let record = record(inputs.fresh)?;
        let Some(flips) = record.changing(&claim.claim.id) else { continue };
        claim.robust = Some(flips.is_empty());
        let text = match flips.is_empty() {
            true => "robust: no unprinted input, moved by a quarter, changes it".to_owned(),
            false => format!("fragile: changed by {}", flips.join(", ")),
        };
        let separator = if claim.note.is_empty() { "" } else { "; " };
        claim.note.push_str(&format!("{separator}{text}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unprinted_figure_of_a_server_is_moved_or_left_out_with_a_reason() {
        let plan = FlipPlan::read().unwrap();
        let copi = plan.flips(plan.subjects.last().unwrap()).unwrap();
        for key in ["requests.outside_us", "requests.idle_state.C1E.power_watts"] {
            assert!(copi.contains(&format!("xeon-silver-4108: {key} * 0.75")), "{key}");
        }
        assert!(plan.left_out.values().all(|why| !why.is_empty()));
        let texts =
            plan.subjects.iter().filter_map(|one| text_of(one.file.as_deref()?, Kind::Servers));
        let marked: usize = texts
            .map(|text| {
                let marks = ["origin = \"assumed\"", "origin = \"fitted\""];
                marks.map(|mark| text.matches(mark).count()).iter().sum::<usize>()
            })
            .sum();
        let inputs = plan.subjects.iter().flat_map(|one| plan.inputs(one).unwrap());
        let from_files = inputs.filter(|input| {
            ["westmere-2010", "xeon-silver-4108"].iter().any(|file| input.starts_with(file))
        });
        assert_eq!(from_files.count() + plan.left_out.len(), marked);
    }

    /// Finds flips without an input, and a record of other inputs, without simulating.
    #[test]
    fn record_has_every_flip_of_the_plan() {
        let (plan, record) = (FlipPlan::read().unwrap(), record(false).unwrap());
        let flips: BTreeSet<String> =
            plan.subjects.iter().flat_map(|subject| plan.flips(subject).unwrap()).collect();
        let recorded = record.changed.keys().chain(record.refused.keys()).cloned();
        assert_eq!(recorded.collect::<BTreeSet<_>>(), flips);
        assert!(record.changed.values().flatten().all(|id| record.claims.contains(id)));
    }

    /// CP-035 was once recorded as changed by no flip: a brief run omits its load.
    #[test]
    fn check_without_a_figure_is_not_on_record() {
        let check = |ours| Check::near(&["CP-035"], "spread", ours, 1.0, 0.1).predicted(None);
        assert!(is_predicted(&check(1.0)) && !is_predicted(&check(f64::NAN)));
        assert!(!record(false).unwrap().claims.contains("CP-035"));
    }

    /// Repeats a part of the record: a broken flip or check would change it.
    #[test]
    fn recorded_flips_are_repeated() {
        let (plan, record) = (FlipPlan::read().unwrap(), record(false).unwrap());
        let liao = &plan.subjects[1];
        let base = liao.made(Inputs::default()).unwrap();
        for flip in plan.flips(liao).unwrap().into_iter().take(1) {
            let now = Inputs::changed(&flip).and_then(|inputs| liao.made(inputs));
            let now = now.ok().map(|figures| changed(&base, &figures));
            assert_eq!(now.as_ref(), record.changed.get(&flip), "{flip}");
        }
        // A larger flip changes the check.
        let other = liao.made(Inputs::changed("receive: batch * 0.5").unwrap()).unwrap();
        assert!(changed(&base, &other).contains("LI-042"));
    }

    /// Makes the flips that are not on record, or all flips if an input has changed.
    #[test]
    #[ignore = "half an hour with UPDATE_GOLDEN=1, nothing without it"]
    fn flips_go_on() {
        if std::env::var_os("UPDATE_GOLDEN").is_none() {
            return;
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/published/flips.json");
        let plan = FlipPlan::read().unwrap();
        let depends = plan.depends().unwrap();
        let recorded = std::fs::read_to_string(path).unwrap_or_default();
        let recorded = serde_json::from_str(&recorded).unwrap_or_default();
        let mut record = match recorded {
            Flips { depends: old, .. } if old != depends => Flips { depends, ..Flips::default() },
            same => same,
        };
        search(&plan, &mut record, |record| {
            println!("{} flips, {} refused", record.changed.len(), record.refused.len());
            let text = serde_json::to_string_pretty(record).unwrap();
            std::fs::write(path, text + "\n").unwrap();
        })
        .unwrap();
    }
}
