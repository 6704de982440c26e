//! A governor's statistics for Prometheus.

use crate::counters::interrupts;
use wattline_daemon::metrics::{Exposition, Kind, build_info, log_lines_lost, write_governor};
use wattline_linux::sysfs::Tree;
use wattline_status::{
    CoreStats, GovernStatus, GovernorStats, InterfaceStats, Power, RuleName, SourceState,
};

/// Writes all metrics.
pub(crate) fn text(stats: &GovernorStats, tree: &Tree) -> String {
    let mut text = Exposition::default();
    let to = &mut text;
    build_info(to, &stats.build);
    let help = "Time since the governor was started.";
    to.single_family("wattline_uptime_seconds", Kind::Gauge, help, stats.uptime_seconds);
    log_lines_lost(to, stats.log_lines_lost);
    interfaces(to, stats);
    cores(to, stats, tree);
    if let Some(power) = &stats.power {
        write_governor(to, power);
        settings(to, power);
    }
    latency(to, &stats.govern);
    rules(to, &stats.govern);
    let help = "1 while the machine is governed, 0 while the governor waits because its policy cannot \
                work on the machine as it is.";
    let governing = f64::from(u8::from(stats.govern.waits_because.is_none()));
    to.single_family("wattline_governing", Kind::Gauge, help, governing);
    let process = stats.govern.process;
    let help = "Processor time of this process.";
    to.single_family("process_cpu_seconds_total", Kind::Counter, help, process.cpu_seconds);
    let (help, bytes) = ("Resident memory of this process.", process.resident_bytes as f64);
    to.single_family("process_resident_memory_bytes", Kind::Gauge, help, bytes);
    text.into_text()
}

fn interfaces(to: &mut Exposition, stats: &GovernorStats) {
    type Counts = fn(&InterfaceStats) -> [u64; 2];
    let packets: Counts = |port| [port.received_packets, port.transmitted_packets];
    let bytes: Counts = |port| [port.received_bytes, port.transmitted_bytes];
    for (name, help, counts) in [
        (
            "wattline_packets_total",
            "Packets by interface and direction, as the kernel counts them.",
            packets,
        ),
        (
            "wattline_bytes_total",
            "Bytes by interface and direction, as the kernel counts them.",
            bytes,
        ),
    ] {
        to.family(name, Kind::Counter, help);
        for port in &stats.ports {
            for (direction, count) in ["receive", "transmit"].into_iter().zip(counts(port)) {
                to.sample(&[("port", &port.name), ("direction", direction)], count as f64);
            }
        }
    }
}

/// Metrics by CPU; CPU numbers need not equal the policy's core numbers.
fn cores(to: &mut Exposition, stats: &GovernorStats, tree: &Tree) {
    let of_cpus = |figure: fn(&CoreStats) -> f64| {
        stats.workers.iter().filter_map(move |core| Some((core.cpu?, figure(core))))
    };
    let help = ("Time that the CPU was not idle, since governing began.", "cpu");
    let busy = of_cpus(|core| core.busy_seconds);
    to.labelled_family("wattline_core_busy_seconds_total", Kind::Counter, help, busy);
    let help = ("Packets that the kernel's stack took on the CPU, since governing began.", "cpu");
    let packets = of_cpus(|core| core.received as f64);
    to.labelled_family("wattline_core_packets_total", Kind::Counter, help, packets);
    let interrupts = interrupts(tree);
    let governed = || {
        let cpus = stats.workers.iter().filter_map(|core| core.cpu);
        cpus.filter_map(|cpu| Some((cpu.to_string(), *interrupts.get(&cpu)?)))
    };
    let help = ("Interrupts of devices by CPU, since the system began.", "cpu");
    let hard = governed().map(|(cpu, of)| (cpu, of.hard as f64));
    to.labelled_family("wattline_core_interrupts_total", Kind::Counter, help, hard);
    let help = "Soft interrupts of the network by CPU and kind, since the system began.";
    to.family("wattline_core_softirqs_total", Kind::Counter, help);
    for (cpu, of) in governed() {
        to.sample(&[("cpu", &cpu), ("kind", "net-rx")], of.receive as f64);
        to.sample(&[("cpu", &cpu), ("kind", "net-tx")], of.transmit as f64);
    }
}

/// Writes available knobs, and settings other than frequencies.
fn settings(to: &mut Exposition, power: &Power) {
    let can = power.can.into_iter().flat_map(|can| {
        [("frequency", can.frequency), ("idle", can.idle), ("moderation", can.moderation)]
    });
    let can = can.map(|(knob, can)| (knob, f64::from(u8::from(can))));
    let help = ("1 if the machine has the knob and the governor may turn it.", "knob");
    to.labelled_family("wattline_knob_available", Kind::Gauge, help, can);
    let help = ("Requested time between a queue's interrupts.", "queue");
    let moderation = power.moderation.moderation_seconds.iter().copied().enumerate();
    to.labelled_family("wattline_moderation_seconds", Kind::Gauge, help, moderation);
}

/// Omits unknown figures: a source without samples has no latency, which is not 0 s.
fn latency(to: &mut Exposition, govern: &GovernStatus) {
    let sources: &[SourceState] = govern.latency.as_deref().unwrap_or_default();
    if sources.is_empty() {
        return;
    }
    let up = sources.iter().map(|source| (&source.name, f64::from(u8::from(!source.silent))));
    let help = ("1 if the source of latency was heard within `latency_silence`.", "source");
    to.labelled_family("wattline_latency_source_up", Kind::Gauge, help, up);
    let help = "Latency as the source reports it, by percentile.";
    to.family("wattline_latency_percentile_seconds", Kind::Gauge, help);
    for source in sources {
        for (percentile, seconds) in [
            ("50", source.latency_p50_seconds),
            ("95", source.latency_p95_seconds),
            ("99", source.latency_p99_seconds),
        ] {
            if let Some(seconds) = seconds {
                let labels = [("source", source.name.as_str()), ("percentile", percentile)];
                to.sample(&labels, seconds);
            }
        }
    }
    let samples = sources.iter().map(|source| (&source.name, source.samples as f64));
    let help = ("Requests behind the figures.", "source");
    to.labelled_family("wattline_latency_samples", Kind::Gauge, help, samples);
    let ages = sources.iter().filter_map(|source| Some((&source.name, source.age_seconds?)));
    let help = ("Time since the newest sample.", "source");
    to.labelled_family("wattline_latency_age_seconds", Kind::Gauge, help, ages);
    let help = "Reports refused, by source and reason.";
    to.family("wattline_latency_refused_total", Kind::Counter, help);
    for source in sources {
        for (reason, count) in source.refused.by_reason() {
            to.sample(&[("source", &source.name), ("reason", reason)], count as f64);
        }
    }
    if let Some(target) = govern.latency_target_seconds {
        let help = "The 99th percentile that is to be kept.";
        to.single_family("wattline_latency_target_seconds", Kind::Gauge, help, target);
    }
}

fn rules(to: &mut Exposition, govern: &GovernStatus) {
    let help = "1 for the rule in force: the policy, or the highest capacity because \
                the latency target is missed, a source is silent or CPU pressure rose.";
    let rules =
        RuleName::ALL.map(|rule| (rule.name(), f64::from(u8::from(govern.rule == Some(rule)))));
    to.labelled_family("wattline_rule", Kind::Gauge, (help, "rule"), rules);
    let help = "Other programs that set the same knobs, and drivers that set them themselves.";
    to.single_family("wattline_rivals", Kind::Gauge, help, govern.rivals.len() as f64);
    let help = "Number of times the governor started again because the machine or the configuration changed.";
    to.single_family("wattline_restarts_total", Kind::Counter, help, govern.restarts as f64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattline_status::{CanSet, Moderation, ProcessStats, Refused, Rival};

    #[test]
    fn unknown_figures_are_left_out() {
        let known = SourceState {
            name: "a".to_owned(),
            samples: 3,
            age_seconds: Some(0.5),
            latency_p99_seconds: Some(0.001),
            refused: Refused { not_a_number: 1, ..Refused::default() },
            ..SourceState::default()
        };
        let silent = SourceState { name: "b".to_owned(), silent: true, ..SourceState::default() };
        let stats = GovernorStats {
            uptime_seconds: 5.5,
            ports: vec![InterfaceStats {
                name: "eth0".to_owned(),
                received_packets: 7,
                transmitted_bytes: 9,
                ..InterfaceStats::default()
            }],
            workers: vec![CoreStats {
                cpu: Some(3),
                busy_seconds: 1.5,
                received: 4,
                ..CoreStats::default()
            }],
            power: Some(Power {
                can: Some(CanSet { frequency: true, ..CanSet::default() }),
                moderation: Moderation { moderation_seconds: vec![1e-4], ..Moderation::default() },
                ..Power::default()
            }),
            govern: GovernStatus {
                rule: Some(RuleName::SilentSource),
                rivals: vec![Rival::default()],
                restarts: 2,
                latency_target_seconds: Some(0.002),
                latency: Some(vec![known, silent]),
                process: ProcessStats { cpu_seconds: 0.25, resident_bytes: 1000 },
                ..GovernStatus::default()
            },
            ..GovernorStats::default()
        };
        let text = text(&stats, &Tree::at("/nowhere"));
        for line in [
            "wattline_packets_total{port=\"eth0\",direction=\"receive\"} 7",
            "wattline_bytes_total{port=\"eth0\",direction=\"transmit\"} 9",
            "wattline_core_busy_seconds_total{cpu=\"3\"} 1.5",
            "wattline_core_packets_total{cpu=\"3\"} 4",
            "wattline_knob_available{knob=\"frequency\"} 1",
            "wattline_knob_available{knob=\"idle\"} 0",
            "wattline_moderation_seconds{queue=\"0\"} 0.0001",
            "wattline_latency_source_up{source=\"a\"} 1",
            "wattline_latency_source_up{source=\"b\"} 0",
            "wattline_latency_percentile_seconds{source=\"a\",percentile=\"99\"} 0.001",
            "wattline_latency_samples{source=\"b\"} 0",
            "wattline_latency_refused_total{source=\"a\",reason=\"not-a-number\"} 1",
            "wattline_latency_target_seconds 0.002",
            "wattline_rule{rule=\"policy\"} 0",
            "wattline_rule{rule=\"silent-source\"} 1",
            "wattline_rivals 1",
            "wattline_restarts_total 2",
            "wattline_governing 1",
            "process_cpu_seconds_total 0.25",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        for absent in ["power_watts", "source=\"b\",percentile", "age_seconds{source=\"b\"}"] {
            assert!(!text.contains(absent), "{absent} in\n{text}");
        }
    }
}
