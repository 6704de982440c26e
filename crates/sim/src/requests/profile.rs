//! Profiles of a simulated server: the tables that Co-PI searches, full or sparse.

use super::engine::run_requests;
use super::platform::request_platform;
use super::setting::{RequestError, RequestSetting};
use rayon::prelude::*;
use wattline_policy::Registry;
use wattline_policy::tables::fingerprint;
use wattline_server::RequestServer;
use wattline_server::sparse::search;
use wattline_server::tables::{Conditions, ProfilePoint, ProfileTables};
use wattline_traffic::requests::RequestSpec;
use wattline_units::Span;

/// Largest share of the full profile's points that a sparse profile uses.
pub const SPARSE_MOST: f64 = 0.1;
/// Number of requests for a percentile, within the time limits below.
const REQUESTS_OF_A_POINT: f64 = 40_000.0;
/// The same for the driver's default, which sets the target of all decisions at its load.
const REQUESTS_OF_A_DEFAULT: f64 = 400_000.0;
const SHORTEST: f64 = 0.3;
const LONGEST: f64 = 60.0;
const WARMUP: Span = Span::from_millis(50);
const PERCENTILE: f64 = 95.0;
/// Minimum and maximum number of runs of a point that is repeated.
const REPEATS: (usize, usize) = (3, 12);

/// Loads and periods of a profile. It has all V/F states of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Requests per second of the whole server, ascending.
    pub loads: Vec<f64>,
    /// Moderation periods, ascending.
    pub periods: Vec<Span>,
    /// Seed of every point's run.
    pub seed: u64,
    /// Relative standard error of a point's percentile down to which its run is repeated with
    /// further seeds; `None` for one run.
    pub within: Option<f64>,
}

/// A profile and its cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Profiled {
    /// Tables of power and latency.
    pub tables: ProfileTables,
    /// Number of simulated points. The driver's default at each load is not counted, since both
    /// kinds of profile need it.
    pub points: usize,
    /// Number of points of the whole grid.
    pub of: usize,
}

impl Grid {
    /// Returns 24 periods within the card's range, denser at the short end, as the paper advises
    /// (section IV.B). Each is a possible setting of the card.
    pub fn periods_of(server: &RequestServer) -> Vec<Span> {
        const STEPS: u32 = 24;
        let Some(card) = server.nic.moderation else { return Vec::new() };
        let (from, to) = (card.shortest.as_seconds().max(1e-6), card.longest.as_seconds());
        let mut periods: Vec<Span> = (0..STEPS)
            .map(|step| {
                let part = f64::from(step) / f64::from(STEPS - 1);
                card.nearest(Span::from_seconds(from * (to / from).powf(part)))
            })
            .collect();
        periods.dedup();
        periods
    }
}

/// Simulates every point of the grid under policies of the registry that keep it, on all processors
/// of this machine.
///
/// # Errors
/// Fails when the grid is empty or the server cannot be simulated.
pub fn profile(
    server: &RequestServer,
    requests: &RequestSpec,
    grid: &Grid,
    policies: Registry,
) -> Result<Profiled, RequestError> {
    let mut tables = empty(server, requests, grid)?;
    let (states, periods) = (tables.frequencies().len(), grid.periods.len());
    let all: Vec<(usize, usize, usize)> = (0..grid.loads.len())
        .flat_map(|load| (0..states).map(move |state| (load, state)))
        .flat_map(|(load, state)| (0..periods).map(move |period| (load, state, period)))
        .collect();
    let bench = Bench { server, requests, grid, policies };
    let made: Vec<ProfilePoint> = all
        .par_iter()
        .map(|(load, state, period)| bench.point(*load, *state, *period))
        .collect::<Result<_, _>>()?;
    for ((load, state, period), point) in all.iter().zip(made) {
        tables.set(*load, *state, *period, point);
    }
    bench.defaults(&mut tables)?;
    Ok(Profiled { points: all.len(), of: all.len(), tables })
}

/// Simulates a few points of the grid, chosen by the results so far ([`search`]). The other points
/// are missing from the tables.
///
/// # Errors
/// Fails like [`profile`].
pub fn profile_sparse(
    server: &RequestServer,
    requests: &RequestSpec,
    grid: &Grid,
    target: Option<Span>,
    policies: Registry,
) -> Result<Profiled, RequestError> {
    let mut tables = empty(server, requests, grid)?;
    let bench = Bench { server, requests, grid, policies };
    bench.defaults(&mut tables)?;
    let loads: Vec<ProfilePoint> =
        (0..grid.loads.len()).filter_map(|load| tables.default_point(load)).collect();
    let states = server.processor.frequencies.len();
    let found: Vec<Vec<(usize, usize, ProfilePoint)>> = loads
        .par_iter()
        .enumerate()
        .map(|(load, default)| {
            let target = target.map_or(default.latency_seconds, Span::as_seconds);
            let mut found = Vec::new();
            search(states, grid.periods.len(), |state, period| {
                let point = bench.point(load, state, period)?;
                found.push((state, period, point));
                let latency = point.latency_seconds;
                Ok::<_, RequestError>(latency.is_finite() && latency <= target)
            })?;
            Ok(found)
        })
        .collect::<Result<_, RequestError>>()?;
    let points = found.iter().map(Vec::len).sum();
    for (load, found) in found.iter().enumerate() {
        for (state, period, point) in found {
            tables.set(load, *state, *period, *point);
        }
    }
    Ok(Profiled { points, of: tables.all_points(), tables })
}

struct Bench<'a> {
    server: &'a RequestServer,
    requests: &'a RequestSpec,
    grid: &'a Grid,
    policies: Registry,
}

impl Bench<'_> {
    /// Simulates one point with one core and its share of the load. It stands for all cores, since
    /// all have the same setting.
    fn point(
        &self,
        load: usize,
        state: usize,
        period: usize,
    ) -> Result<ProfilePoint, RequestError> {
        let gigahertz = self.server.processor.frequencies[state].gigahertz();
        let nanos = self.grid.periods[period].as_picos() as f64 / 1e3;
        self.run(
            load,
            &format!("napi:frequency_ghz={gigahertz},idle=deepest,moderation={nanos}ns"),
            REQUESTS_OF_A_POINT,
        )
    }

    fn defaults(&self, tables: &mut ProfileTables) -> Result<(), RequestError> {
        let made: Vec<ProfilePoint> = (0..self.grid.loads.len())
            .into_par_iter()
            .map(|load| self.run(load, "performance+ixgbe", REQUESTS_OF_A_DEFAULT))
            .collect::<Result<_, _>>()?;
        for (load, point) in made.into_iter().enumerate() {
            tables.set_default(load, point);
        }
        Ok(())
    }

    /// Runs a point once, or until the standard error of its percentile is small enough.
    fn run(&self, load: usize, policy: &str, requests: f64) -> Result<ProfilePoint, RequestError> {
        let Some(within) = self.grid.within else {
            return self.run_once(load, policy, requests, self.grid.seed);
        };
        let mut points: Vec<ProfilePoint> = Vec::new();
        for repeat in 0..REPEATS.1 {
            let seed = self.grid.seed.wrapping_add(0x9e37_79b9 * repeat as u64);
            let point = self.run_once(load, policy, requests, seed)?;
            // A load that fails in one run counts as not sustained.
            if !point.latency_seconds.is_finite() {
                return Ok(point);
            }
            points.push(point);
            if repeat + 1 >= REPEATS.0 && relative_error(&points) <= within {
                break;
            }
        }
        let mean = |of: fn(&ProfilePoint) -> f64| mean(&points, of);
        Ok(ProfilePoint {
            latency_seconds: mean(|point| point.latency_seconds),
            power_watts: mean(|point| point.power_watts),
        })
    }

    fn run_once(
        &self,
        load: usize,
        policy: &str,
        requests: f64,
        seed: u64,
    ) -> Result<ProfilePoint, RequestError> {
        let rate = self.grid.loads[load];
        let cores = self.server.processor.cores() as f64;
        let seconds = (requests * cores / rate).clamp(SHORTEST, LONGEST);
        let report = run_requests(&RequestSetting {
            server: self.server,
            // Tables are indexed by the load of a core, so the hash of connections does not affect
            // them.
            requests: RequestSpec { rate, connections: 0, ..*self.requests },
            policy: self.policies.parse(policy)?,
            duration: Span::from_seconds(seconds),
            warmup: WARMUP,
            seed,
            cores: Some(1),
        })?;
        let latency = report.latency_p95_seconds.filter(|_| report.sustained);
        Ok(ProfilePoint {
            latency_seconds: latency.unwrap_or(f64::INFINITY),
            power_watts: report.power_watts,
        })
    }
}

fn mean(points: &[ProfilePoint], of: fn(&ProfilePoint) -> f64) -> f64 {
    points.iter().map(of).sum::<f64>() / points.len() as f64
}

/// Returns the relative standard error of the mean latency of several points.
fn relative_error(points: &[ProfilePoint]) -> f64 {
    let mean = mean(points, |point| point.latency_seconds);
    let count = points.len() as f64;
    let squares = points.iter().map(|point| (point.latency_seconds - mean).powi(2)).sum::<f64>();
    (squares / (count - 1.0) / count).sqrt() / mean
}

fn empty(
    server: &RequestServer,
    requests: &RequestSpec,
    grid: &Grid,
) -> Result<ProfileTables, RequestError> {
    let conditions = Conditions {
        version: 1,
        server: server.name.clone(),
        workload: requests.workload.name().to_owned(),
        source: "modelled".to_owned(),
        percentile: PERCENTILE,
        machine: fingerprint(&request_platform(server)),
        // A request of the simulator is one arrival.
        arrivals_per_request: Vec::new(),
        energy: None,
    };
    let cores = server.processor.cores() as f64;
    let loads = grid.loads.iter().map(|load| load / cores).collect();
    ProfileTables::new(conditions, loads, grid.periods.clone()).map_err(|_| RequestError::Grid)
}
