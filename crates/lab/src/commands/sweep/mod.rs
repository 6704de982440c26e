//! `wattline sweep`: every server under every policy with every traffic and seed.

mod arrow;
mod columns;

use crate::commands::overwrite::Overwrite;
use crate::commands::results;
use crate::commands::simulation::simulation_error;
use crate::commands::simulation::{self, Problems};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline::output::note;
use wattline::progress::Counted;
use wattline_league::simulated::{Sweep, SweepRow as Row};
use wattline_policy::PolicySpec;
use wattline_report::FigurePage;
use wattline_server::{Application, Path, ServerModel};
use wattline_sim::{Scenario, Setting, sweep};
use wattline_traffic::Spec;
use wattline_units::Span;

/// Simulations to run; an option takes several values, with commas between them or given again.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Server model: name of a shipped one or a file.
    #[arg(long, value_delimiter = ',', default_value = "westmere-2010")]
    server: Vec<String>,
    /// Policy, as for `wattline sim`.
    #[arg(long, default_value = "queue-length")]
    policy: Vec<String>,
    /// Traffic, as for `wattline sim`.
    #[arg(long, required = true)]
    traffic: Vec<String>,
    /// Application: ipv4, netflow, ipsec or re.
    #[arg(long, value_delimiter = ',', default_value = "ipv4",
          value_parser = simulation::application)]
    app: Vec<Application>,
    /// Costs of the applications: `model` for those of the server's file, or NAME[:ratio|:added]
    /// for costs measured elsewhere (a shipped file or one of `bench costs`), scaled to the server.
    #[arg(long, value_delimiter = ',', default_value = "model")]
    app_costs: Vec<String>,
    /// Path of the packets: workers, xdp or kernel, with its costs in the server's file. Those of
    /// xdp and kernel are polled by NAPI.
    #[arg(long, value_delimiter = ',', default_value = "workers")]
    path: Vec<Path>,
    /// Seed.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    seed: Vec<u64>,
    /// Simulated time to report on, in each.
    #[arg(long, default_value = "1s", value_parser = simulation::span)]
    duration: Span,
    /// Simulated time before the measurement.
    #[arg(long, default_value = "100ms", value_parser = simulation::span)]
    warmup: Span,
    /// Model output links too: packets leave by transmit rings and links of the server's rate.
    #[arg(long)]
    output_links: bool,
    /// Threads; 0 for one per core of this machine.
    #[arg(long, default_value = "0", value_parser = simulation::threads)]
    threads: usize,
    /// Write the main figures as comma-separated values to this file too.
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Write the same figures as an Arrow IPC file.
    #[arg(long)]
    arrow: Option<PathBuf>,
    /// Write a page with plots and a table of all cases.
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

/// Number of parts of the time whose means give a confidence interval if there are no seeds; few
/// enough that the parts are nearly independent.
const BATCHES: u64 = 20;

/// One simulation of the sweep.
struct Case<'a> {
    server: &'a ServerModel,
    policy: &'a PolicySpec,
    traffic: (&'a str, &'a Spec),
    application: Application,
    seed: u64,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Sweep")]
pub struct Results {
    results: Vec<Row>,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    let mut problems = Problems::default();
    let servers: Vec<_> =
        args.server.iter().filter_map(|name| problems.keep(simulation::server(name))).collect();
    let mut with_costs = Vec::new();
    for text in &args.app_costs {
        let models = servers.iter().map(|server| simulation::with_costs(server, text));
        let models = models.filter_map(|model| problems.keep(model)).collect::<Vec<_>>();
        for (model, path) in
            models.iter().flat_map(|model| args.path.iter().map(move |path| (model, *path)))
        {
            with_costs.extend(problems.keep(simulation::on_path(model, path)));
        }
    }
    let policies: Vec<_> = (args.policy.iter())
        .flat_map(|list| simulation::split(list))
        .filter_map(|text| problems.keep(simulation::policy(&text)))
        .collect();
    let traffics: Vec<_> = (args.traffic.iter())
        .flat_map(|list| simulation::split(list))
        .filter_map(|text| {
            let spec = problems.keep(simulation::traffic(&text))?;
            Some((text, spec))
        })
        .collect();
    if args.duration == Span::ZERO {
        problems.note(ExitError::USAGE, "duration: 0s is not above zero; allowed: 1ns to 10d");
    }
    let seeds: BTreeSet<u64> = args.seed.iter().copied().collect();
    if seeds.len() < args.seed.len() {
        let problem = "seed: one is there twice, and would count as two draws; leave one out";
        problems.note(ExitError::USAGE, problem);
    }
    let files = args.csv.iter().chain(&args.arrow).chain(&args.page);
    problems.keep(args.overwrite.check(files.map(PathBuf::as_path)));
    problems.check()?;
    let mut cases = Vec::new();
    for server in &with_costs {
        for policy in &policies {
            for (text, spec) in &traffics {
                for &application in &args.app {
                    for &seed in &args.seed {
                        let traffic = (text.as_str(), spec);
                        cases.push(Case { server, policy, traffic, application, seed });
                    }
                }
            }
        }
    }
    let parts = traffics.iter().filter_map(|(_, spec)| spec.part_of_day(args.duration));
    parts.for_each(|note| note!("note: {note}"));
    if seeds.len() > 1 {
        for (text, _) in traffics.iter().filter(|(_, spec)| spec.ignores_seeds()) {
            note!("note: {text}: the packets are the same for each seed");
        }
    }
    let bar = Counted::new(cases.len() as u64, "simulations");
    let rows = sweep(&cases, args.threads, |case| simulate(case, args), || bar.step())
        .map_err(|error| ExitError::new(ExitError::UNAVAILABLE, error))?;
    bar.end();
    let rows = rows.into_iter().collect::<Result<Vec<Row>, ExitError>>()?;
    let page = Sweep { rows: &rows, command: &results::command_line() }.page();
    let text = page.plain().to_owned();
    let written = write(args, &rows, page);
    results::print_then_fail(written, &Results { results: rows }, json, |out, _| {
        out.write_all(text.as_bytes())
    })
}

/// Writes the requested files; an error in one does not prevent the others.
fn write(args: &Args, rows: &[Row], page: FigurePage) -> Result<(), ExitError> {
    let mut problems = Problems::default();
    if let Some(path) = &args.csv {
        let fill = |file| columns::write_csv(file, rows);
        problems.keep(args.overwrite.write_by(path, fill));
    }
    if let Some(path) = &args.arrow {
        let fill = |file| arrow::write(file, rows);
        problems.keep(args.overwrite.write_by(path, fill));
    }
    if let Some(path) = &args.page {
        problems.keep(args.overwrite.write(path, &page.end()));
    }
    problems.check()
}

fn simulate(case: &Case<'_>, args: &Args) -> Result<Row, ExitError> {
    let traffic = case.traffic.1;
    let setting = Setting {
        application: case.application,
        warmup: args.warmup,
        interval: traffic.ignores_seeds().then(|| args.duration / BATCHES),
        output_links: args.output_links,
        seed: case.seed,
        ..Setting::new(case.server, case.policy.clone(), args.duration)
    };
    let mut report = Scenario { setting, traffic }.run().map_err(simulation_error)?;
    let parts = std::mem::take(&mut report.intervals);
    Ok(Row {
        server: case.server.name.clone(),
        policy: case.policy.to_string(),
        traffic: case.traffic.0.to_owned(),
        application: case.application,
        seed: case.seed,
        report,
        parts,
    })
}
