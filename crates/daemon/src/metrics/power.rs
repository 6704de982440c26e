//! What a governor did and what was drawn, for Prometheus.
//!
//! What is not known is left out: no sensor is not the same as 0 W. The source of every figure
//! is a label of it: `measured`, `modelled` or `emulated`.

use super::exposition::{Exposition, Kind};
use serde_json::Value;

/// The metrics of a governor; none where there is none. `power` is what the daemon says of it
/// to `stats`.
pub fn of_governor(to: &mut Exposition, power: &Value) {
    if !power.is_object() {
        return;
    }
    let source = power["source"].as_str().unwrap_or("unavailable");
    energy(to, power, source);
    if let Some(watts) = power["power_watts"].as_f64() {
        let help =
            "Mean power of the last five seconds; for any other stretch take the rate of energy.";
        to.family("wattline_power_watts", Kind::Gauge, help);
        to.sample(&[("source", source)], watts);
    }
    latency(to, power);
    frequencies(to, power);
    knobs(to, power);
    machine(to, &power["host"]);
}

/// In model time; only an emulated machine knows it.
fn latency(to: &mut Exposition, power: &Value) {
    let histogram = &power["latency_histogram"];
    let (Some(count), Some(sum)) =
        (histogram["packets"].as_u64(), histogram["sum_seconds"].as_f64())
    else {
        return;
    };
    let help = "Latency of forwarded packets in model time, on platform scale.";
    to.family("wattline_latency_seconds", Kind::Histogram, help);
    let buckets = histogram["buckets"].as_array().into_iter().flatten();
    let buckets = buckets.filter_map(|bucket| Some((bucket[0].as_f64()?, bucket[1].as_u64()?)));
    to.histogram(buckets, sum, count);
}

/// Parts and rest are the whole, so that they can be added up.
fn energy(to: &mut Exposition, power: &Value, source: &str) {
    let Some(whole) = power["energy_joules"].as_f64() else { return };
    let help = "Energy since the start, by component; `rest` is what no component accounts for.";
    to.family("wattline_energy_joules_total", Kind::Counter, help);
    let mut rest = whole;
    for (component, joules) in power["energy_by_component_joules"].as_object().into_iter().flatten()
    {
        let Some(joules) = joules.as_f64() else { continue };
        rest -= joules;
        to.sample(&[("source", source), ("component", component)], joules);
    }
    to.sample(&[("source", source), ("component", "rest")], rest.max(0.0));
    if let Some(seconds) = power["energy_unmetered_seconds"].as_f64() {
        let help =
            "Time since the meters' first figure that no figure covers: its energy is missing.";
        to.family("wattline_energy_unmetered_seconds", Kind::Gauge, help);
        to.sample(&[("source", source)], seconds);
    }
}

fn frequencies(to: &mut Exposition, power: &Value) {
    let Some(cores) = power["frequency_hertz"].as_array().filter(|cores| !cores.is_empty()) else {
        return;
    };
    let help = "Frequency that the core runs at or was asked to.";
    to.family("wattline_core_frequency_hertz", Kind::Gauge, help);
    for (core, hertz) in cores.iter().enumerate() {
        if let Some(hertz) = hertz.as_f64() {
            to.sample(&[("core", &core.to_string())], hertz);
        }
    }
}

fn knobs(to: &mut Exposition, power: &Value) {
    let Some(knobs) = power["knobs"].as_array().filter(|knobs| !knobs.is_empty()) else { return };
    to.family("wattline_knob_writes_total", Kind::Counter, "Settings by knob and result.");
    for entry in knobs {
        let Some(knob) = entry["knob"].as_str() else { continue };
        let count = |key: &str| entry[key].as_u64().unwrap_or(0);
        let others = count("altered") + count("foreign") + count("failed");
        to.sample(
            &[("knob", knob), ("result", "done")],
            count("steps").saturating_sub(others) as f64,
        );
        for result in ["altered", "foreign", "failed"] {
            to.sample(&[("knob", knob), ("result", result)], count(result) as f64);
        }
    }
}

/// What platform `host` says of its meters, and of settings whose driver hangs.
fn machine(to: &mut Exposition, host: &Value) {
    let sensors = host["sensors"].as_object().filter(|sensors| !sensors.is_empty());
    if let Some(sensors) = sensors {
        let help = "1 where the meter gave a figure when it was read last.";
        to.family("wattline_sensor_up", Kind::Gauge, help);
        for (source, up) in sensors {
            let up = f64::from(u8::from(up.as_bool().unwrap_or(false)));
            to.sample(&[("source", source)], up);
        }
    }
    if let Some(packets) = host["waited_at_moves_packets"].as_u64() {
        let help = "Packets that waited in rings whose table entries moved: may be out of order.";
        to.family("wattline_waited_at_moves_packets_total", Kind::Counter, help);
        to.sample(&[], packets as f64);
    }
    if let Some(stuck) = host["stuck"].as_array() {
        let help = "Settings that are left out because their driver does not answer.";
        to.family("wattline_knobs_stuck", Kind::Gauge, help);
        to.sample(&[], stuck.len() as f64);
    }
}
