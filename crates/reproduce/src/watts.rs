//! Published watts of servers and routers, to which no model here was fitted.
//!
//! The data are not part of the project. A directory has `specpower-*.csv`, `specpower-curves.csv`
//! and `netpowerbench/DEVICE/power_data.yml`; missing files are skipped.

use crate::curves::{Curve, LEVELS, shape};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::worth::worth;
use std::path::{Path, PathBuf};
use wattline_report::Table;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_server::{Application, ServerFile, ServerModel};
use wattline_study::fit::CONFIDENCE;
use wattline_study::fit::routers::SnakeTest;
use wattline_study::fit::spec::{Load, SpecError, SpecFit, SpecResult, SpecResults, two_of_three};
use wattline_units::PacketsPerSecond;

/// First year of the results predicted from earlier ones.
const LATER: f64 = 2019.0;
/// Shipped model whose shape is compared with measured curves.
const SHAPE: &str = "westmere-2010";
/// Limit on the contradictory rows that are named.
const MOST_NAMED: usize = 10;
/// Makes the figures about published watts in a directory.
///
/// # Errors
/// A directory without such data, or a file that cannot be read.
pub fn published_watts(data: &Path) -> Result<Vec<Figure>, ReproduceError> {
    let mut figures = Vec::new();
    let path = data.join("specpower-curves.csv");
    let curves = if path.exists() { Curve::load_all(&path)? } else { Vec::new() };
    for path in spec_files(data)? {
        let results = SpecResults::load(&path.to_string_lossy())?;
        figures.push(servers(&results)?);
        figures.push(worth(&results.rows, &curves));
    }
    if !curves.is_empty() {
        figures.push(shapes(&curves)?);
    }
    let routers_at = data.join("netpowerbench");
    if routers_at.exists() {
        figures.push(routers(&routers_at)?);
    }
    if figures.is_empty() {
        return Err(ReproduceError::Model(format!(
            "{}: has no specpower-*.csv, specpower-curves.csv or netpowerbench",
            data.display()
        )));
    }
    Ok(figures)
}

/// Returns the tables of results in a directory, by name.
fn spec_files(data: &Path) -> Result<Vec<PathBuf>, ReproduceError> {
    let failed = |error| ReproduceError::Model(format!("{}: {error}", data.display()));
    let entries = std::fs::read_dir(data).map_err(failed)?.filter_map(Result::ok);
    let is_table = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("specpower-") && name.ends_with(".csv") && name != "specpower-curves.csv"
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_table).collect();
    paths.sort();
    Ok(paths)
}

fn percent(share: f64) -> String {
    format!("{:.0}", 100.0 * share)
}

fn servers(results: &SpecResults) -> Result<Figure, ReproduceError> {
    let mut table = Table::new([
        "power",
        "split",
        "fitted",
        "predicted",
        "median_error_percent",
        "nine_tenths_error_percent",
        "within_interval_percent",
        "nearest_median_error_percent",
    ]);
    type Seen = fn(&SpecResult) -> bool;
    let splits: [(&str, Seen); 2] =
        [("two thirds at random", two_of_three), ("before 2019", |result| result.year < LATER)];
    let mut sentences = Vec::new();
    let mut plots = Vec::new();
    for load in Load::ALL {
        for (name, seen) in splits {
            let error = SpecError::measure(&results.rows, load, seen)?;
            table.row([
                load.name().to_owned(),
                name.to_owned(),
                error.fitted.to_string(),
                error.predicted.to_string(),
                percent(error.median),
                percent(error.nine_tenths),
                percent(error.within),
                percent(error.nearest_median),
            ]);
            sentences.push(format!(
                "{} from {name}: half of the errors are below {} % ({} % for the mean of the five most \
                 similar results), and {} % of the results lie in their {} % interval",
                load.name(),
                percent(error.median),
                percent(error.nearest_median),
                percent(error.within),
                percent(CONFIDENCE)
            ));
        }
        let (earlier, later): (Vec<&SpecResult>, Vec<&SpecResult>) =
            results.rows.iter().partition(|result| result.year < LATER);
        let fit = SpecFit::new(&earlier, load)?;
        let ratio =
            |result: &&SpecResult| (result.year, fit.predict(result).value / load.watts(result));
        let chart = Chart::new(
            format!("Power at {}: fitted before 2019 over published", load.name()),
            Axis::new("year of publication"),
            Axis::new("fitted over published").logarithmic(),
        )
        .series("fitted", Mark::Points, earlier.iter().map(ratio))
        .series("predicted", Mark::Points, later.iter().map(ratio));
        plots.push(chart.svg());
    }
    let refused = match results.refused.as_slice() {
        [] => String::new(),
        rows => {
            let named = rows.iter().take(MOST_NAMED).map(|(row, why)| format!("row {row} {why}"));
            let named: Vec<String> = named.collect();
            let more = rows.len() - named.len();
            let more = if more > 0 { format!("; and {more} more") } else { String::new() };
            let count = rows.len();
            format!(" Left out as contradictory: {count} rows ({}{more}).", named.join("; "))
        }
    };
    Ok(Figure {
        id: "servers",
        title: "Servers by cores, processors, memory and year".into(),
        about: format!(
            "{} results of SPECpower_ssj2008, fitted in logarithms. {}. The load was Java, not \
             packets.{refused}",
            results.rows.len(),
            sentences.join("; ")
        ),
        table,
        plots,
        checks: Vec::new(),
    })
}

/// Returns the root mean square difference of two shapes between their ends.
fn apart(one: &[f64], other: &[f64]) -> f64 {
    let inner = 1..one.len() - 1;
    let count = inner.len() as f64;
    (inner.map(|level| (one[level] - other[level]).powi(2)).sum::<f64>() / count).sqrt()
}

/// Returns the shape of a shipped model whose cores nap between packets.
fn model_shape(server: &ServerModel) -> Result<Vec<f64>, ReproduceError> {
    let cost = server
        .packet_cost(Application::Ipv4, 64)
        .ok_or_else(|| ReproduceError::Model(format!("{SHAPE} has no cost of IPv4")))?;
    let (cores, fastest) = (server.processor.cores(), server.processor.highest_frequency());
    let capacity = server.core_capacity(cost, cores, fastest).0;
    let point = server.napi_point(cores, fastest);
    let watts: Vec<f64> = (0..LEVELS.len())
        .map(|level| {
            let rate = PacketsPerSecond(capacity * level as f64 / (LEVELS.len() - 1) as f64);
            server.power_terms(cost, 64, &point, rate).total().0
        })
        .collect();
    Ok(shape(&watts))
}

fn shapes(curves: &[Curve]) -> Result<Figure, ReproduceError> {
    let server = ServerFile::load(SHAPE)?.model()?.clone();
    let model = model_shape(&server)?;
    let line: Vec<f64> = (0..LEVELS.len()).map(|level| level as f64 / 10.0).collect();
    let mut table = Table::new(["system", "cpu", "model_apart_percent", "line_apart_percent"]);
    let mut drawn = Vec::new();
    let points = |shape: &[f64]| {
        let points = shape.iter().enumerate();
        points.map(|(level, share)| (10.0 * level as f64, 100.0 * share)).collect::<Vec<_>>()
    };
    let (mut errors, mut nearer) = ([0.0; 2], 0);
    for curve in curves {
        let own = [apart(&curve.shape, &model), apart(&curve.shape, &line)];
        nearer += usize::from(own[0] < own[1]);
        errors = [errors[0] + own[0], errors[1] + own[1]];
        table.row([curve.system.clone(), curve.cpu.clone(), percent(own[0]), percent(own[1])]);
        drawn.extend(points(&curve.shape));
    }
    let count = table.rows.len().max(1) as f64;
    let chart = Chart::new(
        "Between idle and full load",
        Axis::new("load (%)"),
        Axis::new("way from idle to full power (%)"),
    )
    .series("measured", Mark::Points, drawn)
    .series(format!("{SHAPE}, closed form"), Mark::Line, points(&model))
    .series("straight line", Mark::Line, points(&line));
    Ok(Figure {
        id: "shapes",
        title: "Shape between idle and full load".into(),
        about: format!(
            "{} measured curves of whole servers compared with {SHAPE}, whose twelve cores nap in C1 between \
             packets: on average {:.0} points apart, {:.0} from a straight line; the model is nearer \
             for {nearer}.",
            table.rows.len(),
            100.0 * errors[0] / count,
            100.0 * errors[1] / count
        ),
        table,
        plots: vec![chart.svg()],
        checks: Vec::new(),
    })
}

fn routers(path: &Path) -> Result<Figure, ReproduceError> {
    let mut table = Table::new([
        "router",
        "port",
        "rows",
        "swing_watts",
        "unseen_lengths_error_watts",
        "published_model_error_watts",
        "published_shape_error_watts",
    ]);
    let mut sentences = Vec::new();
    for test in SnakeTest::load_all(path)? {
        let Some(errors) = test.errors() else { continue };
        let cell = |watts: Option<f64>| watts.map_or("-".to_owned(), |watts| format!("{watts:.2}"));
        table.row([
            test.device.clone(),
            test.kind.clone(),
            test.rows.len().to_string(),
            cell(Some(errors.swing_watts)),
            cell(Some(errors.unseen_watts)),
            cell(errors.published_watts),
            cell(errors.published_shape_watts),
        ]);
        sentences.push(format!(
            "{} of {} W",
            cell(Some(errors.unseen_watts)),
            cell(Some(errors.swing_watts))
        ));
    }
    Ok(Figure {
        id: "routers",
        title: "Routers under traffic".into(),
        about: format!(
            "Snake tests of NetPowerBench, fitted as a constant, an energy per bit and an energy per \
             packet. Mean error at packet lengths that the fit did not see: {}. For comparison, the \
             error of NetPowerBench's own model on the same rows, with its constant and without.",
            sentences.join(", ")
        ),
        table,
        plots: Vec::new(),
        checks: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_shares_of_the_swing() {
        let line: Vec<f64> = (0..11).map(|level| 100.0 + 5.0 * f64::from(level)).collect();
        let straight = shape(&line);
        assert_eq!((straight[0], straight[5], straight[10]), (0.0, 0.5, 1.0));
        let model = model_shape(ServerFile::load(SHAPE).unwrap().model().unwrap()).unwrap();
        assert!(model.windows(2).all(|pair| pair[0] < pair[1]), "{model:?}");
        assert!(apart(&straight, &straight) == 0.0 && apart(&model, &straight) > 0.0);
    }

    #[test]
    fn directory_without_data_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = published_watts(folder.path()).unwrap_err().to_string();
        assert!(error.contains("has no specpower-*.csv"), "{error}");
        std::fs::write(folder.path().join("specpower-curves.csv"), "system,cpu,idle\na,b,1\n")
            .unwrap();
        let error = published_watts(folder.path()).unwrap_err().to_string();
        assert!(error.contains("a has no curve"), "{error}");
    }
}
