//! A governor's statistics for Prometheus.

use crate::counters::interrupts;
use crate::guard::Rule;
use serde_json::Value;
use wattline_daemon::metrics::{Exposition, Kind, log_lines_lost, of_governor};
use wattline_linux::sysfs::Tree;

/// All metrics; `stats` is the answer to `stats`.
pub(crate) fn text(stats: &Value, tree: &Tree) -> String {
    let mut text = Exposition::default();
    let to = &mut text;
    to.family("wattline_uptime_seconds", Kind::Gauge, "Time since the governor was started.");
    to.sample(&[], stats["uptime_seconds"].as_f64().unwrap_or(0.0));
    log_lines_lost(to, stats["log_lines_lost"].as_u64().unwrap_or(0));
    interfaces(to, stats);
    cores(to, stats, tree);
    of_governor(to, &stats["power"]);
    settings(to, &stats["power"]);
    latency(to, &stats["govern"]);
    rules(to, &stats["govern"]);
    let help = "1 while the machine is governed, 0 while the governor waits because its policy cannot \
                work on the machine as it is.";
    to.family("wattline_governing", Kind::Gauge, help);
    let waits = stats["govern"]["waits_because"].is_string();
    to.sample(&[], f64::from(u8::from(!waits)));
    let process = &stats["govern"]["process"];
    to.family("process_cpu_seconds_total", Kind::Counter, "Processor time of this process.");
    to.sample(&[], process["cpu_seconds"].as_f64().unwrap_or(0.0));
    to.family("process_resident_memory_bytes", Kind::Gauge, "Resident memory of this process.");
    to.sample(&[], process["resident_bytes"].as_f64().unwrap_or(0.0));
    text.into_text()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn interfaces(to: &mut Exposition, stats: &Value) {
    for (name, help, keys) in [
        (
            "wattline_packets_total",
            "Packets by interface and direction, as the kernel counts them.",
            ["received_packets", "transmitted_packets"],
        ),
        (
            "wattline_bytes_total",
            "Bytes by interface and direction, as the kernel counts them.",
            ["received_bytes", "transmitted_bytes"],
        ),
    ] {
        to.family(name, Kind::Counter, help);
        for port in list(&stats["ports"]) {
            for (direction, key) in ["receive", "transmit"].into_iter().zip(keys) {
                let labels = [("port", word(&port["name"])), ("direction", direction)];
                to.sample(&labels, port[key].as_f64().unwrap_or(0.0));
            }
        }
    }
}

/// By CPU, whose numbers need not be those of the policy's cores.
fn cores(to: &mut Exposition, stats: &Value, tree: &Tree) {
    let cpu = |core: &Value| core["cpu"].as_u64().map(|cpu| cpu.to_string());
    for (name, help, key) in [
        (
            "wattline_core_busy_seconds_total",
            "Time that the CPU was not idle, since governing began.",
            "busy_seconds",
        ),
        (
            "wattline_core_packets_total",
            "Packets that the kernel's stack took on the CPU, since governing began.",
            "received",
        ),
    ] {
        to.family(name, Kind::Counter, help);
        for core in list(&stats["workers"]) {
            if let (Some(cpu), Some(value)) = (cpu(core), core[key].as_f64()) {
                to.sample(&[("cpu", &cpu)], value);
            }
        }
    }
    let interrupts = interrupts(tree);
    let governed = || {
        let cpus = list(&stats["workers"]).filter_map(|core| core["cpu"].as_u64());
        cpus.filter_map(|cpu| Some((cpu.to_string(), *interrupts.get(&u32::try_from(cpu).ok()?)?)))
    };
    let help = "Interrupts of devices by CPU, since the system began.";
    to.family("wattline_core_interrupts_total", Kind::Counter, help);
    for (cpu, of) in governed() {
        to.sample(&[("cpu", &cpu)], of.hard as f64);
    }
    let help = "Soft interrupts of the network by CPU and kind, since the system began.";
    to.family("wattline_core_softirqs_total", Kind::Counter, help);
    for (cpu, of) in governed() {
        to.sample(&[("cpu", &cpu), ("kind", "net-rx")], of.receive as f64);
        to.sample(&[("cpu", &cpu), ("kind", "net-tx")], of.transmit as f64);
    }
}

/// What there is to set, and what is set beside frequencies.
fn settings(to: &mut Exposition, power: &Value) {
    let help = "1 where the machine has the knob and the governor may turn it.";
    to.family("wattline_knob_available", Kind::Gauge, help);
    for (knob, can) in power["can"].as_object().into_iter().flatten() {
        to.sample(&[("knob", knob)], f64::from(u8::from(can.as_bool().unwrap_or(false))));
    }
    let moderation = power["moderation_seconds"].as_array().filter(|all| !all.is_empty());
    if let Some(moderation) = moderation {
        let help = "Distance of a queue's interrupts that was asked for.";
        to.family("wattline_moderation_seconds", Kind::Gauge, help);
        for (queue, seconds) in moderation.iter().enumerate() {
            to.sample(&[("queue", &queue.to_string())], seconds.as_f64().unwrap_or(0.0));
        }
    }
}

/// What is not known is left out: a source without samples has no latency, which is not 0 s.
fn latency(to: &mut Exposition, govern: &Value) {
    let sources: Vec<&Value> = list(&govern["latency"]).collect();
    if sources.is_empty() {
        return;
    }
    let help = "1 where the source of latency was heard within `latency_silence`.";
    to.family("wattline_latency_source_up", Kind::Gauge, help);
    for source in &sources {
        let up = f64::from(u8::from(source["silent"] == Value::Bool(false)));
        to.sample(&[("source", word(&source["name"]))], up);
    }
    let help = "Latency as the source reports it, by percentile.";
    to.family("wattline_latency_percentile_seconds", Kind::Gauge, help);
    for source in &sources {
        for (percentile, key) in [
            ("50", "latency_p50_seconds"),
            ("95", "latency_p95_seconds"),
            ("99", "latency_p99_seconds"),
        ] {
            if let Some(seconds) = source[key].as_f64() {
                let labels = [("source", word(&source["name"])), ("percentile", percentile)];
                to.sample(&labels, seconds);
            }
        }
    }
    for (name, help, key) in [
        ("wattline_latency_samples", "Requests behind the figures.", "samples"),
        ("wattline_latency_age_seconds", "Time since the newest of them.", "age_seconds"),
    ] {
        to.family(name, Kind::Gauge, help);
        for source in &sources {
            if let Some(value) = source[key].as_f64() {
                to.sample(&[("source", word(&source["name"]))], value);
            }
        }
    }
    let help = "What was reported and refused, by source and reason.";
    to.family("wattline_latency_refused_total", Kind::Counter, help);
    for source in &sources {
        for (reason, count) in source["refused"].as_object().into_iter().flatten() {
            let reason = reason.replace('_', "-");
            let labels = [("source", word(&source["name"])), ("reason", &*reason)];
            to.sample(&labels, count.as_f64().unwrap_or(0.0));
        }
    }
    if let Some(target) = govern["latency_target_seconds"].as_f64() {
        let help = "The 99th percentile that is to be kept.";
        to.family("wattline_latency_target_seconds", Kind::Gauge, help);
        to.sample(&[], target);
    }
}

fn rules(to: &mut Exposition, govern: &Value) {
    let help = "1 for what rules the operating point now: the policy, or the highest capacity \
                because the latency target is missed, a source is silent or CPU pressure rose.";
    to.family("wattline_rule", Kind::Gauge, help);
    for rule in Rule::ALL {
        let rules = f64::from(u8::from(word(&govern["rule"]) == rule.name()));
        to.sample(&[("rule", rule.name())], rules);
    }
    let help = "Other programs that set the same knobs, and drivers that set them themselves.";
    to.family("wattline_rivals", Kind::Gauge, help);
    to.sample(&[], list(&govern["rivals"]).count() as f64);
    let help = "Number of times the governor started again because the machine or the configuration changed.";
    to.family("wattline_restarts_total", Kind::Counter, help);
    to.sample(&[], govern["restarts"].as_f64().unwrap_or(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_known_is_told_and_what_is_not_is_left_out() {
        let stats = json!({
            "uptime_seconds": 5.5,
            "ports": [{"name": "eth0", "received_packets": 7, "transmitted_bytes": 9}],
            "workers": [{"cpu": 3, "busy_seconds": 1.5, "received": 4}],
            "power": {"source": "unavailable", "power_watts": null, "knobs": [],
                      "can": {"frequency": true, "idle": false}, "moderation_seconds": [1e-4]},
            "govern": {"rule": "silent-source", "rivals": [{}], "restarts": 2,
                "latency_target_seconds": 0.002,
                "latency": [
                    {"name": "a", "silent": false, "samples": 3, "age_seconds": 0.5,
                     "latency_p99_seconds": 0.001, "refused": {"not_a_number": 1}},
                    {"name": "b", "silent": true, "samples": 0, "age_seconds": null}],
                "process": {"cpu_seconds": 0.25, "resident_bytes": 1000}},
        });
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
