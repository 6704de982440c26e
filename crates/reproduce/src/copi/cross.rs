//! Watts fitted on the savings of one server and judged by those of the other, in both directions.
//! The paper prints only ratios, so one level is free: the watts that do not depend on the cores'
//! states.

use super::compare::saving_ids;
use super::runs::{Case, LOADS, cases};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned;
use wattline_report::Table;
use wattline_traffic::requests::Workload;

/// A printed saving in per cent, with the watts of both policies.
#[derive(Debug, Clone, Copy)]
struct Saving {
    printed: f64,
    own: f64,
    against: f64,
}

impl Saving {
    /// Returns the saving in per cent if both draw `more` watts more.
    fn with(&self, more: f64) -> f64 {
        100.0 * (1.0 - (self.own + more) / (self.against + more))
    }
}

/// Returns the root of the mean square error in percentage points.
fn error(savings: &[Saving], more: f64) -> f64 {
    let squares = savings.iter().map(|saving| (saving.with(more) - saving.printed).powi(2));
    (squares.sum::<f64>() / savings.len() as f64).sqrt()
}

/// Returns the constant watts of the package that fit the printed savings best.
fn fit(savings: &[Saving], shipped: f64) -> f64 {
    let steps = (0..=1_000).map(|tenths| f64::from(tenths) / 10.0);
    let nearest =
        steps.min_by(|a, b| error(savings, a - shipped).total_cmp(&error(savings, b - shipped)));
    nearest.unwrap_or(shipped)
}

fn savings(workload: Workload, cases: &[Case]) -> Result<Vec<(String, Saving)>, ReproduceError> {
    let plan = planned::made_for(Paper::Copi)?;
    let each = cases.iter().zip(LOADS).flat_map(|(case, load)| {
        let ids = saving_ids(workload, load).into_iter().enumerate();
        ids.map(move |(against, id)| {
            let printed = plan.published(&id).unwrap_or(f64::NAN);
            let saving = Saving { printed, own: case.watts(2), against: case.watts(against) };
            (id, saving)
        })
    });
    Ok(each.collect())
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let shipped = super::runs::server(inputs)?.power.package.0;
    let [memcached, nginx] = [Workload::Memcached, Workload::Nginx]
        .map(|workload| savings(workload, &cases(inputs, workload)?));
    let servers = [("memcached", memcached?), ("nginx", nginx?)];
    let mut table = Table::new([
        "fitted_on",
        "package_watts",
        "judged",
        "saving",
        "printed_percent",
        "predicted_percent",
        "error_points",
    ]);
    let mut words = Vec::new();
    for (from, (fitted, own)) in servers.iter().enumerate() {
        let own: Vec<Saving> = own.iter().map(|(_, saving)| *saving).collect();
        let watts = fit(&own, shipped);
        let (judged, other) = &servers[1 - from];
        let others: Vec<Saving> = other.iter().map(|(_, saving)| *saving).collect();
        for (id, saving) in other {
            let predicted = saving.with(watts - shipped);
            table.row([
                (*fitted).to_owned(),
                format!("{watts:.1}"),
                (*judged).to_owned(),
                id.clone(),
                format!("{:.1}", saving.printed),
                format!("{predicted:.1}"),
                format!("{:+.1}", predicted - saving.printed),
            ]);
        }
        words.push(format!(
            "fitted on {fitted}, {watts:.1} W: {:.1} points off {fitted}'s savings, {:.1} off \
             {judged}'s ({:.1} with the shipped {shipped} W)",
            error(&own, watts - shipped),
            error(&others, watts - shipped),
            error(&others, 0.0)
        ));
    }
    Ok(vec![Figure {
        id: "cross",
        title: "Watts fitted on one server, judged by the other".into(),
        about: format!(
            "The watts of the package that no state changes are fitted to the six printed savings of \
             one server and judged by those of the other; they change no choice of an operating \
             point. Root mean square errors: {}. This answers no claim.",
            words.join("; ")
        ),
        table,
        plots: Vec::new(),
        checks: Vec::new(),
    }])
}

#[cfg(test)]
mod tests {
    use super::super::ranges;
    use super::super::runs::{SEEDS, server};
    use super::*;
    use wattline_policies::POLICIES;
    use wattline_report::Verdict;
    use wattline_server::RequestServer;
    use wattline_sim::requests::{RequestSetting, run_requests};
    use wattline_units::{Span, Watts};

    #[test]
    fn fit_returns_the_watts_that_made_the_savings() {
        let made = |own: f64, against: f64| {
            let saving = Saving { printed: 0.0, own, against };
            Saving { printed: saving.with(5.5 - 16.0), ..saving }
        };
        let savings = [made(30.0, 40.0), made(38.0, 50.0), made(35.0, 36.0)];
        assert!((fit(&savings, 16.0) - 5.5).abs() < 1e-9);
        assert!(error(&savings, 0.0) > 1.0);
    }

    /// Returns the package's watts at nginx' medium load under a policy, simulated on one core.
    fn watts(server: &RequestServer, policy: &str) -> Option<f64> {
        let [_, medium, _] = Workload::Nginx.published_loads();
        let report = run_requests(&RequestSetting {
            server,
            requests: Inputs::default().requests(Workload::Nginx, medium).unwrap(),
            policy: POLICIES.parse(policy).unwrap(),
            duration: Span::from_millis(1_000),
            warmup: Span::from_millis(100),
            seed: SEEDS[0],
            cores: Some(1),
        });
        let report = report.unwrap();
        report.sustained.then_some(report.power_watts)
    }

    #[test]
    fn printed_saving_of_nginx_needs_a_package_that_contradicts_figure_4() {
        const PACKAGE: f64 = 5.5;
        let server = server(&Inputs::default()).unwrap();
        let fastest = watts(&server, "performance+ixgbe").unwrap();
        // The cheapest point, regardless of its latency.
        let points = (8..=18).flat_map(|tenths| [56, 206, 356, 606, 1_006].map(|us| (tenths, us)));
        let least = points
            .filter_map(|(tenths, us)| {
                let ghz = f64::from(tenths) / 10.0;
                watts(&server, &format!("napi:frequency_ghz={ghz},idle=deepest,moderation={us}us"))
            })
            .fold(f64::INFINITY, f64::min);
        let saving = |less: f64| 100.0 * (1.0 - (least - less) / (fastest - less));
        let printed = crate::printed::printed("CP-065");
        let needed = saving(server.power.package.0 - PACKAGE);
        println!("{:.1} % as it is, {needed:.1} % with {PACKAGE} W", saving(0.0));
        assert!(saving(0.0) < printed - 8.0 && (needed - printed).abs() < 1.0);
        let mut server = server;
        server.power.package = Watts(PACKAGE);
        let mut figures = ranges::figures_for(&Inputs::default(), &server).unwrap();
        let checks = figures.pop().unwrap().checks;
        println!("{}: {}", checks[0].quantity, checks[0].ours);
        assert_eq!(checks[0].verdict, Verdict::Differs);
    }
}
