//! Statistics of a governor: the answer to `stats`.

use crate::choice;
use crate::config::Config;
use crate::counters::{interface, process};
use crate::guard::Rule;
use crate::session::{Seen, Session};
use wattline_governor::figures::{Figures, Seen as State, Window};
use wattline_knobs::rivals;
use wattline_linux::sysfs::Tree;
use wattline_status::{
    CanSet, CoreStats, Details, GovernStatus, GovernorStats, Latency, Moderation, PlatformName,
    Power, Rival, RuleName,
};

/// Facts for statistics that the session does not know.
pub(crate) struct Context<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The machine's files.
    pub tree: &'a Tree,
    /// Time since the daemon began.
    pub uptime_seconds: f64,
    /// Programs that set the same knobs.
    pub rivals: &'a [rivals::Rival],
    /// Number of sessions that ended because the machine or the configuration changed.
    pub restarts: u64,
    /// Changed parts of the configuration that need a restart.
    pub needs_restart: &'a [&'static str],
}

impl From<Rule> for RuleName {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::Policy => Self::Policy,
            Rule::Late => Self::LatencyTarget,
            Rule::Silent => Self::SilentSource,
            Rule::Pressure => Self::CpuPressure,
        }
    }
}

fn rival(rival: &rivals::Rival) -> Rival {
    let rivals::Rival { name, sets, labels, seen, remedy } = rival;
    Rival {
        name: name.clone(),
        sets: sets.clone(),
        labels: owned(labels),
        seen: seen.clone(),
        remedy: remedy.clone(),
    }
}

fn owned(names: &[impl ToString]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

/// Returns statistics while nothing is governed, because the policy cannot work on the machine.
pub(crate) fn waiting(why: Option<&str>, context: &Context<'_>) -> GovernorStats {
    let Context { config, tree: _, uptime_seconds, rivals, restarts, needs_restart } = *context;
    GovernorStats {
        uptime_seconds,
        needs_restart: owned(needs_restart),
        log_lines_lost: wattline_daemon::logging::lines_lost(),
        govern: GovernStatus {
            profile: config.profile.name.to_owned(),
            overrides: owned(&config.overrides()),
            policy: config.policy.to_string(),
            waits_because: why.map(str::to_owned),
            latency_target_seconds: config.latency_target.map(|target| target.as_seconds()),
            rivals: rivals.iter().map(rival).collect(),
            restarts,
            process: process(),
            ..GovernStatus::default()
        },
        ..GovernorStats::default()
    }
}

/// Returns statistics while the machine is governed.
pub(crate) fn stats(
    session: &mut Session,
    figures: &mut Figures,
    context: &Context<'_>,
) -> GovernorStats {
    let Context { config, tree, .. } = *context;
    let seen = session.look();
    let names = session.inventory.interfaces();
    let mut stats = waiting(None, context);
    stats.ports = names.iter().map(|name| interface(tree, name)).collect();
    stats.workers = seen.as_ref().map(|seen| cores(session, seen)).unwrap_or_default();
    stats.power = seen.as_ref().map(|seen| power(session, figures, context, seen));
    let govern = &mut stats.govern;
    govern.policy_remark = seen.as_ref().and_then(|seen| seen.remark.clone());
    govern.rule = Some(session.rule().into());
    govern.policy_target_seconds = choice::policy_target(config).map(|target| target.as_seconds());
    govern.latency = seen.map(|seen| seen.sources);
    govern.left_out.clone_from(&session.inventory.left_out);
    stats
}

/// Returns statistics by core.
fn cores(session: &Session, seen: &Seen) -> Vec<CoreStats> {
    let cpus = &session.inventory.layout.cpus;
    let core = |(core, view): (usize, &wattline_policy::CoreView)| CoreStats {
        cpu: cpus.get(core).copied(),
        active: true,
        received: view.packets,
        busy_seconds: view.useful.as_seconds(),
        idle_seconds: (view.empty + view.asleep).as_seconds(),
    };
    seen.view.cores.iter().enumerate().map(core).collect()
}

/// Returns power and operating point, with the figures common to all governors summed over all
/// sessions.
fn power(session: &Session, figures: &mut Figures, context: &Context<'_>, seen: &Seen) -> Power {
    let Seen { state, view, totals, .. } = seen;
    figures.take_details(Details { host: Some(session.status()), ..Details::default() });
    figures.take(Some((totals.clone(), None)), Some(state.clone()), Window::LastSeconds);
    let State { platform, point, .. } = state;
    let can = platform.can;
    let latency = view.latency.filter(|view| view.samples > 0);
    let idle = (point.cores.iter())
        .map(|core| platform.idle_states.get(core.idle_limit))
        .map(|state| state.filter(|_| can.limit_idle).map(|state| state.name.to_string()));
    let moderation = if can.set_moderation {
        Moderation {
            moderation_seconds: point.moderation.iter().map(|span| span.as_seconds()).collect(),
            moderation_as_found: point.as_found.to_vec(),
        }
    } else {
        Moderation::default()
    };
    Power {
        platform: PlatformName::Host,
        policy: context.config.policy.split([':', '+']).next().unwrap_or_default().to_owned(),
        latency: Latency {
            latency_mean_seconds: latency.map(|view| view.mean.as_seconds()),
            latency_p95_seconds: latency.map(|view| view.p95.as_seconds()),
            latency_p99_seconds: latency.map(|view| view.p99.as_seconds()),
            ..Latency::default()
        },
        deepest_idle_state: Some(idle.collect()),
        moderation,
        can: Some(CanSet {
            frequency: can.set_frequency,
            idle: can.limit_idle,
            moderation: can.set_moderation,
        }),
        ..figures.power().clone()
    }
}
