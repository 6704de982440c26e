//! Figures 6 and 7: P95 and energy of performance, ondemand and Co-PI.

use super::runs::{Case, LOADS, POLICIES, cases, loads_missing};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use crate::printed::printed_at;
use wattline_report::plot::{Axis, Bars};
use wattline_report::{Check, Table};
use wattline_traffic::requests::Workload;

const ABOUT: &str = "Three seeds that nothing was fitted on, 2 s each after 350 ms. Performance and \
                     ondemand run with the driver's adaptive rule; Co-PI with full tables of a \
                     profile of other loads and another seed, its target that of the tables plus \
                     5 %. Energy is that of the package, modelled. The loads called ours are not the paper's.";

/// Returns the energy of ondemand relative to performance, derived from the paper's savings, for
/// memcached and nginx at three loads.
fn printed_ratios() -> [[f64; 3]; 2] {
    [0, 3].map(|from| [0, 1, 2].map(|load| printed_at("CP-073", from + load)))
}

const TAIL_OF_ONDEMAND: &str = "the tail of ondemand depends on how arrivals are bunched over its \
                                period of 10 ms, which is not printed";
const WHY_NOT_SO_MUCH: &str = "savings depend on how requests are bunched and on the time outside of \
                               the server, which are not printed; other values bring the savings at \
                               low and medium load (docs/explanation/copi.md)";
const WHY_NOT_RATIOS: &str = "at the highest load ondemand stays at P0 longer than printed: how often \
                              it goes there depends on the bunching over 10 ms, which is not printed";

struct Both {
    memcached: Vec<Case>,
    nginx: Vec<Case>,
}

impl Both {
    fn each(&self) -> [(Workload, &[Case]); 2] {
        [(Workload::Memcached, &self.memcached), (Workload::Nginx, &self.nginx)]
    }
    /// Returns the cases of both workloads at the paper's loads.
    fn published(&self) -> impl Iterator<Item = &Case> {
        self.memcached.iter().chain(&self.nginx).filter(|case| case.load.is_some())
    }
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Copi)?;
    let both = Both {
        memcached: cases(inputs, Workload::Memcached)?,
        nginx: cases(inputs, Workload::Nginx)?,
    };
    Ok(vec![latency(plan, &both)?, energy(plan, &both)?])
}

fn below(case: &Case, against: usize) -> f64 {
    (1.0 - case.p95(2) / case.p95(against)) * 100.0
}

fn latency(plan: &'static Plan, both: &Both) -> Result<Figure, ReproduceError> {
    let longest = both.published().filter(|case| {
        let p95 = [0, 1, 2].map(|policy| case.p95(policy));
        p95[1] > p95[0] && p95[1] > p95[2]
    });
    let over = |case: &Case| case.p95(2) / case.p95(0);
    let [low, medium, high, ..] = both.memcached.as_slice() else { return Err(loads_missing()) };
    let nginx: Vec<f64> = both.nginx.iter().take(LOADS.len()).map(over).collect();
    let best = |cases: &[Case]| {
        cases.iter().take(LOADS.len()).map(|case| below(case, 1)).fold(f64::MIN, f64::max)
    };
    let checks: Vec<Check> = vec![
        plan.check("fig6-ondemand", &[longest.count() as f64])?,
        plan.check("fig6-memcached-high", &[-below(high, 0)])?.note(
            "Co-PI takes the cheapest point that is as fast as the target, so it is faster only \
             where no cheaper one comes near; the paper's gain needs a P2 far below P0's default",
        ),
        plan.check("fig6-memcached-same", &[over(low), over(medium)])?,
        plan.check("fig6-nginx-same", &nginx)?,
        plan.check("best-tail", &[best(&both.memcached)])?.note(TAIL_OF_ONDEMAND),
        plan.check("nginx-tail", &[best(&both.nginx)])?.note(TAIL_OF_ONDEMAND),
    ];
    let plots = both.each().map(|(workload, cases)| {
        let title = format!("Figure 6: P95, {workload}");
        let millis = |case: &Case, policy| case.p95(policy) * 1e3;
        bars(&title, "P95 (ms)", cases, millis, |_, _| None)
    });
    Ok(Figure {
        id: "fig6",
        title: "Figure 6: 95th percentile of the latency".into(),
        about: ABOUT.into(),
        table: table(both),
        plots: plots.to_vec(),
        checks,
    })
}

/// Returns the ids of the checks of a saving, against `performance` and against `ondemand`.
pub(super) fn saving_ids(workload: Workload, load: &str) -> [String; 2] {
    ["", "-ondemand"].map(|against| format!("fig7-{workload}-{load}{against}"))
}

fn energy(plan: &'static Plan, both: &Both) -> Result<Figure, ReproduceError> {
    let mut checks: Vec<Check> = Vec::new();
    for (workload, cases) in both.each() {
        for (case, load) in cases.iter().zip(LOADS) {
            for (against, id) in saving_ids(workload, load).iter().enumerate() {
                checks.push(plan.check(id, &[case.saving(against)])?.note(copi_point(case)));
            }
        }
    }
    let most = both.published().map(|case| case.saving(0)).fold(f64::MIN, f64::max);
    checks.push(plan.check("fig7-maxima", &[most])?.note(WHY_NOT_SO_MUCH));
    let ratios = both.each().map(|(_, cases)| {
        let ratio = |case: &Case| case.watts(1) / case.watts(0);
        cases.iter().take(LOADS.len()).map(ratio).collect::<Vec<f64>>()
    });
    let holds = ratios.iter().zip(printed_ratios()).all(|(ours, theirs)| {
        let near = ours.iter().zip(theirs).all(|(a, b)| (a / b - 1.0).abs() <= 0.05);
        near && ours.windows(2).all(|pair| pair[0] < pair[1])
    });
    let shown = ratios.map(|ratios| {
        ratios.iter().map(|ratio| format!("{ratio:.3}")).collect::<Vec<_>>().join(", ")
    });
    checks.push(
        plan.holds("fig7-ondemand", holds, format!("memcached {}; nginx {}", shown[0], shown[1]))?
            .note(WHY_NOT_RATIOS),
    );
    let in_order = both
        .published()
        .filter(|case| case.watts(2) < case.watts(1) && case.watts(1) < case.watts(0));
    checks.push(plan.check("fig7-order", &[in_order.count() as f64])?);
    let plots = both.each().map(|(workload, cases)| {
        let title = format!("Figure 7: energy over performance, {workload}");
        let ratio = |case: &Case, policy| case.watts(policy) / case.watts(0);
        let published = |load: &str, policy| {
            let [against_performance, _] = saving_ids(workload, load);
            let at = LOADS.iter().position(|name| *name == load)?;
            match policy {
                1 => Some(printed_ratios()[usize::from(workload == Workload::Nginx)][at]),
                2 => Some(1.0 - plan.published(&against_performance)? / 100.0),
                _ => None,
            }
        };
        bars(&title, "energy over performance", cases, ratio, published)
    });
    Ok(Figure {
        id: "fig7",
        title: "Figure 7: energy of the package".into(),
        about: format!("{ABOUT} Crosses follow from the savings that the paper prints."),
        table: table(both),
        plots: plots.to_vec(),
        checks,
    })
}

/// Describes Co-PI's operating point, so that a difference in the saving can be understood.
fn copi_point(case: &Case) -> String {
    format!(
        "Co-PI at P{:.1} and {:.0} us on average, P95 {:.0} % of performance's",
        case.state(2),
        case.period(2) * 1e6,
        case.p95(2) / case.p95(0) * 100.0
    )
}

fn table(both: &Both) -> Table {
    let mut table = Table::new([
        "workload",
        "rate_krps",
        "load",
        "policy",
        "p95_ms",
        "power_watts",
        "mean_state",
        "mean_period_us",
        "copi_saves_percent",
    ]);
    for (workload, cases) in both.each() {
        for case in cases {
            for (index, policy) in POLICIES.into_iter().enumerate() {
                table.row([
                    workload.to_string(),
                    (case.rate / 1e3).to_string(),
                    case.load.unwrap_or("").into(),
                    policy.into(),
                    format!("{:.4}", case.p95(index) * 1e3),
                    format!("{:.3}", case.watts(index)),
                    format!("{:.2}", case.state(index)),
                    format!("{:.1}", case.period(index) * 1e6),
                    format!("{:.2}", case.saving(index)),
                ]);
            }
        }
    }
    table
}

/// Plots bars by ascending load; `published` is the paper's value for a policy and one of its
/// loads.
fn bars(
    title: &str,
    label: &str,
    cases: &[Case],
    of: impl Fn(&Case, usize) -> f64,
    published: impl Fn(&str, usize) -> Option<f64>,
) -> String {
    let mut cases: Vec<&Case> = cases.iter().collect();
    cases.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let group = |case: &&Case| format!("{:.0} ({})", case.rate / 1e3, case.load.unwrap_or("ours"));
    let bars = Bars::new(title, "load (KRPS)", Axis::new(label), cases.iter().map(group));
    let add = |bars: Bars, (index, policy): (usize, &str)| {
        bars.series(policy, cases.iter().map(|case| of(case, index)))
            .published_values(cases.iter().map(|case| published(case.load?, index)))
    };
    POLICIES.into_iter().enumerate().fold(bars, add).svg()
}
