//! What the log says: what is governed and why, what rules, who else sets the same knobs.

use crate::config::{Config, Moderation};
use crate::guard::Rule;
use crate::inventory::Inventory;
use crate::session::Seen;
use wattline_host::Status;
use wattline_knobs::rivals::Rival;
use wattline_policy::Platform;
use wattline_units::Span;

/// What the governor will do and why, a line each.
pub(crate) fn lines(config: &Config, inventory: &Inventory, platform: &Platform) -> Vec<String> {
    let mut lines = vec![
        format!("profile {}: {}", config.profile.name, config.profile.summary),
        format!("policy {}", config.policy),
    ];
    let cpus = inventory.layout.cpus.len();
    let can = platform.can;
    if can.set_frequency {
        let range = platform.frequencies.first().zip(platform.frequencies.last());
        let (low, high) =
            range.map_or((0.0, 0.0), |(low, high)| (low.gigahertz(), high.gigahertz()));
        lines.push(format!(
            "frequency of {cpus} CPUs: {low:.2} to {high:.2} GHz in {} steps",
            platform.frequencies.len()
        ));
    }
    if can.limit_idle {
        let names: Vec<&str> = platform.idle_states.iter().map(|state| &*state.name).collect();
        let bound = config
            .idle_latency
            .map_or("any".to_owned(), |span| format!("those that wake up within {}", micros(span)));
        lines.push(format!("idle states of {cpus} CPUs ({}): {bound}", names.join(", ")));
    }
    if can.set_moderation {
        let how = match config.moderation {
            Moderation::Keep => "as it is".to_owned(),
            Moderation::Policy => "as the policy says".to_owned(),
            Moderation::Fixed(span) => micros(span),
        };
        let interfaces = inventory.interfaces().join(", ");
        lines.push(format!("interrupt moderation of {interfaces}: {how}"));
    }
    if !(can.set_frequency || can.limit_idle || can.set_moderation) {
        lines.push(
            "this machine has no knob that could be turned: nothing will be saved here; what can be \
             measured is told"
                .to_owned(),
        );
    }
    for port in &inventory.layout.ports {
        let name = port.interface.as_deref().unwrap_or_default();
        lines.push(format!("{name}: {} receive queues, counted", port.queues));
    }
    for one in &inventory.left_out {
        lines.push(format!("left out: {}: {}", one.what, one.why));
    }
    if let Some(target) = config.latency_target {
        lines.push(match config.latency.len() {
            0 => {
                "latency target without a [[latency]] source: no source shows whether it is kept, \
                  so the machine stays at its highest capacity"
                    .to_owned()
            }
            count => format!("99th percentile of {count} sources: {} at most", micros(target)),
        });
    }
    lines
}

fn micros(span: Span) -> String {
    format!("{} us", span.as_seconds() * 1e6)
}

/// Says what is governed.
pub(crate) fn introduction(config: &Config, inventory: &Inventory, seen: &Seen, status: &Status) {
    for line in lines(config, inventory, &seen.platform) {
        tracing::info!("{line}");
    }
    if let Some(remark) = &seen.remark {
        tracing::info!("{remark}");
    }
    for missing in &status.missing {
        tracing::info!("not available: {missing}");
    }
    let can = seen.platform.can;
    if !(can.set_frequency || can.limit_idle || can.set_moderation) {
        for hint in REMEDIES {
            tracing::info!("{hint}");
        }
        if config.metrics.is_none() {
            tracing::info!(
                "what can be measured: `wattline top`, `wattline stats`; for Prometheus: \
                 --metrics 127.0.0.1:9417"
            );
        }
    }
}

/// What would enable knobs on a machine without any.
pub(crate) const REMEDIES: [&str; 3] = [
    "frequency: needs a cpufreq driver (acpi-cpufreq, intel_pstate, amd-pstate, cppc_cpufreq): enable \
     P-states (SpeedStep, Cool'n'Quiet, \"OS controlled\" power) in the firmware; a virtual machine \
     has none: govern its host instead",
    "idle states: need a cpuidle driver (intel_idle, acpi_idle): enable C-states in the firmware",
    "interrupt moderation: needs a network card whose driver offers `ethtool -c`, or an interface with \
     NAPI (virtio_net; veth with GRO on) that [govern] interfaces names",
];

/// Says what rules from now on.
pub(crate) fn rule(now: Rule, before: Rule, config: &Config, seen: Option<&Seen>) {
    match now {
        Rule::Policy => tracing::info!(
            "the policy decides again (before: {})",
            if before == Rule::Late { "latency target missed" } else { "a source was silent" }
        ),
        Rule::Late => {
            let p99 = seen.and_then(|seen| seen.view.latency).map_or(Span::ZERO, |view| view.p99);
            let target = config.latency_target.unwrap_or(Span::ZERO);
            tracing::warn!(
                "latency target missed (99th percentile {}, target {}): highest capacity",
                micros(p99),
                micros(target)
            );
        }
        Rule::Silent => {
            let sources = seen.map(|seen| &*seen.sources).unwrap_or_default();
            let silent: Vec<String> = (sources.iter().filter(|source| source.silent))
                .map(|source| match &source.problem {
                    Some(problem) => format!("{} ({problem})", source.name),
                    None => source.name.clone(),
                })
                .collect();
            tracing::warn!(
                "no source shows whether the latency target is kept: highest capacity; silent sources: {}",
                if silent.is_empty() { "there is none".to_owned() } else { silent.join(", ") }
            );
        }
    }
}

/// Rivals for what is governed: who sets only something else may go on.
pub(crate) fn relevant(found: Vec<Rival>, config: &Config) -> Vec<Rival> {
    let scope = config.scope;
    let governed = |label: &&str| match *label {
        "frequency" => scope.frequency,
        "idle" => scope.idle,
        // Interrupts stay where they are here, and who moves them changes whose are moderated.
        "moderation" | "affinity" => config.moderates(),
        _ => false,
    };
    found.into_iter().filter(|rival| rival.labels.iter().any(governed)).collect()
}

/// Names somebody who sets the same knobs.
pub(crate) fn rival(rival: &Rival) {
    tracing::warn!(
        "{} also sets {} ({}); to stop that: {}",
        rival.name,
        rival.sets,
        rival.seen,
        rival.remedy
    );
}
