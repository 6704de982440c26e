//! Figures 1 and 2: latency of every request for 400 ms, at three interrupt rates.

use super::runs::{PROFILE_SEED, server};
use super::settings::register;
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use crate::paper::Paper;
use crate::planned::{self, Plan};
use wattline_policies::POLICIES;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_sim::requests::{RequestSetting, trace_requests};
use wattline_traffic::requests::Workload;
use wattline_units::Span;

/// Claims of the three values of the register ITR.
const ITR: [&str; 3] = ["CP-007", "CP-010", "CP-011"];
const DURATION: Span = Span::from_millis(400);
/// Number of points per panel.
const DRAWN: usize = 500;

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let plan = planned::made_for(Paper::Copi)?;
    let [low, _, high] = Workload::Memcached.published_loads();
    let (fig1, means) =
        figure(plan, inputs, "fig1", "Figure 1: latency of each request at 200 KRPS", low)?;
    let micros = |means: [f64; 3]| means.map(|mean| (mean * 1e7).round() / 10.0);
    let rises = means.windows(2).all(|pair| pair[1] >= 1.05 * pair[0]);
    let fig1 = with(fig1, plan.holds("fig1", rises, format!("{:?}", micros(means)))?);
    let (fig2, means) =
        figure(plan, inputs, "fig2", "Figure 2: latency of each request at 900 KRPS", high)?;
    let shape = means[0] >= 1.5 * means[1] && means[2] >= 1.05 * means[1];
    let fig2 = with(fig2, plan.holds("fig2", shape, format!("{:?}", micros(means)))?);
    Ok(vec![fig1, fig2])
}

fn with(figure: Figure, check: Check) -> Figure {
    Figure { checks: figure.checks.into_iter().chain([check]).collect(), ..figure }
}

fn figure(
    plan: &'static Plan,
    inputs: &Inputs,
    id: &'static str,
    title: &str,
    rate: f64,
) -> Result<(Figure, [f64; 3]), ReproduceError> {
    let server = server(inputs)?;
    let mut table =
        Table::new(["itr", "period_us", "requests", "mean_us", "p50_us", "p95_us", "p99_us"]);
    let mut plots = Vec::new();
    let mut means = [0.0; 3];
    let mut apart: f64 = 0.0;
    for (claim, mean) in ITR.into_iter().zip(&mut means) {
        let itr = register(claim);
        let period = itr / 4;
        let (report, trace) = trace_requests(&RequestSetting {
            server: &server,
            requests: inputs.requests(Workload::Memcached, rate)?,
            policy: POLICIES.parse(&format!("performance+{period}us"))?,
            duration: if inputs.brief { DURATION / 4 } else { DURATION },
            warmup: Span::from_millis(100),
            seed: PROFILE_SEED,
            cores: None,
        })?;
        *mean = report.latency_mean_seconds.unwrap_or(f64::INFINITY);
        let micros = |seconds: Option<f64>| seconds.unwrap_or(0.0) * 1e6;
        table.numbers([
            f64::from(itr),
            f64::from(period),
            trace.len() as f64,
            *mean * 1e6,
            micros(report.latency_p50_seconds),
            micros(report.latency_p95_seconds),
            micros(report.latency_p99_seconds),
        ]);
        let mut latencies: Vec<f64> =
            trace.iter().map(|(_, latency)| 1e-12 * *latency as f64).collect();
        latencies.sort_by(f64::total_cmp);
        let rank = (0.95 * latencies.len() as f64).ceil() as usize;
        let exact = latencies.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN);
        let reported = report.latency_p95_seconds.unwrap_or(f64::NAN);
        apart = apart.max((reported / exact - 1.0).abs());
        let each = (trace.len() / DRAWN).max(1);
        let points = trace
            .iter()
            .step_by(each)
            .map(|(at, latency)| (*at as f64 * 1e-9, *latency as f64 * 1e-9));
        let chart = Chart::new(
            format!("ITR {itr}: a period of {period} us"),
            Axis::new("time (ms)"),
            Axis::new("latency (ms)").from_zero(),
        );
        plots.push(chart.series("request", Mark::Points, points).svg());
    }
    let figure = Figure {
        id,
        title: title.into(),
        about: format!(
            "memcached at P0, every request of 400 ms is simulated; the plots show about {DRAWN} of \
             them each."
        ),
        table,
        plots,
        checks: vec![plan.check("reported-p95", &[apart])?],
    };
    Ok((figure, means))
}
