//! Sets of unprinted parameters that Figures 3 and 4 allow, and the claims on Figures 6 to 10 over
//! these sets.

use super::compare::saving_ids;
use super::ranges::{Load, outcome, setting};
use super::runs::{Case, LOADS, cases_with, loads_missing, server};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::{Inputs, replace};
use crate::judged_sets::JudgedSets;
use crate::made::Memo;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use crate::runner::side_by_side;
use crate::sets::{self, Choice, Found, Judged, OverSets, Runs, SearchPlan, rounded};
use std::cell::RefCell;
use std::collections::BTreeMap;
use wattline_report::table::number;
use wattline_report::{Table, Verdict};
use wattline_server::RequestServer;
use wattline_sim::requests::run_requests;
use wattline_traffic::requests::{RequestSpec, Workload};
use wattline_units::Span;

/// Number of sets tried before the accepted ones among them are judged.
const AT_ONCE: usize = 100;

const FOUND: &str = include_str!("../../published/sets/copi.json");

/// P95 (ms) and power (W); `None` where the load is not sustained.
type Point = Option<(f64, f64)>;

/// The paper's server with one set of values.
struct Trial<'a> {
    search: &'a SearchPlan,
    runs: &'a Runs,
    checks: &'static Plan,
    server: RequestServer,
    requests: RequestSpec,
    /// Points by load, state and period.
    known: RefCell<BTreeMap<(u64, usize, usize), Point>>,
}

impl<'a> Trial<'a> {
    fn new(search: &'a SearchPlan, choice: Choice) -> Result<Self, ReproduceError> {
        let inputs = Inputs::chosen(choice);
        let no_runs = || ReproduceError::Model("Co-PI's plan has no runs".into());
        Ok(Self {
            search,
            runs: search.runs().ok_or_else(no_runs)?,
            checks: planned::made_for(Paper::Copi)?,
            server: server(&inputs)?,
            requests: inputs.requests(Workload::Memcached, 1.0)?,
            known: RefCell::default(),
        })
    }

    fn point(&self, rate: f64, state: usize, period: usize) -> Result<Point, ReproduceError> {
        let key = (rate as u64, state, period);
        if let Some(known) = self.known.borrow().get(&key) {
            return Ok(*known);
        }
        let frequencies = &self.server.processor.frequencies;
        let ghz = frequencies[frequencies.len() - 1 - state].gigahertz();
        let requests = RequestSpec { rate, ..self.requests };
        let mut setting = setting(&self.server, requests, ghz, self.runs.periods_us[period])?;
        setting.duration = Span::from_millis(self.runs.duration_ms);
        setting.warmup = Span::from_millis(self.runs.warmup_ms);
        setting.seed = self.runs.traffic_seed;
        let point = outcome(&run_requests(&setting)?);
        self.known.borrow_mut().insert(key, point);
        Ok(point)
    }

    /// Returns true if some period sustains the load, or fails to. The extremes are tried first.
    fn some(&self, rate: f64, state: usize, sustains: bool) -> Result<bool, ReproduceError> {
        let last = self.runs.periods_us.len() - 1;
        for period in [0, last].into_iter().chain(1..last) {
            if self.point(rate, state, period)?.is_some() == sustains {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a condition holds for every state. The states in `first`, which reject most
    /// sets, are tried first.
    fn every(
        &self,
        first: &[usize],
        holds: impl Fn(usize) -> Result<bool, ReproduceError>,
    ) -> Result<bool, ReproduceError> {
        let rest = (0..self.server.processor.frequencies.len()).rev();
        for state in first.iter().copied().chain(rest) {
            if !holds(state)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn load(&self, rate: f64) -> Result<Load, ReproduceError> {
        let periods = self.runs.periods_us.len();
        let state = |state| (0..periods).map(|period| self.point(rate, state, period)).collect();
        let states = 0..self.server.processor.frequencies.len();
        Ok(Load { rate, points: states.map(state).collect::<Result<_, _>>()? })
    }

    fn meets(&self, constraint: &str) -> Result<bool, ReproduceError> {
        let [low, medium, high] = Workload::Memcached.published_loads();
        let figures = match constraint {
            "fig3-high" => {
                return self
                    .every(&[1, 0], |state| Ok(self.some(high, state, false)? == (state > 0)));
            }
            "fig3-medium-some" => {
                return self.every(&[5, 7, 4, 8], |state| {
                    let fails = self.some(medium, state, false)?;
                    let both = fails && self.some(medium, state, true)?;
                    Ok(both == (5..=7).contains(&state))
                });
            }
            "fig3-medium-all" => {
                return self
                    .every(&[8], |state| Ok(self.some(medium, state, true)? == (state < 8)));
            }
            "fig3-p4-least" => {
                self.load(medium)?.p95(4).map_or(vec![f64::INFINITY], |(least, _)| vec![least])
            }
            "fig3-low" => self.load(low)?.spread().to_vec(),
            "fig4-low" => vec![self.load(low)?.period_over_state()],
            _ => {
                return Err(ReproduceError::Model(format!(
                    "crates/reproduce/published/sets/copi.toml: {constraint} constrains no search"
                )));
            }
        };
        Ok(self.checks.check(constraint, &figures)?.verdict == Verdict::Meets)
    }

    /// Returns the first constraint that fails.
    fn first_failed(&self) -> Result<Option<&'a str>, ReproduceError> {
        for constraint in self.search.constraints() {
            if !self.meets(constraint)? {
                return Ok(Some(constraint));
            }
        }
        Ok(None)
    }
}

/// Continues a search: tries the shipped values, then all sets of the plan, and judges those that
/// are accepted. Calls `kept` whenever there is something to keep.
fn search(
    plan: &'static SearchPlan,
    found: &mut Found,
    mut kept: impl FnMut(&Found),
) -> Result<(), ReproduceError> {
    let sets: Vec<Vec<f64>> = std::iter::once(shipped(plan)?).chain(plan.draw()).collect();
    judge(plan, found, &mut kept)?;
    for some in sets.get(found.tried..).unwrap_or_default().chunks(AT_ONCE) {
        let one = |set: &Vec<f64>| Trial::new(plan, plan.choice(set))?.first_failed();
        for (set, failed) in some.iter().zip(side_by_side(some, one)?) {
            match failed {
                Some(constraint) => *found.rejected.entry(constraint.to_owned()).or_default() += 1,
                None => found.accepted.push(set.clone()),
            }
        }
        found.tried += some.len();
        kept(found);
        judge(plan, found, &mut kept)?;
    }
    Ok(())
}

fn shipped(plan: &'static SearchPlan) -> Result<Vec<f64>, ReproduceError> {
    let mut server = server(&Inputs::default())?;
    plan.names().map(|name| Ok(rounded(replace(&mut server, name, None)?))).collect()
}

/// Simulates Figures 6 to 10 with the accepted sets that the plan judges.
fn judge(
    plan: &'static SearchPlan,
    found: &mut Found,
    mut done: impl FnMut(&Found),
) -> Result<(), ReproduceError> {
    for set in 0..found.accepted.len().min(plan.judged.sets) {
        for connections in plan.judged.connections.iter().copied() {
            let same = |one: &Judged| (one.set, one.connections) == (set, connections);
            if found.judged.iter().any(same) {
                continue;
            }
            let inputs = Inputs::chosen(plan.choice(&found.accepted[set]));
            let mut figures = BTreeMap::new();
            for workload in Workload::ALL {
                for (check, ours) in judged(workload, &cases_with(&inputs, workload, connections)?)?
                {
                    if ours.iter().all(|one| one.is_finite()) {
                        figures.insert(check, ours.into_iter().map(rounded).collect());
                    }
                }
            }
            found.judged.push(Judged { set, connections, figures });
            done(found);
        }
    }
    Ok(())
}

/// Returns savings, latencies and states of a workload by check.
fn judged(workload: Workload, cases: &[Case]) -> Result<Vec<(String, Vec<f64>)>, ReproduceError> {
    let mut all = Vec::new();
    for (case, load) in cases.iter().zip(LOADS) {
        for (against, id) in saving_ids(workload, load).into_iter().enumerate() {
            all.push((id, vec![case.saving(against)]));
        }
    }
    let over = |case: &Case| case.p95(2) / case.p95(0);
    let [low, medium, high, ..] = cases else {
        return Err(loads_missing());
    };
    let rest = match workload {
        Workload::Memcached => vec![
            ("fig6-memcached-high", vec![100.0 * (over(high) - 1.0)]),
            ("fig6-memcached-same", vec![over(low), over(medium)]),
            ("fig8-ondemand-p0", vec![high.share(1, 0)]),
            ("fig8-copi-p2", vec![high.share(2, 2)]),
            ("fig8-low-copi", vec![low.state(2)]),
            ("fig8-low-ondemand", vec![low.state(1)]),
        ],
        Workload::Nginx => vec![
            ("fig6-nginx-same", vec![over(low), over(medium), over(high)]),
            ("fig10-ondemand", vec![low.state(1)]),
            ("fig10-copi", vec![low.state(2)]),
        ],
    };
    all.extend(rest.into_iter().map(|(id, ours)| (id.to_owned(), ours)));
    Ok(all)
}

/// Returns the recorded result, or that of a new search.
fn found(fresh: bool) -> Result<Found, ReproduceError> {
    static MADE: Memo<bool, Found> = Memo::new();
    MADE.get_or_make(fresh, || {
        let plan = sets::copi()?;
        if !fresh {
            return plan.cached(FOUND);
        }
        let mut found = plan.empty();
        search(plan, &mut found, |_| ())?;
        Ok(found)
    })
}

/// Returns the judged sets.
pub(crate) fn judged_sets(fresh: bool) -> Result<JudgedSets, ReproduceError> {
    Ok(JudgedSets { paper: Paper::Copi, plan: sets::copi()?, found: found(fresh)? })
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let checks = planned::made_for(Paper::Copi)?;
    let sets = judged_sets(inputs.fresh)?;
    let JudgedSets { plan, found, .. } = &sets;
    let mut table = Table::new([
        "check",
        "claim",
        "published",
        "equal_load",
        "unequal_load",
        "runs_that_hold",
        "over_accepted_sets",
    ]);
    let text = |over: Option<OverSets>| {
        over.map_or_else(String::new, |over| {
            format!("{} to {}", number(over.low), number(over.high))
        })
    };
    for check in sets.checks() {
        let connections = &plan.judged.connections;
        let [equal, unequal] = [0, 1]
            .map(|place| connections.get(place).map_or(Ok(None), |one| sets.over(check, &[*one])));
        let both = sets.over(check, connections)?;
        table.row([
            check.to_owned(),
            checks.claims_of(check)?.join(" "),
            checks.published(check).map_or_else(String::new, number),
            text(equal?),
            text(unequal?),
            both.map_or_else(String::new, |both| format!("{} of {}", both.held, both.judged)),
            both.map_or("", |both| both.verdict.text()).to_owned(),
        ]);
    }
    let rejected = found.rejected.iter().map(|(check, sets)| format!("{check} {sets}"));
    let judged = found.judged.iter().map(|one| one.set + 1).max().unwrap_or(0);
    Ok(vec![Figure {
        id: "sets",
        title: "Claims over all sets of unprinted parameters that Figures 3 and 4 allow".into(),
        about: format!(
            "{} of {} sets tried, {} accepted, {judged} judged, each with equal load and with unequal \
             connections. Rejected by the first constraint that failed: {}. Accepted values: {}. The \
             plan, crates/reproduce/published/sets/copi.toml, was written before the search; no \
             claim of this table constrains it.",
            found.tried,
            plan.draw().len() + 1,
            found.accepted.len(),
            rejected.collect::<Vec<_>>().join(", "),
            plan.accepted(found),
        ),
        table,
        plots: Vec::new(),
        checks: Vec::new(),
    }])
}

#[cfg(test)]
mod tests {
    use super::super::runs::SEEDS;
    use super::*;

    const OTHER: [f64; 4] = [1.0, 850.0, 3_050.0, 7_300.0];

    #[test]
    fn set_is_rejected_by_the_first_constraint_that_it_breaks() {
        let plan = sets::copi().unwrap();
        let failed = |change: &dyn Fn(&mut [f64; 4])| {
            let mut set = OTHER;
            change(&mut set);
            Trial::new(plan, plan.choice(&set)).unwrap().first_failed().unwrap()
        };
        assert_eq!(failed(&|set| set[2] = 7_000.0), Some("fig3-high"));
        assert_eq!(failed(&|set| set[3] = 6_300.0), Some("fig3-high"));
        assert_eq!(failed(&|set| set[1] = 0.0), Some("fig3-p4-least"));
    }

    #[test]
    fn cached_sets_belong_to_the_plan() {
        let (plan, found) = (sets::copi().unwrap(), found(false).unwrap());
        assert!(found.tried <= plan.draw().len() + 1);
        assert_eq!(found.rejected.values().sum::<usize>() + found.accepted.len(), found.tried);
        let judged = found.accepted.len().min(plan.judged.sets) * plan.judged.connections.len();
        assert!(found.judged.len() <= judged);
    }

    #[test]
    fn unequal_load_leaves_every_core_within_p0_and_that_of_few_connections_does_not() {
        let server = server(&Inputs::default()).unwrap();
        let kernel = &server.kernel;
        let cycles = kernel.segment_cycles + kernel.completion_cycles;
        let capacity = 1.8e9 / (cycles + server.services["memcached"].cycles);
        let [.., high] = Workload::Memcached.published_loads();
        let entries = server.nic.redirect_table_entries;
        // The largest share of load of a core, on any seed.
        let most = |connections: u32| {
            let requests = Inputs::default().requests(Workload::Memcached, 1.0).unwrap();
            let requests = RequestSpec { connections, ..requests };
            let shares = SEEDS.map(|seed| requests.shares(8, entries, seed));
            shares.into_iter().flatten().fold(0.0, f64::max) * high
        };
        let planned = sets::copi().unwrap().judged.connections.iter().copied().max().unwrap();
        assert!(most(planned) < capacity && most(64) > capacity);
    }

    /// Returns the page's tables of the rejected sets and of the savings over the judged ones.
    fn tables(sets: &JudgedSets) -> String {
        let JudgedSets { plan, found, .. } = sets;
        let judged = found.judged.iter().map(|one| one.set + 1).max().unwrap_or(0);
        let mut text = format!(
            "It has tried {} of {}, accepted {} and judged {judged}.\n\n\
             |first constraint that failed|sets|\n|---|--:|\n",
            found.tried,
            plan.draw().len() + 1,
            found.accepted.len()
        );
        for (constraint, sets) in &found.rejected {
            text.push_str(&format!("|`{constraint}`|{sets}|\n"));
        }
        text.push_str("\n|saving, %|printed|accepted sets|runs|\n|---|--:|---|---|\n");
        for workload in Workload::ALL {
            for (against, name) in ["performance", "ondemand"].into_iter().enumerate() {
                for load in LOADS {
                    let id = &saving_ids(workload, load)[against];
                    let connections = &plan.judged.connections;
                    let Some(over) = sets.over(id, connections).unwrap() else { continue };
                    let printed = planned::made_for(Paper::Copi).unwrap().published(id).unwrap();
                    text.push_str(&format!(
                        "|{workload} over {name}, {load}|{printed:.1}|{:.1} to {:.1}|{}, {} of {}|\n",
                        over.low,
                        over.high,
                        over.verdict.text(),
                        over.held,
                        over.judged
                    ));
                }
            }
        }
        text
    }

    #[test]
    fn page_has_the_ranges_of_the_record() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explanation/copi.md");
        let (begin, end) = (
            "<!-- ranges: written by UPDATE_GOLDEN=1 cargo test -p wattline-reproduce -->\n",
            "<!-- end of ranges -->",
        );
        let page = std::fs::read_to_string(file).unwrap();
        let (before, rest) = page.split_once(begin).unwrap();
        let (now, after) = rest.split_once(end).unwrap();
        let text = tables(&judged_sets(false).unwrap());
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(file, format!("{before}{begin}{text}{end}{after}")).unwrap();
        } else {
            assert_eq!(now, text, "UPDATE_GOLDEN=1 writes {file}");
        }
    }

    #[test]
    fn recorded_search_is_repeated() {
        let (plan, found) = (sets::copi().unwrap(), found(false).unwrap());
        let passes = |set: &Vec<f64>| {
            let trial = Trial::new(plan, plan.choice(set)).unwrap();
            trial.first_failed().unwrap().is_none()
        };
        for set in std::iter::once(shipped(plan).unwrap()).chain(plan.draw()).take(10) {
            assert_eq!(passes(&set), found.accepted.contains(&set), "{set:?}");
        }
        assert!(found.accepted.iter().take(2).all(passes));
    }

    /// Continues the search of the record, or begins that of a changed plan.
    #[test]
    #[ignore = "an hour with UPDATE_GOLDEN=1, nothing without it"]
    fn search_goes_on() {
        if std::env::var_os("UPDATE_GOLDEN").is_none() {
            return;
        }
        let plan = sets::copi().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/published/sets/copi.json");
        let recorded = std::fs::read_to_string(path).unwrap_or_default();
        let mut found = plan.cached(&recorded).unwrap_or_else(|_| plan.empty());
        let save = |found: &Found| {
            println!("{} tried, {} accepted", found.tried, found.accepted.len());
            let text = serde_json::to_string(found).unwrap().replace("},{", "},\n{");
            std::fs::write(path, text + "\n").unwrap();
        };
        search(plan, &mut found, save).unwrap();
    }
}
