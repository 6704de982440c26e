//! `wattline sim --requests`: a server of requests in virtual time, and profiles of it.

use super::server_errors;
use super::sim_args::Args;
use super::simulation::{self, Problems};
use crate::commands::{page_file, results};
use schemars::JsonSchema;
use serde::Serialize;
use std::io::Write;
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
pub fn run(args: &Args, described: &str, json: bool) -> Result<(), ExitError> {
    let mut problems = Problems::default();
    let name = args.server.as_deref().unwrap_or(SERVER);
    let policy = args.policy.as_deref().unwrap_or(POLICY);
    let file = problems.keep(ServerFile::load(name).map_err(server_errors::config_error));
    let spec = problems.keep(simulation::policy(policy));
    let requests = RequestSpec::parse(described);
    let requests = problems.keep(requests.map_err(|error| ExitError::new(ExitError::USAGE, error)));
    let knobs = problems.keep(knobs(&args.knob_faults));
    problems.check()?;
    let (Some(file), Some(spec), Some(requests), Some(knobs)) = (file, spec, requests, knobs)
    else {
        return Ok(());
    };
    let server = file.requests().map_err(|error| ExitError::new(ExitError::CONFIG, error))?;
    if let Some(path) = &args.profile {
        let grid = Grid {
            loads: PROFILE_LOADS.map(|part| part * requests.rate).to_vec(),
            periods: Grid::periods_of(server),
            seed: args.seed,
            within: None,
        };
        let made = progress::during("profiling", || match args.sparse {
            true => profile_sparse(server, &requests, &grid, None, POLICIES),
            false => profile(server, &requests, &grid, POLICIES),
        });
        let made = made.map_err(failed)?;
        let written = args.overwrite.write(path, &made.tables.to_text());
        let result = ProfileOutput {
            server: &server.name,
            requests: described,
            file: path.display().to_string(),
            points: made.points,
            points_of_full_grid: made.of,
            loads_rps: grid.loads,
        };
        return results::print_then_fail(written, &result, json, |out, result| {
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
        duration: args.duration,
        warmup: args.warmup.unwrap_or(Span::from_millis(1_000)),
        seed: args.seed,
        cores: None,
    };
    let simulated = progress::during("simulating", || run_requests_on(&setting, knobs));
    let mut report = simulated.map_err(failed)?;
    let last_changes = args.explain.then(|| std::mem::take(&mut report.last_changes));
    let result = Output {
        server: &server.name,
        policy,
        requests: described,
        seed: args.seed,
        knob_faults: &args.knob_faults,
        notes: notes(policy, &report),
        last_changes,
        report,
    };
    let page = Requests {
        server: result.server,
        policy: result.policy,
        requests: result.requests,
        seed: result.seed,
        notes: &result.notes,
        changes: result.last_changes.as_deref().unwrap_or_default(),
        command: &results::command_line(),
        report: &result.report,
    }
    .page();
    page_file::show((args.page.as_deref(), args.overwrite), page, &result, json)
}

/// Warns of requests left from the warm-up, whose wait counts as latency.
fn notes(policy: &str, report: &RequestReport) -> Vec<String> {
    let left = report.waiting_at_start_requests;
    let more = report.answered_rate_rps > report.offered_rate_rps * 1.01;
    let note = || {
        format!(
            "{left} requests were waiting at the end of the warm-up, and the figures include their \
             latency: use a longer --warmup, unless you study the policy's start"
        )
    };
    more.then(note).into_iter().chain(fixed_period(policy, report.period_mean_seconds)).collect()
}

/// Returns a note on a policy that only sets the frequency and leaves the card at its shortest
/// period. Machines rarely run in this way, and compared with it other policies look better than
/// they are.
fn fixed_period(policy: &str, period_seconds: f64) -> Option<String> {
    FREQUENCY_ALONE.contains(&policy).then(|| {
        format!(
            "{policy} leaves moderation alone: the card interrupts every {:.0} us at most. Compare \
             other policies with {policy}+ixgbe, which has the driver's moderation",
            period_seconds * 1e6
        )
    })
}

/// Parses the behaviour of the knobs; refuses faults of knobs that no policy turns here.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_without_moderation_suggests_a_comparison() {
        let note = fixed_period("ondemand", 6e-6).unwrap();
        assert!(note.contains("every 6 us") && note.contains("ondemand+ixgbe"), "{note}");
        for policy in ["ondemand+ixgbe", "performance+84us", "copi:tables=a.csv"] {
            assert_eq!(fixed_period(policy, 6e-6), None, "{policy}");
        }
    }
}
