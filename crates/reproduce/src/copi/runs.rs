//! Simulation runs shared by several figures.

use crate::error::ReproduceError;
use crate::inputs::Inputs;
use crate::made::Memo;
use crate::runner::side_by_side;
use std::sync::Arc;
use wattline_policies::copi;
use wattline_policy::SpecError;
use wattline_server::RequestServer;
use wattline_server::tables::ProfileTables;
use wattline_sim::requests::{
    Grid, RequestReport, RequestSetting, profile, profile_sparse, run_requests, run_requests_with,
};
use wattline_traffic::requests::{RequestSpec, Workload};
use wattline_units::Span;

/// Seed of the profiles and of Figures 1 to 4; parameters were fitted on it.
pub(super) const PROFILE_SEED: u64 = 1;
/// Seeds of Figures 6 to 11; nothing was fitted on them.
pub(super) const SEEDS: [u64; 3] = [1_001, 1_002, 1_003];
const DURATION: Span = Span::from_millis(2_000);
/// Duration of runs that only compare verdicts, with one seed and sparse tables.
const BRIEF: Span = Span::from_millis(300);
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
    let mut server = inputs.server("xeon-silver-4108")?.requests()?.clone();
    inputs.choose(&mut server)?;
    Ok(server)
}

/// Returns the loads of the profile in requests per second; none is a compared load.
pub(super) fn grid(server: &RequestServer, workload: Workload) -> Grid {
    let loads: &[f64] = match workload {
        Workload::Memcached => &[150e3, 300e3, 450e3, 600e3, 740e3, 850e3, 950e3, 1_050e3],
        Workload::Nginx => &[36e3, 54e3, 72e3, 96e3, 120e3, 150e3, 175e3],
    };
    let periods = Grid::periods_of(server);
    Grid { loads: loads.to_vec(), periods, seed: PROFILE_SEED, within: None }
}

/// Everything that results depend on: a server, its requests, and the length of its runs.
#[derive(Debug, Clone, PartialEq)]
struct Subject {
    server: RequestServer,
    requests: RequestSpec,
    brief: bool,
}

impl Subject {
    /// Creates the subject without the costs of the other workload, which do not affect its runs.
    fn new(inputs: &Inputs, workload: Workload, connections: u32) -> Result<Self, ReproduceError> {
        let mut server = server(inputs)?;
        let name = workload.to_string();
        server.services.retain(|service, _| *service == name);
        let requests = inputs.requests(workload, 1.0)?;
        let requests = RequestSpec { connections, ..requests };
        Ok(Self { server, requests, brief: inputs.brief })
    }

    /// Returns the full profile. It depends on the load of a core, not on the connections.
    fn profiled(&self) -> Result<Arc<ProfileTables>, ReproduceError> {
        static MADE: Memo<Subject, Arc<ProfileTables>> = Memo::new();
        let requests = RequestSpec { connections: 0, ..self.requests };
        let even = Self { requests, ..self.clone() };
        MADE.get_or_make(even, || {
            let grid = grid(&self.server, requests.workload);
            let policies = wattline_policies::POLICIES;
            let profiled = if self.brief {
                profile_sparse(&self.server, &requests, &grid, None, policies)
            } else {
                profile(&self.server, &requests, &grid, policies)
            };
            Ok(Arc::new(profiled?.tables))
        })
    }

    /// Returns reports of a policy without tables, by load and seed.
    fn baseline(&self, policy: &str, rates: &[f64]) -> Result<Reports, ReproduceError> {
        static MADE: Memo<(Subject, String, Vec<f64>), Reports> = Memo::new();
        let wanted: Vec<_> = rates.iter().map(|rate| (*rate, None)).collect();
        MADE.get_or_make((self.clone(), policy.to_owned(), rates.to_vec()), || {
            under(self, policy, &wanted)
        })
    }
}

/// Reports by load and seed.
type Reports = Vec<Vec<RequestReport>>;

/// Returns the full profile of a workload.
pub(super) fn profiled(
    inputs: &Inputs,
    workload: Workload,
) -> Result<Arc<ProfileTables>, ReproduceError> {
    Subject::new(inputs, workload, 0)?.profiled()
}

/// Returns full profiles of a workload by deepest allowed idle state, the shallowest first.
pub(super) fn limited(
    inputs: &Inputs,
    workload: Workload,
) -> Result<Vec<(String, Arc<ProfileTables>)>, ReproduceError> {
    let subject = Subject::new(inputs, workload, 0)?;
    let states = subject.server.idle_states.iter().enumerate();
    states
        .map(|(deepest, state)| {
            let mut limited = subject.clone();
            limited.server.idle_states.truncate(deepest + 1);
            Ok((state.name.clone(), limited.profiled()?))
        })
        .collect()
}

/// Returns reports of a policy without tables, at one load, by seed.
pub(super) fn under_policy(
    inputs: &Inputs,
    workload: Workload,
    policy: &str,
    rate: f64,
) -> Result<Vec<RequestReport>, ReproduceError> {
    let subject = Subject::new(inputs, workload, 0)?;
    Ok(subject.baseline(policy, &[rate])?.remove(0))
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
    /// Returns the mean of a figure over the seeds.
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
    /// Returns the saving of Co-PI over another policy, in per cent of that policy's energy.
    pub fn saving(&self, against: usize) -> f64 {
        (1.0 - self.watts(2) / self.watts(against)) * 100.0
    }
    pub fn state(&self, policy: usize) -> f64 {
        self.mean(policy, RequestReport::mean_state)
    }
    pub fn period(&self, policy: usize) -> f64 {
        self.mean(policy, |report| report.period_mean_seconds)
    }
    /// Returns the share of time in the state P`state`, in per cent.
    pub fn share(&self, policy: usize, state: usize) -> f64 {
        self.mean(policy, |report| {
            report.frequency_shares.iter().rev().nth(state).copied().unwrap_or(0.0) * 100.0
        })
    }
}

/// Returns the error of a workload without its three published loads.
pub(super) fn loads_missing() -> ReproduceError {
    ReproduceError::Model("each workload has three published loads".into())
}

/// Returns cases at the published loads of a workload, then cases at loads that nothing was fitted
/// on. The latter are only shown, so changed inputs omit them.
pub(super) fn cases(inputs: &Inputs, workload: Workload) -> Result<Vec<Case>, ReproduceError> {
    cases_with(inputs, workload, 0)
}

/// Returns cases with equal load (`connections` 0), or with connections that the card hashes onto
/// the cores; then P95 of the whole server is the target of every core.
pub(super) fn cases_with(
    inputs: &Inputs,
    workload: Workload,
    connections: u32,
) -> Result<Vec<Case>, ReproduceError> {
    static MADE: Memo<Subject, Vec<Case>> = Memo::new();
    let subject = Subject::new(inputs, workload, connections)?;
    MADE.get_or_make(subject.clone(), || make_cases(&subject))
}

fn make_cases(subject: &Subject) -> Result<Vec<Case>, ReproduceError> {
    let workload = subject.requests.workload;
    let published = workload.published_loads().into_iter().zip(LOADS.map(Some));
    let shipped = Subject::new(&Inputs::default(), workload, 0)?;
    let own: &[f64] = match workload {
        _ if *subject != shipped => &[],
        Workload::Memcached => &[350e3, 550e3, 800e3],
        Workload::Nginx => &[66e3, 110e3],
    };
    let all: Vec<(f64, Option<&'static str>)> =
        published.chain(own.iter().map(|rate| (*rate, None))).collect();
    let [performance, ondemand, copi] = POLICIES;
    let rates: Vec<f64> = all.iter().map(|(rate, _)| *rate).collect();
    let (fast, slow) =
        (subject.baseline(performance, &rates)?, subject.baseline(ondemand, &rates)?);
    // P95 of the whole server with the same connections, as the paper measures its target.
    let target = |reports: &[RequestReport]| {
        (subject.requests.connections > 0).then(|| {
            let p95 = reports.iter().map(|r| r.latency_p95_seconds.unwrap_or(f64::INFINITY));
            let mean = p95.sum::<f64>() / reports.len() as f64;
            Span::from_seconds(mean * (1.0 + SLACK))
        })
    };
    let wanted: Vec<(f64, Option<Span>)> =
        all.iter().zip(&fast).map(|((rate, _), reports)| (*rate, target(reports))).collect();
    let governed = under(subject, copi, &wanted)?;
    let reports = fast.into_iter().zip(slow).zip(governed);
    let made = all.into_iter().zip(reports).map(|((rate, load), ((fast, slow), governed))| Case {
        rate,
        load,
        reports: vec![fast, slow, governed],
    });
    Ok(made.collect())
}

/// Returns reports of one policy by load and seed. Each run is a separate job, so that long runs
/// are parallel.
fn under(
    subject: &Subject,
    policy: &str,
    wanted: &[(f64, Option<Span>)],
) -> Result<Reports, ReproduceError> {
    let tables = if policy == "copi" { Some(subject.profiled()?) } else { None };
    let (seeds, duration) =
        if subject.brief { (&SEEDS[..1], BRIEF) } else { (&SEEDS[..], DURATION) };
    let runs: Vec<(f64, Option<Span>, u64)> = wanted
        .iter()
        .flat_map(|(rate, target)| seeds.iter().map(|seed| (*rate, *target, *seed)))
        .collect();
    let one = |(rate, target, seed): &(f64, Option<Span>, u64)| -> Result<_, ReproduceError> {
        let requests = RequestSpec { rate: *rate, ..subject.requests };
        let setting = RequestSetting {
            server: &subject.server,
            requests,
            policy: wattline_policies::POLICIES.parse(policy)?,
            duration,
            warmup: WARMUP,
            seed: *seed,
            cores: None,
        };
        match &tables {
            Some(tables) => under_copi(&setting, tables, *target),
            None => Ok(run_requests(&setting)?),
        }
    };
    let mut reports = side_by_side(&runs, one)?.into_iter();
    Ok(wanted.iter().map(|_| reports.by_ref().take(seeds.len()).collect()).collect())
}

fn under_copi(
    setting: &RequestSetting<'_>,
    tables: &Arc<ProfileTables>,
    target: Option<Span>,
) -> Result<RequestReport, ReproduceError> {
    let options = copi::Options { slack: SLACK, target, ..copi::Options::default() };
    Ok(run_requests_with(setting, |context| {
        copi::with_tables(tables.clone(), options, context.platform)
            .map_err(|text| SpecError { text, problems: Vec::new() })
    })?)
}
