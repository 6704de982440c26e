//! Plays a case in the packet simulator and judges the result.

use crate::arrivals::Arrivals;
use crate::case::{Budget, Case};
use crate::error::LeagueError;
use crate::point::FixedPoint;
use crate::script::Script;
use crate::wrong::{Metered, Wrong};
use serde::{Deserialize, Serialize};
use wattline_cores::ModelError;
use wattline_policies::POLICIES;
use wattline_policy::{BuildContext, PolicySpec, build};
use wattline_sim::Report;
use wattline_units::{Span, Time};

/// Result of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Played {
    /// Energy of the server.
    pub energy_joules: f64,
    /// Share of the offered packets that were late: packets that took longer than the budget,
    /// dropped packets, and packets still waiting at the end although their budget is over.
    pub late_fraction: f64,
    /// Packets dropped because their ring was full.
    pub dropped_packets: u64,
    /// Packets that a later packet of their flow overtook.
    pub reordered_packets: u64,
    /// Changes of the active cores or of frequencies, per second.
    pub changes_per_second: f64,
    /// Number of those changes in the whole run.
    pub changes: u64,
    /// 99th percentile of latency; `None` without packets.
    pub p99_seconds: Option<f64>,
    /// 99.9th percentile of latency; `None` without packets.
    #[serde(skip)]
    pub p999_seconds: Option<f64>,
    /// Mean number of active cores.
    pub cores_active_mean: f64,
    /// True if the budget was kept: no packet was dropped, and no more were late than allowed.
    pub feasible: bool,
    /// Late packets by interval; empty if no intervals were requested.
    #[serde(skip)]
    pub late_by_interval: Vec<u64>,
}

impl Played {
    /// Judges a report by a budget. `slack` is the time before the end in which an arrived packet
    /// may still wait without being late.
    pub fn judge(report: &Report, budget: Budget, arrivals: &Arrivals, slack: f64) -> Self {
        Self::of(report, report.late_packets.unwrap_or(0), budget, arrivals.in_last(slack))
    }

    /// Judges a report by a budget. `late` packets exceeded it, and `recent` packets may wait at
    /// the end.
    fn of(report: &Report, late: u64, budget: Budget, recent: u64) -> Self {
        let overdue = report.waiting_at_end_packets.saturating_sub(recent);
        let late = late + report.dropped_packets + overdue;
        let late_fraction = late as f64 / report.offered_packets.max(1) as f64;
        let of_interval =
            |report: &Report| report.late_packets.unwrap_or(0) + report.dropped_packets;
        Self {
            energy_joules: report.energy_joules,
            late_fraction,
            dropped_packets: report.dropped_packets,
            reordered_packets: report.reordered_packets,
            changes_per_second: report.transitions as f64 / report.duration_seconds,
            changes: report.transitions,
            p99_seconds: report.latency_p99_seconds,
            p999_seconds: report.latency_p999_seconds,
            cores_active_mean: report.cores_active_mean,
            feasible: report.dropped_packets == 0 && late_fraction <= budget.late,
            late_by_interval: report.intervals.iter().map(of_interval).collect(),
        }
    }
}

/// Plays a policy of the registry.
///
/// # Errors
/// When the policy cannot be built for the server, or the packets cannot be read.
pub fn play_policy(
    case: &Case<'_>,
    policy: &PolicySpec,
    budget: Budget,
    arrivals: &Arrivals,
) -> Result<Played, LeagueError> {
    let slack = case.slack_seconds(budget, u32::from(arrivals.shortest))?;
    let report = case.scenario(policy.clone(), &[budget.p99]).run()?;
    Ok(Played::judge(&report, budget, arrivals, slack))
}

/// Plays a policy of the registry once and judges it by several budgets, each with the packets that
/// may wait at the end.
///
/// # Errors
/// As [`play_policy`].
pub(crate) fn play_within(
    case: &Case<'_>,
    policy: &PolicySpec,
    budgets: &[(Budget, u64)],
) -> Result<Vec<Played>, LeagueError> {
    let bounds: Vec<Span> = budgets.iter().map(|(budget, _)| budget.p99).collect();
    let report = case.scenario(policy.clone(), &bounds).run()?;
    let late = [report.late_packets.unwrap_or(0)];
    let late = late.iter().chain(&report.late_packets_further);
    let judge = |((budget, recent), late): (&(Budget, u64), &u64)| {
        Played::of(&report, *late, *budget, *recent)
    };
    Ok(budgets.iter().zip(late).map(judge).collect())
}

/// Plays a policy of the registry on a machine that differs from the policy's description of it.
///
/// # Errors
/// As [`play_policy`].
pub fn play_wrong(
    case: &Case<'_>,
    policy: &PolicySpec,
    budget: Budget,
    arrivals: &Arrivals,
    wrong: &Wrong,
) -> Result<Played, LeagueError> {
    let slack = case.slack_seconds(budget, u32::from(arrivals.shortest))?;
    let described = wrong.server(case.server);
    let mut scenario = case.scenario(policy.clone(), &[budget.p99]);
    scenario.setting.knobs = wrong.knobs;
    let report = scenario.run_with(|context| {
        let packet = context
            .packet
            .and_then(|(_, bytes)| Some((described.packet_cost(case.application, bytes)?, bytes)));
        let server = (!wrong.no_file).then_some(&described);
        let context = BuildContext { server, packet, ..*context };
        let inner = build(policy, &context).map_err(ModelError::from)?;
        Ok(Box::new(Metered::new(inner, wrong.meter, case.seed)))
    })?;
    Ok(Played::judge(&report, budget, arrivals, slack))
}

/// Plays a sequence of operating points. Each applies from its time, counted from the start of the
/// warm-up; the first applies from the start. Late packets are counted for each `interval`.
///
/// # Errors
/// When the packets cannot be read.
pub fn play_points(
    case: &Case<'_>,
    points: Vec<(Time, FixedPoint)>,
    budget: Budget,
    arrivals: &Arrivals,
    interval: Option<Span>,
) -> Result<Played, LeagueError> {
    let slack = case.slack_seconds(budget, u32::from(arrivals.shortest))?;
    let unused = POLICIES.parse("poll").map_err(ModelError::from).map_err(sim)?;
    let mut scenario = case.scenario(unused, &[budget.p99]);
    scenario.setting.interval = interval;
    let report = scenario.run_with(|context| {
        Ok(Box::new(Script::new(&points, case.server, context.platform.cores)))
    })?;
    Ok(Played::judge(&report, budget, arrivals, slack))
}

fn sim(error: ModelError) -> LeagueError {
    LeagueError::Sim(error.into())
}
