//! The comparison with the driver's default, repeated for other defaults. It answers no claim, but
//! explains the differences in Figures 6 to 9.

use super::runs::{LOADS, PROFILE_SEED, SLACK, profiled, server};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use wattline_policies::POLICIES;
use wattline_report::Table;
use wattline_sim::requests::{RequestSetting, sweep_requests};
use wattline_traffic::requests::Workload;
use wattline_units::Span;

/// Defaults to compare: the rule of the paper's driver, an older one, and each of the older rule's
/// three classes as a fixed setting.
const DEFAULTS: [&str; 5] = ["ixgbe", "ixgbe-classic", "10us", "50us", "84us"];
const DURATION: Span = Span::from_millis(4_000);

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let server = server(inputs)?;
    let cores = server.processor.cores() as f64;
    let mut table = Table::new([
        "workload",
        "load",
        "default",
        "target_p95_ms",
        "copi_state",
        "copi_period_us",
        "copi_p95_over_target",
        "copi_saves_percent",
    ]);
    for workload in Workload::ALL {
        let tables = profiled(inputs, workload)?;
        for (rate, name) in workload.published_loads().into_iter().zip(LOADS) {
            let settings = DEFAULTS.map(|default| -> Result<_, ReproduceError> {
                Ok(RequestSetting {
                    server: &server,
                    requests: inputs.requests(workload, rate)?,
                    policy: POLICIES.parse(&format!("performance+{default}"))?,
                    duration: DURATION,
                    warmup: Span::from_millis(100),
                    seed: PROFILE_SEED,
                    cores: Some(1),
                })
            });
            let settings = settings.into_iter().collect::<Result<Vec<_>, _>>()?;
            for (report, default) in sweep_requests(&settings)?.iter().zip(DEFAULTS) {
                let target = report.latency_p95_seconds.unwrap_or(f64::INFINITY);
                let choice = tables.choose(rate / cores, target * (1.0 + SLACK), 1.0, None);
                let cells = choice.map(|choice| {
                    let state = tables.frequencies().len() - 1 - choice.frequency;
                    let period = tables.periods()[choice.period].as_seconds() * 1e6;
                    let point = choice.point;
                    [
                        format!("P{state}"),
                        format!("{period:.0}"),
                        format!("{:.3}", point.latency_seconds / target),
                        format!("{:.1}", (1.0 - point.power_watts / report.power_watts) * 100.0),
                    ]
                });
                let [state, period, over, saves] = cells.unwrap_or_default();
                table.row([
                    workload.to_string(),
                    name.into(),
                    default.into(),
                    format!("{:.3}", target * 1e3),
                    state,
                    period,
                    over,
                    saves,
                ]);
            }
        }
    }
    Ok(vec![Figure {
        id: "defaults",
        title: "What Co-PI would save against other defaults of the driver".into(),
        about:
            "The target is P95 at P0 with the named moderation, plus 5 %; the point is looked up \
                in the full tables, no policy runs. The saving depends on the default more than on \
                anything that was fitted."
                .into(),
        table,
        plots: Vec::new(),
        checks: Vec::new(),
    }])
}
