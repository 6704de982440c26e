//! Log lines: the governed parts with reasons, the rule in force, other programs that set the same
//! knobs.

use crate::config::{Config, Listed, Moderation};
use crate::guard::Rule;
use crate::hardware;
use crate::inventory::Inventory;
use crate::latency::SourceState;
use crate::left_alone;
use crate::session::Seen;
use wattline_knobs::rivals::Rival;
use wattline_policy::{Can, Platform};
use wattline_units::Span;

/// Remark on a plan made without root privileges.
pub(crate) const BLIND: &str = "made without root privileges, so that knobs which only root may \
    write count as missing: `sudo wattline plan --govern` sees all";

/// Remark on a plan made from settings that another governor may have changed.
pub const SET_BY_ANOTHER_GOVERNOR: &str = "another governor, running or killed, has set some of these values; \
    `wattline restore` undoes those of a killed one";

/// Describes the governor's actions and reasons, a line each. `alone` are the knobs that the
/// machine has and the configuration does not use.
pub(crate) fn lines(
    config: &Config,
    inventory: &Inventory,
    platform: &Platform,
    alone: &[Listed],
) -> Vec<String> {
    let mut lines = vec![config.profile_in_words(), format!("policy {}", config.policy)];
    let cpus = inventory.layout.cpus.len();
    let can = platform.can;
    if can.set_frequency && hardware::is_named(&config.policy) {
        lines.push(format!(
            "frequency of {cpus} CPUs: processor or kernel control it within its limits; they are \
             given a preference"
        ));
    } else if can.set_frequency {
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
    if config.override_limits {
        lines.push(
            "the administrator's limits of frequency, idle states and uncore are left \
             ([govern] override_limits)"
                .to_owned(),
        );
    }
    if has_none(can) {
        let why = if alone.is_empty() {
            "this machine has no knob that could be turned"
        } else {
            "this configuration turns none of the knobs that this machine has"
        };
        lines.push(format!("{why}: nothing will be saved here; measurements remain available"));
    }
    lines.extend(alone.iter().map(|knob| left_alone::line(*knob, config, inventory)));
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

/// Returns true if no knob can be set.
fn has_none(can: Can) -> bool {
    !(can.set_frequency || can.limit_idle || can.set_moderation || can.set_cores)
}

/// Formats to the nanosecond, without the digits that a binary fraction adds.
fn micros(span: Span) -> String {
    format!("{} us", (span.as_seconds() * 1e9).round() / 1e3)
}

/// Logs the governed parts.
pub(crate) fn introduction(config: &Config, inventory: &Inventory, seen: &Seen, alone: &[Listed]) {
    for line in lines(config, inventory, &seen.state.platform, alone) {
        tracing::info!("{line}");
    }
    for named in &inventory.unknown_names {
        tracing::warn!("{named}");
    }
    if let Some(remark) = &seen.remark {
        tracing::info!("{remark}");
    }
    if has_none(seen.state.platform.can) {
        for hint in remedies(seen.state.platform.can, alone) {
            tracing::info!("{hint}");
        }
        if config.metrics.is_none() {
            tracing::info!(
                "measurements: `wattline top`, `wattline stats`; for Prometheus: \
                 --metrics 127.0.0.1:9417"
            );
        }
    }
}

/// Returns ways to enable missing knobs, if nothing can be set.
pub(crate) fn remedies(can: Can, alone: &[Listed]) -> Vec<&'static str> {
    let lacks = |knob: &Listed| has_none(can) && !alone.contains(knob);
    Listed::ALL.into_iter().filter(lacks).map(remedy).collect()
}

fn remedy(knob: Listed) -> &'static str {
    match knob {
        Listed::Frequency => {
            "frequency: needs a cpufreq driver (acpi-cpufreq, intel_pstate, amd-pstate, \
             cppc_cpufreq): enable P-states (SpeedStep, Cool'n'Quiet, \"OS controlled\" power) in the \
             firmware; a virtual machine has none: govern its host instead"
        }
        Listed::Idle => {
            "idle states: need a cpuidle driver (intel_idle, acpi_idle): enable C-states in the \
             firmware"
        }
        Listed::Moderation => {
            "interrupt moderation: needs a network card whose driver offers `ethtool -c`, or an \
             interface with NAPI (virtio_net; veth with GRO on) that [govern] interfaces names"
        }
        Listed::Cores => {
            "cores: need two CPUs, and interfaces with an indirection table or RPS (CONFIG_RPS) that \
             no other program has set"
        }
    }
}

/// Logs the rule in force from now on. `early`: no source can count as silent yet, because less
/// than `latency_silence` has passed.
pub(crate) fn rule(now: Rule, before: Rule, config: &Config, seen: Option<&Seen>, early: bool) {
    match now {
        Rule::Policy => tracing::info!(
            "the policy decides again (before: {})",
            match before {
                Rule::Late => "latency target missed",
                Rule::Pressure => "CPU pressure had risen",
                Rule::Policy | Rule::Silent => "a source was silent",
            }
        ),
        Rule::Late => {
            let p99 = seen.and_then(|seen| seen.view.latency).map_or(Span::ZERO, |view| view.p99);
            let target = config.latency_target.unwrap_or(Span::ZERO);
            tracing::warn!("{}", missed(p99, target));
        }
        Rule::Pressure => tracing::info!(
            "tasks wait longer for a CPU than usual: the safe point for half a minute at least"
        ),
        Rule::Silent => {
            let sources = seen.map(|seen| &*seen.sources).unwrap_or_default();
            let line = silent_sources(sources, early, config.latency_silence);
            if early { tracing::info!("{line}") } else { tracing::warn!("{line}") }
        }
    }
}

fn missed(p99: Span, target: Span) -> String {
    let p99 = p99.as_seconds() * 1e6;
    let target = micros(target);
    format!(
        "latency target missed (99th percentile {p99:.1} us, target {target}): highest capacity"
    )
}

/// Names the silent sources.
fn silent_sources(sources: &[SourceState], early: bool, silence: Span) -> String {
    let names: Vec<String> = (sources.iter().filter(|source| source.silent))
        .map(|source| match &source.problem {
            Some(problem) => format!("{} ({problem})", source.name),
            None => source.name.clone(),
        })
        .collect();
    let names = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
    if early {
        return format!(
            "highest capacity until every source of latency has reported; waiting for: {names} \
             (silent after {} s)",
            silence.as_seconds()
        );
    }
    format!(
        "no source shows whether the latency target is kept: highest capacity; silent sources: \
         {names}"
    )
}

/// Filters rivals for governed knobs: programs that set other knobs may go on.
pub(crate) fn relevant(found: Vec<Rival>, config: &Config) -> Vec<Rival> {
    let scope = config.scope;
    let governed = |label: &&str| match *label {
        "frequency" => scope.frequency,
        "idle" => scope.idle,
        // The governor leaves interrupts in place; a program that moves them changes the moderated
        // CPUs.
        "moderation" | "affinity" => config.moderates(),
        _ => false,
    };
    found.into_iter().filter(|rival| rival.labels.iter().any(governed)).collect()
}

/// Logs a program that sets the same knobs.
pub(crate) fn rival(rival: &Rival) {
    tracing::warn!(
        "{} also sets {} ({}); to stop that: {}",
        rival.name,
        rival.sets,
        rival.seen,
        rival.remedy
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_governor::latency::{Origin, Refused};

    fn never_heard(name: &str, problem: Option<&str>) -> SourceState {
        SourceState {
            name: name.to_owned(),
            origin: Origin::Clients,
            silent: true,
            heard_seconds_ago: None,
            problem: problem.map(str::to_owned),
            samples: 0,
            age_seconds: None,
            latency_mean_seconds: None,
            latency_p50_seconds: None,
            latency_p95_seconds: None,
            latency_p99_seconds: None,
            refused: Refused::default(),
        }
    }

    #[test]
    fn source_gets_time_before_it_counts_as_silent() {
        let sources = [never_heard("shop", None), never_heard("page", Some("refused"))];
        let silence = Span::from_millis(10_000);
        let early = silent_sources(&sources, true, silence);
        assert!(early.contains("waiting for: shop, page (refused) (silent after 10 s)"), "{early}");
        assert!(!early.contains("silent sources"), "{early}");
        let late = silent_sources(&sources, false, silence);
        assert!(late.ends_with("silent sources: shop, page (refused)"), "{late}");
        assert!(silent_sources(&[], false, silence).ends_with("there is none"));
    }

    #[test]
    fn times_have_no_digits_of_binary_fractions() {
        let line = missed(Span::from_seconds(2101.247e-6), Span::from_micros(1_000));
        assert!(line.contains("(99th percentile 2101.2 us, target 1000 us)"), "{line}");
        assert_eq!(micros(Span::from_seconds(2101.247e-6)), "2101.247 us");
    }
}
