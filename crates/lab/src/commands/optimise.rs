//! `wattline optimise`: the cheapest operating point for a rate or a trace.

use super::server_errors;
use crate::commands::simulation::rates_error;
use serde_json::{Value, json};
use std::io::Write;
use wattline::exit::ExitError;
use wattline::output;
use wattline_server::{Application, ServerFile};
use wattline_study::optimise::trace::Interval;
use wattline_study::optimise::{
    Choice, LoadedServer, OperatingPoints, TraceChoices, cheapest, over_trace,
};
use wattline_traffic::rates::{self, RateStep};
use wattline_units::{PacketsPerSecond, Provenance, Span};

/// Server and load.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("load").required(true).args(["target", "trace"]))]
pub struct Args {
    /// A shipped server model (`wattline servers` lists them) or a file.
    #[arg(long)]
    server: String,
    /// The rate to carry, such as 5Mpps.
    #[arg(long)]
    target: Option<PacketsPerSecond>,
    /// Rates over time: CSV with the columns time_seconds and rate_pps.
    #[arg(long)]
    trace: Option<String>,
    /// The highest mean latency allowed, such as 50us.
    #[arg(long)]
    latency_bound: Option<Span>,
    /// Application that processes each packet: ipv4, netflow, ipsec or re.
    #[arg(long, default_value_t = Application::Ipv4)]
    app: Application,
    /// Length of the packets in bytes, 64 to 9216.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(64..=9216))]
    size: u32,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let file = ServerFile::load(&args.server).map_err(server_errors::config_error)?;
    // A file may have a whole server or only Bolla's figures.
    if let Ok(bolla) = file.bolla()
        && file.model().is_err()
    {
        return find(bolla, args, json);
    }
    let model = file.model().map_err(|lacks| {
        // For a file with a partial section of Bolla, its errors are reported, as it is easier to
        // complete.
        let begun = file.figures.iter().any(|figure| figure.field.starts_with("bolla."));
        let lacks = file.bolla().err().filter(|_| begun).unwrap_or(lacks);
        server_errors::config_error(lacks.into())
    })?;
    let cost = model.packet_cost(args.app, args.size).ok_or_else(|| {
        let known: Vec<&str> = model.applications.keys().map(|app| app.name()).collect();
        let message = format!(
            "{}: no cost of {} is given; --app can be {}",
            args.server,
            args.app,
            known.join(", ")
        );
        ExitError::new(ExitError::CONFIG, message)
    })?;
    find(&LoadedServer { model, cost, frame_bytes: args.size }, args, json)
}

fn find(server: &impl OperatingPoints, args: &Args, json: bool) -> Result<(), ExitError> {
    if let Some(target) = args.target {
        let choice = cheapest(server, target, args.latency_bound)
            .map_err(|error| ExitError::new(ExitError::DATA, error))?;
        output::print(&with_provenance(choice_json(&choice)), json, |out, _| {
            writeln!(out, "{HEADER}\n{}", choice_line(&choice))
        })?;
    }
    if let Some(path) = &args.trace {
        let steps = rates::load(path.as_ref()).map_err(rates_error)?;
        let trace: Vec<Interval> = steps.iter().map(interval).collect();
        let result = over_trace(server, &trace, args.latency_bound).map_err(|impossible| {
            let lines: Vec<String> =
                impossible.iter().map(|(line, why)| format!("{path}:{line}: {why}")).collect();
            ExitError::new(ExitError::DATA, lines.join("\n"))
        })?;
        let document = with_provenance(trace_json(&trace, &result));
        output::print(&document, json, |out, _| print_trace(out, &trace, &result))?;
    }
    Ok(())
}

fn interval(step: &RateStep) -> Interval {
    let rate = PacketsPerSecond(step.rate_pps);
    Interval { line: step.line, length: Span::from_seconds(step.seconds), rate }
}

const HEADER: &str = "cores  f [GHz]  power [W]  capacity [Mpps]  mean latency [us]";

fn choice_line(choice: &Choice) -> String {
    let latency =
        choice.latency.map_or("-".to_string(), |span| format!("{:.2}", span.as_seconds() * 1e6));
    format!(
        "{:>5}  {:>7.3}  {:>9.2}  {:>15.3}  {:>17}",
        choice.cores,
        choice.frequency.gigahertz(),
        choice.power.0,
        choice.capacity.mpps(),
        latency
    )
}

fn print_trace(
    out: &mut impl Write,
    trace: &[Interval],
    result: &TraceChoices,
) -> std::io::Result<()> {
    writeln!(out, "start [s]  rate [Mpps]  {HEADER}")?;
    let mut start = 0.0;
    for (interval, choice) in trace.iter().zip(&result.choices) {
        writeln!(out, "{start:>9.3}  {:>11.3}  {}", interval.rate.mpps(), choice_line(choice))?;
        start += interval.length.as_seconds();
    }
    writeln!(
        out,
        "\n{:.1} J in {:.1} s (mean {:.2} W) with {} changes; {:.1} J at all cores and the highest \
         frequency: {:.1} % less",
        result.energy.0,
        result.length.as_seconds(),
        (result.energy / result.length).0,
        result.changes,
        result.energy_at_maximum.0,
        saving(result) * 100.0
    )
}

fn saving(result: &TraceChoices) -> f64 {
    1.0 - result.energy / result.energy_at_maximum
}

fn choice_json(choice: &Choice) -> Value {
    json!({
        "cores": choice.cores,
        "frequency_hertz": choice.frequency,
        "power_watts": choice.power,
        "capacity_pps": choice.capacity,
        "latency_mean_seconds": choice.latency.map(Span::as_seconds),
    })
}

fn trace_json(trace: &[Interval], result: &TraceChoices) -> Value {
    let intervals: Vec<Value> = trace
        .iter()
        .zip(&result.choices)
        .map(|(interval, choice)| {
            let mut value = choice_json(choice);
            value["duration_seconds"] = json!(interval.length.as_seconds());
            value["rate_pps"] = json!(interval.rate);
            value
        })
        .collect();
    json!({
        "intervals": intervals,
        "duration_seconds": result.length.as_seconds(),
        "energy_joules": result.energy,
        "energy_at_maximum_joules": result.energy_at_maximum,
        "saving_ratio": saving(result),
        "power_watts": result.energy / result.length,
        "changes": result.changes,
    })
}

fn with_provenance(mut value: Value) -> Value {
    value["source"] = json!(Provenance::MODELLED.source);
    value["accuracy"] = json!(Provenance::MODELLED.accuracy);
    value
}
