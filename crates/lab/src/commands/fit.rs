//! `wattline fit`: a model from measured rows.

use super::server_errors;
use super::simulation::Problems;
use crate::commands::overwrite::Overwrite;
use crate::commands::results;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use wattline::exit::ExitError;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_server::Application;
use wattline_study::fit::spec::{Load, SpecError, SpecResults, two_of_three};
use wattline_study::fit::{Completed, Fit, FitError, FitOptions, Lender, fit, rows};
use wattline_units::{Accuracy, Source};

/// Rows to fit, and form of the model.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// CSV with the columns frequency_hertz, cores, throughput_pps, power_watts and, better,
    /// offered_pps.
    #[arg(required_unless_present = "spec")]
    rows: Option<String>,
    /// CSV of SPECpower_ssj2008 results, of which one is written as a server file.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rows", "base_watts", "svg"], requires_all = ["row", "out"])]
    spec: Option<String>,
    /// Result to write, from 1.
    #[arg(long, value_name = "N", requires = "spec")]
    row: Option<usize>,
    /// Highest order of the form function chi to consider, 1 to 12.
    #[arg(long, default_value_t = 7)]
    order_max: usize,
    /// Largest deviation of chi from the richest fit, as a fraction of the swing from idle to
    /// active power; the lowest order within it is taken.
    #[arg(long, default_value_t = 0.02)]
    error_bound: f64,
    /// Power of the platform without its cores, in watts, if it is known.
    #[arg(long)]
    base_watts: Option<f64>,
    /// Write the model as a server file.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Model, by name or file, from which the file borrows figures that rows cannot give; each is
    /// marked, and simulator, policies and router accept the file.
    #[arg(long, value_name = "NAME", requires = "out", conflicts_with = "spec")]
    like: Option<String>,
    /// Length of the packets of the rows in bytes, for --like.
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=9000), requires = "like")]
    size: u16,
    /// Draw the model's error of each row over the load, as an SVG file.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Name of the written model.
    #[arg(long, default_value = "fitted")]
    name: String,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.overwrite.check([&args.out, &args.svg].into_iter().flatten().map(PathBuf::as_path))?;
    if let (Some(file), Some(row), Some(path)) = (&args.spec, args.row, &args.out) {
        return published(args, file, row, path, json);
    }
    let file = args.rows.as_deref().unwrap_or_default();
    let measured = rows::load(file).map_err(server_errors::data_error)?;
    let options = FitOptions {
        order_max: args.order_max,
        error_bound: args.error_bound,
        base_watts: args.base_watts,
    };
    let fitted = fit(&measured, &options).map_err(|error| failed(file, error))?;
    let packets = (Application::Ipv4, u32::from(args.size));
    let file_of = FitFile { name: &args.name, source: file, like: args.like.as_deref(), packets };
    let completed = file_of.complete(&fitted)?;
    let mut problems = Problems::default();
    if let Some(path) = &args.out {
        problems.keep(args.overwrite.write(path, &file_of.text(&fitted, completed.as_ref())));
    }
    if let Some(path) = &args.svg {
        problems.keep(args.overwrite.write(path, &residuals(&fitted, file).svg()));
    }
    let source = json!({ "source": Source::Modelled, "accuracy": Accuracy::Learned });
    let mut document = json!({ "fit": fitted, "power": source });
    note(&mut document, completed.as_ref());
    results::print_then_fail(problems.check(), &document, json, |out, _| {
        print(out, &fitted, completed.as_ref())
    })
}

/// Server file of a fit.
pub struct FitFile<'a> {
    /// Name of the model.
    pub name: &'a str,
    /// Description of the measurement.
    pub source: &'a str,
    /// Model that lends figures.
    pub like: Option<&'a str>,
    /// Application and length of the packets of the rows.
    pub packets: (Application, u32),
}

impl FitFile<'_> {
    /// Completes a fit for simulation if a model lends figures.
    pub fn complete(&self, fit: &Fit) -> Result<Option<Completed>, ExitError> {
        let Some(like) = self.like else { return Ok(None) };
        let lender = Lender::load(like).map_err(server_errors::config_error)?;
        let completed = fit.complete(self.name, self.source, &lender, self.packets);
        completed.map(Some).map_err(|error| failed(self.source, error))
    }

    /// Returns the text of the file.
    pub fn text(&self, fit: &Fit, completed: Option<&Completed>) -> String {
        completed.map_or_else(|| fit.to_toml(self.name, self.source), |it| it.toml.clone())
    }
}

/// Adds a completion to a document.
pub fn note(document: &mut serde_json::Value, completed: Option<&Completed>) {
    if let Some(it) = completed {
        document["completed"] = json!({
            "borrowed": it.borrowed,
            "error_mean": it.error_mean,
            "error_largest": it.error_largest,
        });
    }
}

/// Returns the exit code and message of an error in the fit of `rows`.
pub fn failed(rows: &str, error: FitError) -> ExitError {
    match error {
        FitError::BadOption { .. } => ExitError::new(ExitError::USAGE, format_args!("--{error}")),
        FitError::Unidentified(_) => {
            ExitError::new(ExitError::DATA, format_args!("{rows}: {error}"))
        }
    }
}

/// Writes one published result as a server file.
fn published(
    args: &Args,
    file: &str,
    row: usize,
    path: &Path,
    json: bool,
) -> Result<(), ExitError> {
    let data = |error| ExitError::new(ExitError::DATA, format_args!("{file}: {error}"));
    let results = SpecResults::load(file).map_err(server_errors::data_error)?;
    let text = results.to_toml(row, &args.name, file).map_err(data)?;
    let written = args.overwrite.write(path, &text);
    let mut errors = Vec::new();
    for load in Load::ALL {
        let error = SpecError::measure(&results.rows, load, two_of_three).map_err(data)?;
        errors.push(json!({ "power": load, "out_of_sample": error }));
    }
    let refused: Vec<_> =
        results.refused.iter().map(|(row, why)| json!({ "row": row, "reason": why })).collect();
    let document = json!({ "row": row, "errors": errors, "refused_rows": refused });
    results::print_then_fail(written, &document, json, |out, _| {
        writeln!(out, "{}: row {row} of {file}", path.display())?;
        for load in Load::ALL {
            let Ok(error) = SpecError::measure(&results.rows, load, two_of_three) else { continue };
            writeln!(
                out,
                "power at {}: of {} random results outside the fit, half are within {:.0} %, nine \
                 of ten within {:.0} %",
                load.name(),
                error.predicted,
                100.0 * error.median,
                100.0 * error.nine_tenths
            )?;
        }
        for (row, why) in &results.refused {
            writeln!(out, "note: row {row} is left out: it {why}")?;
        }
        Ok(())
    })
}

/// Plots measured minus predicted power over the load, a series for each frequency.
fn residuals(fit: &Fit, rows: &str) -> Chart {
    let x = Axis::new("load (throughput over capacity)").range(0.0, 1.05);
    let mut chart = Chart::new(format!("Residuals of {rows}"), x, Axis::new("residual (W)"));
    for point in &fit.frequencies {
        let hertz = point.frequency_hertz;
        let of_frequency = fit.residuals.iter().filter(|row| row.frequency_hertz == hertz);
        let points: Vec<(f64, f64)> =
            of_frequency.map(|row| (row.load, row.measured_watts - row.predicted_watts)).collect();
        chart = chart.series(format!("{:.3} GHz", hertz / 1e9), Mark::Points, points);
    }
    chart
}

/// Prints a fit, and its completion.
pub fn print(
    out: &mut impl Write,
    fit: &Fit,
    completed: Option<&Completed>,
) -> std::io::Result<()> {
    let percent = fit.confidence * 100.0;
    writeln!(out, "{} rows; in brackets the {percent:.0} % interval\n", fit.rows)?;
    writeln!(out, "platform without cores [W]   {:.2}\n", fit.base_watts)?;
    writeln!(
        out,
        "{:>9}  {:<28}{:<28}r_max [kpps]",
        "f [GHz]", "idle core [W]", "active core [W]"
    )?;
    for point in &fit.frequencies {
        let rate = point.max_rate_pps;
        let kilo =
            |value: Option<f64>| value.map_or("-".to_string(), |v| format!("{:.2}", v / 1e3));
        writeln!(
            out,
            "{:>9.3}  {:<28}{:<28}{:.2} [{}, {}]",
            point.frequency_hertz / 1e9,
            format!("{:.2}", point.idle_watts),
            format!("{:.2}", point.active_watts),
            rate.value / 1e3,
            kilo(rate.low),
            kilo(rate.high),
        )?;
    }
    writeln!(out, "\n{:>9}  gamma", "cores")?;
    for point in &fit.gamma {
        writeln!(out, "{:>9}  {:.3}", point.cores, point.gamma)?;
    }
    let chi = &fit.chi;
    let terms: Vec<String> = chi.coefficients.iter().map(|a| format!("{a:.5}")).collect();
    writeln!(
        out,
        "\nchi of order {} (of at most {}), {:.4} from the richest, bound {}\n  a0..  {}",
        chi.order,
        chi.richest_order,
        chi.departure,
        chi.error_bound,
        terms.join("  ")
    )?;
    match &fit.held_out {
        Some(error) => writeln!(
            out,
            "\npower of rows left out: mean error {:.2} %, root mean square {:.2} %, largest {:.2} %",
            error.mean * 100.0,
            error.root_mean_square * 100.0,
            error.largest * 100.0
        )?,
        None => writeln!(out, "\ntoo few rows to leave some out")?,
    }
    if let Some(it) = completed {
        writeln!(
            out,
            "\npower of the rows by the file for simulations: mean error {:.2} %, largest {:.2} %;\n\
             {} figures are borrowed: `wattline servers FILE` lists them",
            it.error_mean * 100.0,
            it.error_largest * 100.0,
            it.borrowed.len()
        )?;
    }
    for note in &fit.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}
