//! `wattline sim`: one policy on a server model in virtual time.

use super::sim_args::Args;
use super::sim_requests;
use super::simulation::{self, Problems};
use crate::commands::simulation::simulation_error;
use crate::commands::{page_file, results};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::PathBuf;
use wattline::exit::ExitError;
use wattline::progress;
use wattline_governor::decisions::Decision;
use wattline_league::simulated::Simulation;
use wattline_report::FigurePage;
use wattline_server::{Application, PartPower, Path};
use wattline_sim::{Report, Scenario, Setting};
use wattline_units::Span;

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Simulation")]
pub struct Output<'a> {
    server: &'a str,
    policy: &'a str,
    traffic: &'a str,
    application: Application,
    seed: u64,
    path: Path,
    output_links: bool,
    #[serde(skip_serializing_if = "str::is_empty")]
    knob_faults: &'a str,
    /// Remarks on parts of the traffic that stand in for something else.
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_changes: Option<Vec<Decision>>,
    /// Modelled power by the source of its figures; the parts add up to `power_watts`.
    #[serde(skip_serializing_if = "Option::is_none")]
    power_by_source: Option<Vec<PartPower>>,
    #[serde(flatten)]
    report: Report,
}

/// Runs the command.
pub fn run(args: &Args, json: bool) -> Result<(), ExitError> {
    args.overwrite
        .check([&args.profile, &args.page].into_iter().flatten().map(PathBuf::as_path))?;
    if let Some(requests) = &args.requests {
        return sim_requests::run(args, requests, json);
    }
    let mut problems = Problems::default();
    let policy_text = args.policy.as_deref().unwrap_or("queue-length");
    let traffic_text = args.traffic.as_deref().unwrap_or_default();
    let server = simulation::server(args.server.as_deref().unwrap_or("westmere-2010"))
        .and_then(|server| simulation::with_costs(&server, &args.app_costs))
        .and_then(|server| simulation::on_path(&server, args.path));
    let server = problems.keep(server);
    let policy = problems.keep(simulation::policy(policy_text));
    let traffic = problems.keep(simulation::traffic(traffic_text));
    let knobs = problems.keep(simulation::knobs(&args.knob_faults));
    if args.duration == Span::ZERO {
        problems.note(ExitError::USAGE, "duration: 0s is not above zero; allowed: 1ns to 10d");
    }
    problems.check()?;
    let (Some(server), Some(policy), Some(traffic), Some(knobs)) = (server, policy, traffic, knobs)
    else {
        return Ok(());
    };
    let policy_text = policy.to_string();
    let scaled = (args.app_costs != "model").then(|| server.description.clone());
    let setting = Setting {
        application: args.app,
        warmup: args.warmup.unwrap_or(Span::from_millis(100)),
        interval: args.interval,
        output_links: args.output_links,
        seed: args.seed,
        knobs,
        ..Setting::new(&server, policy, args.duration)
    };
    let scenario = Scenario { setting, traffic: &traffic };
    let mut report = progress::during("simulating", || scenario.run()).map_err(simulation_error)?;
    let last_changes = args.explain.then(|| std::mem::take(&mut report.last_changes));
    let power_by_source = args.explain.then(|| std::mem::take(&mut report.power_by_source));
    let result = Output {
        server: &server.name,
        policy: &policy_text,
        traffic: traffic_text,
        application: args.app,
        seed: args.seed,
        path: args.path,
        output_links: args.output_links,
        knob_faults: &args.knob_faults,
        notes: traffic
            .notes()
            .into_iter()
            .chain(scaled)
            .chain(traffic.part_of_day(args.duration))
            .collect(),
        last_changes,
        power_by_source,
        report,
    };
    let page = page(args, &result);
    page_file::show((args.page.as_deref(), args.overwrite), page, &result, json)
}

fn page(args: &Args, output: &Output<'_>) -> FigurePage {
    let mut variations = Vec::new();
    if output.output_links {
        variations.push("output links are modelled".to_owned());
    }
    if !output.knob_faults.is_empty() {
        variations.push(format!("knobs: {}", output.knob_faults));
    }
    if args.app_costs != "model" {
        variations.push(format!("costs of applications: {}", args.app_costs));
    }
    Simulation {
        server: output.server,
        policy: output.policy,
        traffic: output.traffic,
        application: output.application.name(),
        seed: output.seed,
        variations: &variations,
        notes: &output.notes,
        changes: output.last_changes.as_deref().unwrap_or_default(),
        sources: output.power_by_source.as_deref().unwrap_or_default(),
        command: &results::command_line(),
        report: &output.report,
    }
    .page()
}
