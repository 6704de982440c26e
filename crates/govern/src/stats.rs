//! What a governor tells of itself: the answer to `stats`, by the names that a router's has, so
//! that `wattline stats`, `top` and the metrics read either.

use crate::choice;
use crate::config::Config;
use crate::counters::{Interface, Own};
use crate::session::{Seen, Session};
use serde_json::{Value, json};
use wattline_knobs::rivals::Rival;
use wattline_linux::sysfs::Tree;

/// What is told beside what the session knows.
pub(crate) struct Around<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The machine's files.
    pub tree: &'a Tree,
    /// Since the daemon began.
    pub uptime_seconds: f64,
    /// Programs that set the same knobs.
    pub rivals: &'a [Rival],
    /// Stretches of governing that ended because the machine or the configuration changed.
    pub restarts: u64,
    /// Parts of the configuration, as last read, that are not in force before a restart.
    pub needs_restart: &'a [&'static str],
}

/// While nothing is governed, because the policy cannot work on the machine as it is.
pub(crate) fn waiting(why: Option<&str>, around: &Around<'_>) -> Value {
    let Around { config, tree: _, uptime_seconds, rivals, restarts, needs_restart } = *around;
    json!({
        "uptime_seconds": uptime_seconds,
        "needs_restart": needs_restart,
        "log_lines_lost": wattline_daemon::logging::lines_lost(),
        "govern": {
            "profile": config.profile.name,
            "overrides": config.overrides(),
            "policy": config.policy,
            "waits_because": why,
            "latency_target_seconds": config.latency_target.map(|target| target.as_seconds()),
            "rivals": rivals,
            "restarts": restarts,
            "process": Own::read(),
        },
    })
}

/// Everything, now.
pub(crate) fn stats(session: &mut Session, around: &Around<'_>) -> Value {
    let Around { config, tree, uptime_seconds, rivals, restarts, needs_restart } = *around;
    let seen = session.look();
    let names = session.inventory.interfaces();
    let ports: Vec<Interface> = names.iter().map(|name| Interface::read(tree, name)).collect();
    let target = config.latency_target.map(|target| target.as_seconds());
    let govern = json!({
        "profile": config.profile.name,
        "overrides": config.overrides(),
        "policy": config.policy,
        "policy_remark": seen.as_ref().and_then(|seen| seen.remark.clone()),
        "rule": session.rule().name(),
        "latency_target_seconds": target,
        "policy_target_seconds": choice::policy_target(config).map(|target| target.as_seconds()),
        "latency": seen.as_ref().map(|seen| &seen.sources),
        "left_out": session.inventory.left_out,
        "rivals": rivals,
        "restarts": restarts,
        "process": Own::read(),
    });
    json!({
        "uptime_seconds": uptime_seconds,
        "needs_restart": needs_restart,
        "log_lines_lost": wattline_daemon::logging::lines_lost(),
        "ports": ports,
        "workers": seen.as_ref().map(|seen| cores(session, seen)),
        "power": seen.as_ref().map(|seen| power(session, seen)),
        "govern": govern,
    })
}

/// By core.
fn cores(session: &Session, seen: &Seen) -> Vec<Value> {
    let cpus = &session.inventory.layout.cpus;
    let core = |(core, view): (usize, &wattline_policy::CoreView)| {
        json!({
            "cpu": cpus.get(core),
            "active": true,
            "received": view.packets,
            "busy_seconds": view.useful.as_seconds(),
            "idle_seconds": (view.empty + view.asleep).as_seconds(),
        })
    };
    seen.view.cores.iter().enumerate().map(core).collect()
}

/// What the governor did and what was drawn, by the names of `wattline_router::stats::PowerStats`.
fn power(session: &Session, seen: &Seen) -> Value {
    let Seen { platform, point, totals, recent, knobs, decisions, policy, view, .. } = seen;
    let hertz = |index: usize| platform.frequencies.get(index).map_or(0.0, |hertz| hertz.0);
    // What runs at a frequency that nobody sets runs at one that nobody here knows.
    let frequencies: Vec<f64> = if platform.can.set_frequency {
        point.frequencies(platform).map(hertz).collect()
    } else {
        Vec::new()
    };
    let latency = view.latency.filter(|view| view.samples > 0);
    let idle: Vec<Option<&str>> = (point.cores.iter())
        .map(|core| platform.idle_states.get(core.idle_limit))
        .map(|state| state.filter(|_| platform.can.limit_idle).map(|state| &*state.name))
        .collect();
    let moderation: Vec<f64> = point.moderation.iter().map(|span| span.as_seconds()).collect();
    let as_found: &[bool] = if platform.can.set_moderation { &point.as_found } else { &[] };
    let energy = &totals.machine.energy;
    json!({
        "platform": "host",
        "policy": policy,
        "source": energy.source,
        "accuracy": energy.accuracy,
        "power_watts": recent.power_watts,
        "power_by_component_watts": recent.power_by_component_watts,
        "power_rest_watts": recent.power_rest_watts,
        "latency_mean_seconds": latency.map(|view| view.mean.as_seconds()),
        "latency_p95_seconds": latency.map(|view| view.p95.as_seconds()),
        "latency_p99_seconds": latency.map(|view| view.p99.as_seconds()),
        "energy_joules": energy.whole.map(|whole| whole.0),
        "energy_by_component_joules":
            energy.parts.iter().map(|(name, part)| ((*name).to_owned(), json!(part.0)))
                .collect::<serde_json::Map<_, _>>(),
        "energy_unmetered_seconds": energy.unmetered.as_seconds(),
        "offered_packets": totals.machine.offered,
        "forwarded_packets": totals.machine.forwarded,
        "dropped_packets": totals.machine.dropped,
        "cores": platform.cores,
        "cores_active": point.active.len(),
        "frequency_hertz": frequencies,
        "deepest_idle_state": idle,
        "moderation_seconds": if platform.can.set_moderation { moderation } else { Vec::new() },
        "moderation_as_found": as_found,
        "can": {
            "frequency": platform.can.set_frequency,
            "idle": platform.can.limit_idle,
            "moderation": platform.can.set_moderation,
        },
        "transitions": totals.own.core_changes + totals.own.frequency_changes,
        "core_changes": totals.own.core_changes,
        "frequency_changes": totals.own.frequency_changes,
        "decisions": totals.own.decisions,
        "reason": decisions.last().map(|last| &last.reason),
        "last_changes": decisions,
        "entries_moved": totals.machine.entries_moved,
        "steps": totals.own.steps,
        "steps_altered": totals.own.altered,
        "steps_failed": totals.own.failed,
        "knobs": knobs,
        "host": session.status(),
    })
}
