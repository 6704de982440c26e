//! Results of a simulation of a request server.

use super::setting::RequestSetting;
use super::spent::Spent;
use schemars::JsonSchema;
use serde::Serialize;
use wattline_governor::decisions::Decision;
use wattline_governor::ledger::Entry;
use wattline_policy::Latency;
use wattline_policy::Platform;
use wattline_server::RequestServer;
use wattline_units::{Accuracy, Provenance, Source, Watts};

/// Minimum share of requests that must be answered for the load to count as sustained.
const SUSTAINED: f64 = 0.99;

/// One run of a request server. Power and energy are those of the processor's package.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RequestReport {
    /// Simulated time.
    pub duration_seconds: f64,
    /// Requests that reached the card.
    pub offered_requests: u64,
    /// Requests that were answered.
    pub answered_requests: u64,
    /// Requests dropped because a ring was full.
    pub dropped_requests: u64,
    /// Requests inside the server at the end of the span.
    pub waiting_at_end_requests: u64,
    /// Requests inside the server at the start of the span.
    pub waiting_at_start_requests: u64,
    /// Offered requests per second at the simulated cores.
    pub offered_rate_rps: f64,
    /// Answered requests per second.
    pub answered_rate_rps: f64,
    /// True if at least 99 % of the requests were answered within the span. Latencies cover the
    /// answered ones: with 1 % dropped, the 95th percentile of all is the 96th of these.
    pub sustained: bool,
    /// Mean latency from the client's card and back to it.
    pub latency_mean_seconds: Option<f64>,
    /// Median latency.
    pub latency_p50_seconds: Option<f64>,
    /// 95th percentile of the latency.
    pub latency_p95_seconds: Option<f64>,
    /// 99th percentile of the latency.
    pub latency_p99_seconds: Option<f64>,
    /// Longest latency.
    pub latency_max_seconds: Option<f64>,
    /// Mean power of the package.
    pub power_watts: f64,
    /// Energy of the package.
    pub energy_joules: f64,
    /// Energy per answered request.
    pub energy_per_request_joules: Option<f64>,
    /// Part of the power: the package without cores and uncore.
    pub package_power_watts: f64,
    /// Part of the power: the uncore.
    pub uncore_power_watts: f64,
    /// Part of the power: cores that execute.
    pub awake_power_watts: f64,
    /// Part of the power: cores that idle.
    pub idle_power_watts: f64,
    /// Origin of the power and energy figures.
    pub source: Source,
    /// Accuracy of the power and energy figures.
    pub accuracy: Accuracy,
    /// Interrupts per answered request.
    pub interrupts_per_request: Option<f64>,
    /// Number of changes of V/F states.
    pub transitions: u64,
    /// Number of times that the policy was asked.
    pub decisions: u64,
    /// Frequencies of the V/F states, slowest first.
    pub frequencies_hertz: Vec<f64>,
    /// Share of time in each V/F state, over all cores.
    pub frequency_shares: Vec<f64>,
    /// Names of the idle states.
    pub idle_states: Vec<String>,
    /// Share of time with each moderation period, over all cores, shortest period first.
    pub periods: Vec<PeriodShare>,
    /// Mean moderation period, weighted by time.
    pub period_mean_seconds: f64,
    /// Results of each simulated core.
    pub cores: Vec<RequestCore>,
    /// The policy's remark on its decisions, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_remark: Option<String>,
    /// The last changes that the policy requested, with their reasons, the oldest first.
    #[serde(skip)]
    pub last_changes: Vec<Decision>,
    /// Outcomes of the steps since the run began, by knob; empty if the knobs are ideal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub knobs: Vec<Entry>,
    /// Real time of the simulation.
    pub wall_seconds: f64,
}

/// A moderation period and its share of the time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct PeriodShare {
    /// Least time between two interrupts.
    pub period_seconds: f64,
    /// Share of the time, 0 to 1.
    pub share: f64,
}

/// Shares of time of one core, which add up to 1, and its results.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct RequestCore {
    /// Share of time in the application.
    pub application: f64,
    /// Share of time in interrupts and protocol, including the exits from idle states.
    pub kernel: f64,
    /// Share of time in each idle state.
    pub idle: Vec<f64>,
    /// Energy of the core alone.
    pub energy_joules: f64,
    /// Number of requests that the core answered.
    pub answered_requests: u64,
}

/// Values of all counts and sums at one moment.
#[derive(Debug, Clone)]
pub(super) struct Totals {
    pub at: u64,
    pub spent: Vec<Spent>,
    pub backlog: u64,
    pub uncore_joules: f64,
    pub transitions: u64,
    pub decisions: u64,
}

/// Mean power by part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts {
    package: Watts,
    uncore: Watts,
    awake: Watts,
    idle: Watts,
}

impl Parts {
    pub fn total(&self) -> Watts {
        self.package + self.uncore + self.awake + self.idle
    }
}

impl Totals {
    /// Returns the totals at the start of the run, for these cores.
    pub fn zero(&self) -> Self {
        let empty = |spent: &Spent| {
            Spent::new(spent.awake.len(), spent.idle.len() / spent.awake.len().max(1))
        };
        Self {
            at: 0,
            spent: self.spent.iter().map(empty).collect(),
            backlog: 0,
            uncore_joules: 0.0,
            transitions: 0,
            decisions: 0,
        }
    }

    pub fn seconds_since(&self, earlier: &Self) -> f64 {
        (self.at - earlier.at) as f64 * 1e-12
    }

    /// Returns the mean power since an earlier moment; the simulated cores stand for the whole
    /// server.
    pub fn parts_since(
        &self,
        earlier: &Self,
        server: &RequestServer,
        platform: &Platform,
        cores: usize,
    ) -> Parts {
        let seconds = self.seconds_since(earlier).max(f64::MIN_POSITIVE);
        let stand_for = server.processor.cores() as f64 / cores as f64;
        let picos = ((self.at - earlier.at) as f64).max(1.0);
        let deepest = server.idle_states.len();
        let (mut awake, mut idle) = (0.0, 0.0);
        // Cores share neither queues nor work, so that they idle independently of each other.
        let (mut still, mut asleep) = (1.0, 1.0);
        for (now, then) in self.spent.iter().zip(&earlier.spent) {
            let spent = now.since(then);
            let (core_awake, core_idle) = core_joules(&spent, server, platform);
            awake += core_awake;
            idle += core_idle;
            let deep = spent.idle.iter().skip(deepest - 1).step_by(deepest).sum::<u64>();
            still *= (spent.asleep() as f64 / picos).powf(stand_for);
            asleep *= (deep as f64 / picos).powf(stand_for);
        }
        let uncore = Watts((self.uncore_joules - earlier.uncore_joules) / seconds);
        let (package, uncore) = server.power.without_cores(uncore, 1.0 - still, asleep);
        Parts {
            package,
            uncore,
            awake: Watts(awake * stand_for / seconds),
            idle: Watts(idle * stand_for / seconds),
        }
    }
}

/// Returns the energy of one core, executing and idle, in joules.
fn core_joules(spent: &Spent, server: &RequestServer, platform: &Platform) -> (f64, f64) {
    let awake = spent.awake.iter().zip(&platform.frequencies).enumerate();
    let awake: f64 = awake
        .map(|(state, (picos, frequency))| {
            server.power.core_awake(state, *frequency).0 * *picos as f64 * 1e-12
        })
        .sum();
    let states = server.idle_states.len();
    let idle = spent.idle.iter().enumerate().map(|(index, picos)| {
        let (state, idle) = (index / states, &server.idle_states[index % states]);
        let watts = idle.power + server.power.core_static(state) * idle.static_share;
        watts.0 * *picos as f64 * 1e-12
    });
    (awake, idle.sum())
}

impl RequestReport {
    pub(super) fn between(
        from: &Totals,
        until: &Totals,
        setting: &RequestSetting<'_>,
        platform: &Platform,
    ) -> Self {
        let server = setting.server;
        let seconds = until.seconds_since(from);
        let spent: Vec<Spent> =
            until.spent.iter().zip(&from.spent).map(|(now, then)| now.since(then)).collect();
        let sum = |of: fn(&Spent) -> u64| spent.iter().map(of).sum::<u64>();
        let (offered, answered) = (sum(|s| s.arrivals), sum(|s| s.responses));
        let parts = until.parts_since(from, server, platform, spent.len());
        let power = parts.total().0;
        let picos = (until.at - from.at) as f64;
        let states = server.idle_states.len();
        let per_request = |value: f64| (answered > 0).then(|| value / answered as f64);
        let in_state = |state: usize| -> u64 {
            let of = |s: &Spent| -> u64 {
                s.awake[state] + s.idle[state * states..(state + 1) * states].iter().sum::<u64>()
            };
            spent.iter().map(of).sum()
        };
        let cores = spent.iter().map(|s| {
            let (awake, idle) = core_joules(s, server, platform);
            RequestCore {
                application: s.application as f64 / picos,
                kernel: s.kernel as f64 / picos,
                idle: (0..states)
                    .map(|idle| {
                        s.idle.iter().skip(idle).step_by(states).sum::<u64>() as f64 / picos
                    })
                    .collect(),
                energy_joules: awake + idle,
                answered_requests: s.responses,
            }
        });
        let Provenance { source, accuracy } = Provenance::MODELLED;
        Self {
            duration_seconds: seconds,
            offered_requests: offered,
            answered_requests: answered,
            dropped_requests: sum(|s| s.drops),
            waiting_at_end_requests: until.backlog,
            waiting_at_start_requests: from.backlog,
            offered_rate_rps: offered as f64 / seconds,
            answered_rate_rps: answered as f64 / seconds,
            sustained: answered as f64 >= SUSTAINED * offered as f64,
            latency_mean_seconds: None,
            latency_p50_seconds: None,
            latency_p95_seconds: None,
            latency_p99_seconds: None,
            latency_max_seconds: None,
            power_watts: power,
            energy_joules: power * seconds,
            energy_per_request_joules: per_request(power * seconds),
            package_power_watts: parts.package.0,
            uncore_power_watts: parts.uncore.0,
            awake_power_watts: parts.awake.0,
            idle_power_watts: parts.idle.0,
            source,
            accuracy,
            interrupts_per_request: per_request(sum(|s| s.interrupts) as f64),
            transitions: until.transitions - from.transitions,
            decisions: until.decisions - from.decisions,
            frequencies_hertz: platform.frequencies.iter().map(|f| f.0).collect(),
            frequency_shares: (0..platform.frequencies.len())
                .map(|state| in_state(state) as f64 / picos / spent.len() as f64)
                .collect(),
            idle_states: server.idle_states.iter().map(|state| state.name.clone()).collect(),
            periods: Vec::new(),
            period_mean_seconds: 0.0,
            cores: cores.collect(),
            policy_remark: None,
            last_changes: Vec::new(),
            knobs: Vec::new(),
            wall_seconds: 0.0,
        }
    }

    pub(super) fn take_latency(&mut self, latency: &Latency) {
        self.latency_mean_seconds = latency.mean();
        self.latency_p50_seconds = latency.quantile(0.5);
        self.latency_p95_seconds = latency.quantile(0.95);
        self.latency_p99_seconds = latency.quantile(0.99);
        self.latency_max_seconds = latency.max();
    }

    pub(super) fn take_periods<'p>(&mut self, cores: impl Iterator<Item = &'p [(u64, u64)]>) {
        let mut all: Vec<(u64, u64)> = cores.flatten().copied().collect();
        all.sort_unstable();
        let total = all.iter().map(|(_, span)| *span as f64).sum::<f64>().max(1.0);
        for (period, span) in all {
            let (period_seconds, share) = (period as f64 * 1e-12, span as f64 / total);
            self.period_mean_seconds += period_seconds * share;
            match self.periods.last_mut() {
                Some(last) if last.period_seconds == period_seconds => last.share += share,
                _ => self.periods.push(PeriodShare { period_seconds, share }),
            }
        }
    }

    /// Returns the mean V/F state over time, numbered as in Co-PI: 0 is the fastest.
    pub fn mean_state(&self) -> f64 {
        let states = self.frequency_shares.iter().rev().enumerate();
        states.map(|(state, share)| state as f64 * share).sum()
    }
}
