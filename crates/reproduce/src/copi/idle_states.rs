//! The deepest allowed idle state as a third dimension of the tables, besides V/F state and period.
//! The paper leaves this to future work, so the figure answers no claim.

use super::runs::{Case, LOADS, SLACK, cases, limited, server, under_policy};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::inputs::Inputs;
use std::sync::Arc;
use wattline_report::Table;
use wattline_server::tables::{Choice, ProfileTables};
use wattline_traffic::requests::Workload;

/// Name of an idle-state limit, with its tables.
type Limited = (String, Arc<ProfileTables>);

/// A choice with the name of its limit.
struct Chosen<'a> {
    limit: &'a str,
    choice: Choice,
}

/// Returns the point of least power within the target of the last tables, which have no limit.
fn choose(all: &[Limited], load: f64) -> Option<Chosen<'_>> {
    let target = all.last()?.1.target(load)? * (1.0 + SLACK);
    let chosen = all.iter().filter_map(|(limit, tables)| {
        Some(Chosen { limit, choice: tables.choose(load, target, 1.0, None)? })
    });
    chosen.min_by(|a, b| a.choice.point.power_watts.total_cmp(&b.choice.point.power_watts))
}

pub(super) fn figures(inputs: &Inputs) -> Result<Vec<Figure>, ReproduceError> {
    let mut table = Table::new([
        "workload",
        "load",
        "dimensions",
        "state",
        "period_us",
        "deepest_idle_state",
        "saves_by_tables_percent",
        "saves_over_performance_percent",
        "p95_over_performance",
    ]);
    for workload in Workload::ALL {
        let all = limited(inputs, workload)?;
        for (case, load) in cases(inputs, workload)?.iter().zip(LOADS) {
            for (dimensions, tables) in [("two", &all[all.len() - 1..]), ("three", &all[..])] {
                if let Some(row) = row(inputs, workload, (case, load), dimensions, tables)? {
                    table.row(row);
                }
            }
        }
    }
    Ok(vec![Figure {
        id: "idle-states",
        title: "The idle state as third dimension of Co-PI's tables".into(),
        about: format!(
            "Two dimensions: V/F state and period, with every idle state allowed. Three: the deepest \
             allowed idle state as well, from tables for each. The point of least power within the \
             tables' target plus {:.0} % is looked up, then held on all cores for three seeds that \
             the tables do not have; no policy runs.",
            100.0 * SLACK
        ),
        table,
        plots: Vec::new(),
        checks: Vec::new(),
    }])
}

fn row(
    inputs: &Inputs,
    workload: Workload,
    (case, load): (&Case, &str),
    dimensions: &str,
    tables: &[Limited],
) -> Result<Option<[String; 9]>, ReproduceError> {
    let unlimited = tables.last().map(|(_, tables)| tables);
    let of_core = case.rate / server(inputs)?.processor.cores() as f64;
    let found = unlimited
        .zip(choose(tables, of_core))
        .and_then(|(unlimited, chosen)| Some((unlimited, chosen, unlimited.default_at(of_core)?)));
    let Some((unlimited, Chosen { limit, choice }, default)) = found else { return Ok(None) };
    let frequency = unlimited.frequencies()[choice.frequency].gigahertz();
    let micros = unlimited.periods()[choice.period].as_seconds() * 1e6;
    let nanos = unlimited.periods()[choice.period].as_picos() as f64 / 1e3;
    let policy = format!("napi:frequency_ghz={frequency},idle={limit},moderation={nanos}ns");
    let reports = under_policy(inputs, workload, &policy, case.rate)?;
    let held = Case { reports: vec![reports], ..case.clone() };
    Ok(Some([
        workload.to_string(),
        load.into(),
        dimensions.into(),
        format!("P{}", unlimited.frequencies().len() - 1 - choice.frequency),
        format!("{micros:.0}"),
        limit.to_owned(),
        format!("{:.1}", (1.0 - choice.point.power_watts / default.power_watts) * 100.0),
        format!("{:.1}", (1.0 - held.watts(0) / case.watts(0)) * 100.0),
        format!("{:.2}", held.p95(0) / case.p95(0)),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_server::tables::{Conditions, Fingerprint, ProfilePoint};
    use wattline_units::Span;

    fn limited(name: &str, default_ms: f64, latency_ms: f64, watts: f64) -> Limited {
        let machine = Fingerprint {
            cores: 1,
            frequencies_ghz: vec![1.0],
            moderation_us: [10.0, 10.0],
            hardware: Vec::new(),
        };
        let conditions = Conditions {
            version: 1,
            server: String::new(),
            workload: String::new(),
            source: "modelled".into(),
            percentile: 95.0,
            machine,
            arrivals_per_request: Vec::new(),
            energy: None,
        };
        let periods = vec![Span::from_micros(10)];
        let mut tables = ProfileTables::new(conditions, vec![1_000.0], periods).unwrap();
        let point = |ms: f64, power_watts| ProfilePoint { latency_seconds: ms * 1e-3, power_watts };
        tables.set_default(0, point(default_ms, 30.0));
        tables.set(0, 0, 0, point(latency_ms, watts));
        (name.into(), Arc::new(tables))
    }

    #[test]
    fn cheapest_limit_within_the_target_of_the_unlimited_tables_is_chosen() {
        let of = |all: &[Limited]| choose(all, 1_000.0).map(|chosen| chosen.limit.to_owned());
        let deep = limited("C6", 1.0, 1.0, 20.0);
        assert_eq!(of(&[limited("C1", 1.0, 0.5, 25.0), deep.clone()]), Some("C6".into()));
        assert_eq!(of(&[limited("C1", 1.0, 0.5, 19.0), deep.clone()]), Some("C1".into()));
        // The default of these tables is slower, but the target is unchanged.
        assert_eq!(of(&[limited("C1", 9.0, 2.0, 19.0), deep]), Some("C6".into()));
        assert_eq!(of(&[limited("C1", 1.0, 2.0, 19.0)]), None);
    }
}
