//! `wattline sim --requests`: a server of requests in virtual time, and profiles of it.

use super::server_errors;
use super::simulation::{self, Problems};
use crate::commands::overwrite::Overwrite;
use crate::commands::results;
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use wattline::commands::explain;
use wattline::exit::ExitError;
use wattline::progress;
use wattline_governor::decisions::Decision;
use wattline_governor::ledger::Knob;
use wattline_league::simulated::Requests;
use wattline_policies::POLICIES;
use wattline_server::ServerFile;
use wattline_sim::KnobBehaviour;
use wattline_sim::requests::{
    Grid, REQUEST_KNOBS, RequestError, RequestReport, RequestSetting, profile, profile_sparse,
    run_requests_on,
};

use wattline_traffic::requests::RequestSpec;
use wattline_units::Span;

const SERVER: &str = "xeon-silver-4108";
const POLICY: &str = "performance+ixgbe";
/// Policies that set no moderation.
const FREQUENCY_ALONE: [&str; 3] = ["performance", "ondemand", "schedutil"];
/// Loads of a profile: from a quarter of the given rate to 1.3 times it.
const PROFILE_LOADS: [f64; 8] = [0.25, 0.4, 0.55, 0.7, 0.85, 1.0, 1.15, 1.3];

/// Simulation to run.
pub struct Wanted<'a> {
    /// `None` for the server of the Co-PI paper.
    pub server: Option<&'a str>,
    /// `None` for the fastest V/F state with the driver's moderation.
    pub policy: Option<&'a str>,
    pub requests: &'a str,
    pub duration: Span,
    pub warmup: Span,
    pub seed: u64,
    /// Behaviour of the knobs; empty for ideal ones.
    pub knob_faults: &'a str,
    /// Makes tables in this file instead.
    pub profile: Option<&'a PathBuf>,
    /// With a search for few points.
    pub sparse: bool,
    /// Whether the last changes are printed with the policy's reasons.
    pub explain: bool,
    /// File for a page of the result.
    pub page: Option<&'a Path>,
    /// Whether these files are replaced.
    pub overwrite: Overwrite,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RequestSimulation")]
pub struct Output<'a> {
    server: &'a str,
    policy: &'a str,
    requests: &'a str,
    seed: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    knob_faults: &'a str,
    /// Remarks on the figures.
    notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_changes: Option<Vec<Decision>>,
    #[serde(flatten)]
    report: RequestReport,
}

#[derive(Serialize)]
struct ProfileOutput<'a> {
    server: &'a str,
    requests: &'a str,
    file: String,
    points: usize,
    points_of_full_grid: usize,
    loads_rps: Vec<f64>,
}

/// Runs the command.
pub fn run(wanted: &Wanted<'_>, json: bool) -> Result<(), ExitError> {
    let mut problems = Problems::default();
    let name = wanted.server.unwrap_or(SERVER);
    let policy = wanted.policy.unwrap_or(POLICY);
    let file = problems.keep(ServerFile::load(name).map_err(server_errors::of_model));
    let spec = problems.keep(simulation::policy(policy));
    let requests = RequestSpec::parse(wanted.requests);
    let requests = problems.keep(requests.map_err(|error| ExitError::new(ExitError::USAGE, error)));
    let knobs = problems.keep(knobs(wanted.knob_faults));
    problems.check()?;
    let (Some(file), Some(spec), Some(requests), Some(knobs)) = (file, spec, requests, knobs)
    else {
        return Ok(());
    };
    let server = file.requests().map_err(|error| ExitError::new(ExitError::CONFIG, error))?;
    if let Some(path) = wanted.profile {
        let grid = Grid {
            loads: PROFILE_LOADS.map(|part| part * requests.rate).to_vec(),
            periods: Grid::periods_of(server),
            seed: wanted.seed,
            within: None,
        };
        let made = progress::during("profiling", || match wanted.sparse {
            true => profile_sparse(server, &requests, &grid, None, POLICIES),
            false => profile(server, &requests, &grid, POLICIES),
        });
        let made = made.map_err(failed)?;
        let written = wanted.overwrite.write(path, &made.tables.to_text());
        let result = ProfileOutput {
            server: &server.name,
            requests: wanted.requests,
            file: path.display().to_string(),
            points: made.points,
            points_of_full_grid: made.of,
            loads_rps: grid.loads,
        };
        return results::print_beside(written, &result, json, |out, result| {
            writeln!(
                out,
                "{}: {} of {} points of {} under {}, modelled",
                result.file,
                result.points,
                result.points_of_full_grid,
                result.server,
                result.requests
            )
        });
    }
    let policy = &spec.to_string();
    let setting = RequestSetting {
        server,
        requests,
        policy: spec,
        duration: wanted.duration,
        warmup: wanted.warmup,
        seed: wanted.seed,
        cores: None,
    };
    let simulated = progress::during("simulating", || run_requests_on(&setting, knobs));
    let mut report = simulated.map_err(failed)?;
    let last_changes = wanted.explain.then(|| std::mem::take(&mut report.last_changes));
    let result = Output {
        server: &server.name,
        policy,
        requests: wanted.requests,
        seed: wanted.seed,
        knob_faults: wanted.knob_faults,
        notes: notes(policy, &report),
        last_changes,
        report,
    };
    let mut written = Ok(());
    if let Some(path) = wanted.page {
        let html = Requests {
            server: result.server,
            policy: result.policy,
            requests: result.requests,
            seed: result.seed,
            command: &results::command_line(),
            report: &result.report,
        }
        .html();
        written = wanted.overwrite.write(path, &html);
    }
    results::print_with_page((wanted.page, written), &result, json, |out, result| {
        table(out, result)
    })
}

/// Warns of requests left from the warm-up, whose wait counts as latency.
fn notes(policy: &str, report: &RequestReport) -> Vec<String> {
    let left = report.waiting_at_start_requests;
    let more = report.answered_rate_rps > report.offered_rate_rps * 1.01;
    let note = || {
        format!(
            "{left} requests waited when the warm-up ended, and the figures have their latency: take a \
             longer --warmup, unless this is about how the policy starts"
        )
    };
    more.then(note).into_iter().chain(fixed_period(policy, report.period_mean_seconds)).collect()
}

/// Policies of frequency alone leave the card at its shortest period. Machines seldom run so: beside it
/// another policy looks better than it is.
fn fixed_period(policy: &str, period_seconds: f64) -> Option<String> {
    FREQUENCY_ALONE.contains(&policy).then(|| {
        format!(
            "{policy} leaves moderation alone: the card interrupts every {:.0} us at most. Compare \
             other policies with {policy}+ixgbe, which has the driver's moderation",
            period_seconds * 1e6
        )
    })
}

/// Behaviour of the knobs; faults of a knob that no policy turns here are refused.
fn knobs(text: &str) -> Result<KnobBehaviour, ExitError> {
    let knobs = simulation::knobs(text)?;
    match KnobBehaviour::named(text).find(|knob| !REQUEST_KNOBS.contains(knob)) {
        None => Ok(knobs),
        Some(knob) => Err(ExitError::new(
            ExitError::USAGE,
            format!(
                "--knob-faults: {}: a server of requests has no such knob; allowed: all, budget, {}",
                knob.name(),
                REQUEST_KNOBS.map(Knob::name).join(", ")
            ),
        )),
    }
}

fn failed(error: RequestError) -> ExitError {
    let code = match error {
        RequestError::Duration | RequestError::Policy(_) | RequestError::BeyondLink { .. } => {
            ExitError::USAGE
        }
        RequestError::Workload { .. } | RequestError::Platform(_) | RequestError::Grid => {
            ExitError::CONFIG
        }
    };
    ExitError::new(code, error)
}

fn table(out: &mut impl Write, output: &Output<'_>) -> std::io::Result<()> {
    let report = &output.report;
    writeln!(
        out,
        "{} under {} with {}, seed {}: {} s simulated",
        output.server, output.policy, output.requests, output.seed, report.duration_seconds
    )?;
    for note in report.policy_remark.iter().chain(&output.notes) {
        writeln!(out, "note: {note}")?;
    }
    let mut row = |name: &str, value: String| writeln!(out, "{name:<28} {value}");
    let micros = |seconds: Option<f64>| match seconds {
        Some(seconds) => format!("{:.1} us", seconds * 1e6),
        None => "-".into(),
    };
    row("offered", format!("{:.1} krps", report.offered_rate_rps / 1e3))?;
    let sustained = if report.sustained { "" } else { ": the load is not sustained" };
    row("answered", format!("{:.1} krps{sustained}", report.answered_rate_rps / 1e3))?;
    row("dropped, ring full", format!("{} requests", report.dropped_requests))?;
    row("latency mean", micros(report.latency_mean_seconds))?;
    row("latency p50", micros(report.latency_p50_seconds))?;
    row("latency p95", micros(report.latency_p95_seconds))?;
    row("latency p99", micros(report.latency_p99_seconds))?;
    row(
        "power of the package",
        format!("{:.2} W ({}, {})", report.power_watts, report.source, report.accuracy),
    )?;
    row("  package", format!("{:.2} W", report.package_power_watts))?;
    row("  uncore", format!("{:.2} W", report.uncore_power_watts))?;
    row("  cores awake", format!("{:.2} W", report.awake_power_watts))?;
    row("  cores idle", format!("{:.2} W", report.idle_power_watts))?;
    row("energy", format!("{:.3} J", report.energy_joules))?;
    if let Some(joules) = report.energy_per_request_joules {
        row("energy per request", format!("{:.2} uJ", joules * 1e6))?;
    }
    row("V/F state, mean", format!("P{:.2}", report.mean_state()))?;
    row("moderation period, mean", format!("{:.1} us", report.period_mean_seconds * 1e6))?;
    if let Some(interrupts) = report.interrupts_per_request {
        row("interrupts per request", format!("{interrupts:.3}"))?;
    }
    let mean = |of: &dyn Fn(&wattline_sim::requests::RequestCore) -> f64| {
        report.cores.iter().map(of).sum::<f64>() / report.cores.len() as f64 * 100.0
    };
    row("time in the application", format!("{:.1} %", mean(&|core| core.application)))?;
    row("time in interrupts", format!("{:.1} %", mean(&|core| core.kernel)))?;
    for (index, state) in report.idle_states.iter().enumerate() {
        row(&format!("time in {state}"), format!("{:.1} %", mean(&|core| core.idle[index])))?;
    }
    for knob in &report.knobs {
        let (name, value) = simulation::steps_of(knob);
        row(&name, value)?;
    }
    row("simulated in", format!("{:.3} s", report.wall_seconds))?;
    if let Some(changes) = &output.last_changes {
        writeln!(out)?;
        explain::print(changes, out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_without_moderation_says_with_what_to_compare() {
        let note = fixed_period("ondemand", 6e-6).unwrap();
        assert!(note.contains("every 6 us") && note.contains("ondemand+ixgbe"), "{note}");
        for policy in ["ondemand+ixgbe", "performance+84us", "copi:tables=a.csv"] {
            assert_eq!(fixed_period(policy, 6e-6), None, "{policy}");
        }
    }
}
