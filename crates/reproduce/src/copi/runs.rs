//! Simulation runs that several figures share.

use crate::error::ReproduceError;
use crate::inputs::Inputs;
use crate::made::Made;
use std::sync::Arc;
use wattline_policy::policies::copi;
use wattline_policy::{PolicySpec, SpecError};
use wattline_server::RequestServer;
use wattline_server::tables::ProfileTables;
use wattline_sim::requests::{
    Grid, RequestReport, RequestSetting, profile, run_requests, run_requests_with,
};
use wattline_traffic::requests::{RequestSpec, Workload};
use wattline_units::Span;

/// Seed of the profiles and of Figures 1 to 4; parameters were fitted on it.
pub(super) const PROFILE_SEED: u64 = 1;
/// Seeds of Figures 6 to 11; nothing was fitted on them.
const SEEDS: [u64; 3] = [1_001, 1_002, 1_003];
const DURATION: Span = Span::from_millis(2_000);
/// Duration of three decisions of Co-PI.
const WARMUP: Span = Span::from_millis(350);
/// Largest relative difference that counts as "the same latency": 5 %, the convention of
/// claims.csv. It was set before any run of Figures 6 to 11.
pub(super) const SLACK: f64 = 0.05;
/// Policies in the order of the paper's figures.
pub(super) const POLICIES: [&str; 3] = ["performance+ixgbe", "ondemand+ixgbe", "copi"];
/// Names of the loads.
pub(super) const LOADS: [&str; 3] = ["low", "medium", "high"];

pub(super) fn server(inputs: &Inputs) -> Result<RequestServer, ReproduceError> {
    Ok(inputs.server("xeon-silver-4108")?.requests()?.clone())
}

/// Loads of the profile in requests per second; none of them is one of the compared loads.
pub(super) fn grid(server: &RequestServer, workload: Workload) -> Grid {
    let loads: &[f64] = match workload {
        Workload::Memcached => &[150e3, 300e3, 450e3, 600e3, 740e3, 850e3, 950e3, 1_050e3],
        Workload::Nginx => &[36e3, 54e3, 72e3, 96e3, 120e3, 150e3, 175e3],
    };
    Grid { loads: loads.to_vec(), periods: Grid::periods_of(server), seed: PROFILE_SEED }
}

/// Server of one workload: without the costs of the other one, on which its runs do not depend.
fn server_of(inputs: &Inputs, workload: Workload) -> Result<RequestServer, ReproduceError> {
    let mut server = server(inputs)?;
    let name = workload.to_string();
    server.services.retain(|service, _| *service == name);
    Ok(server)
}

/// Full profile of a workload.
pub(super) fn profiled(
    inputs: &Inputs,
    workload: Workload,
) -> Result<Arc<ProfileTables>, ReproduceError> {
    static MADE: Made<(RequestServer, RequestSpec), Arc<ProfileTables>> = Made::new();
    let server = server_of(inputs, workload)?;
    let requests = inputs.requests(workload, 1.0)?;
    MADE.get_or_make((server.clone(), requests), || {
        Ok(Arc::new(profile(&server, &requests, &grid(&server, workload))?.tables))
    })
}

/// Reports of all policies for one workload at one load.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub rate: f64,
    /// The paper's name for the load; `None` for a load that the paper does not have.
    pub load: Option<&'static str>,
    /// Reports by policy, in the order of [`POLICIES`], and by seed.
    pub reports: Vec<Vec<RequestReport>>,
}

impl Case {
    /// Mean of a figure over the seeds.
    pub fn mean(&self, policy: usize, of: impl Fn(&RequestReport) -> f64) -> f64 {
        let reports = &self.reports[policy];
        reports.iter().map(of).sum::<f64>() / reports.len() as f64
    }
    pub fn p95(&self, policy: usize) -> f64 {
        self.mean(policy, |report| report.latency_p95_seconds.unwrap_or(f64::INFINITY))
    }
    pub fn watts(&self, policy: usize) -> f64 {
        self.mean(policy, |report| report.power_watts)
    }
    /// Saving of Co-PI over another policy, in per cent of that policy's energy.
    pub fn saving(&self, against: usize) -> f64 {
        (1.0 - self.watts(2) / self.watts(against)) * 100.0
    }
    pub fn state(&self, policy: usize) -> f64 {
        self.mean(policy, RequestReport::mean_state)
    }
    pub fn period(&self, policy: usize) -> f64 {
        self.mean(policy, |report| report.period_mean_seconds)
    }
    /// Share of time in the state P`state`, in per cent.
    pub fn share(&self, policy: usize, state: usize) -> f64 {
        self.mean(policy, |report| {
            report.frequency_shares.iter().rev().nth(state).copied().unwrap_or(0.0) * 100.0
        })
    }
}

/// Cases at the published loads of a workload, then cases at loads that nothing was fitted on. The
/// latter are only shown, so that changed inputs go without.
pub(super) fn cases(inputs: &Inputs, workload: Workload) -> Result<Vec<Case>, ReproduceError> {
    static MADE: Made<(RequestServer, RequestSpec), Vec<Case>> = Made::new();
    let server = server_of(inputs, workload)?;
    let requests = inputs.requests(workload, 1.0)?;
    MADE.get_or_make((server.clone(), requests), || make_cases(inputs, &server, requests))
}

fn make_cases(
    inputs: &Inputs,
    server: &RequestServer,
    requests: RequestSpec,
) -> Result<Vec<Case>, ReproduceError> {
    let workload = requests.workload;
    let tables = profiled(inputs, workload)?;
    let published = workload.published_loads().into_iter().zip(LOADS.map(Some));
    let shipped = Inputs::default();
    let changed = *server != server_of(&shipped, workload)?
        || requests != shipped.requests(workload, requests.rate)?;
    let own: &[f64] = match workload {
        _ if changed => &[],
        Workload::Memcached => &[350e3, 550e3, 800e3],
        Workload::Nginx => &[66e3, 110e3],
    };
    let all: Vec<(f64, Option<&'static str>)> =
        published.chain(own.iter().map(|rate| (*rate, None))).collect();
    let runs: Vec<(f64, &str, u64)> = all
        .iter()
        .flat_map(|(rate, _)| POLICIES.map(|policy| (*rate, policy)))
        .flat_map(|(rate, policy)| SEEDS.map(|seed| (rate, policy, seed)))
        .collect();
    let one = |(rate, policy, seed): &(f64, &str, u64)| -> Result<_, ReproduceError> {
        let requests = RequestSpec { rate: *rate, ..requests };
        let setting = setting(server, requests, policy, *seed)?;
        match *policy {
            "copi" => under_copi(&setting, &tables),
            _ => Ok(run_requests(&setting)?),
        }
    };
    // Every run by itself, so that the long ones of Co-PI run beside each other.
    let results = wattline_sim::sweep(&runs, 0, one, || ())
        .map_err(|error| ReproduceError::Model(format!("threads cannot be started: {error}")))?;
    let mut results = results.into_iter();
    let case = |(rate, load)| {
        let of_policy = |_| results.by_ref().take(SEEDS.len()).collect::<Result<Vec<_>, _>>();
        let reports = POLICIES.iter().map(of_policy).collect::<Result<Vec<_>, _>>()?;
        Ok(Case { rate, load, reports })
    };
    all.into_iter().map(case).collect()
}

fn setting<'a>(
    server: &'a RequestServer,
    requests: RequestSpec,
    policy: &str,
    seed: u64,
) -> Result<RequestSetting<'a>, ReproduceError> {
    Ok(RequestSetting {
        server,
        requests,
        policy: PolicySpec::parse(policy)?,
        duration: DURATION,
        warmup: WARMUP,
        seed,
        cores: None,
    })
}

fn under_copi(
    setting: &RequestSetting<'_>,
    tables: &Arc<ProfileTables>,
) -> Result<RequestReport, ReproduceError> {
    let options = copi::Options { slack: SLACK, ..copi::Options::default() };
    Ok(run_requests_with(setting, |context| {
        copi::with_tables(tables.clone(), options, context.platform)
            .map_err(|text| SpecError { text, problems: Vec::new() })
    })?)
}
