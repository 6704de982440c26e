//! Metrics of a governor and of the power drawn, for Prometheus.
//!
//! Unknown figures are left out: a missing sensor is not the same as 0 W. The source of every
//! figure is one of its labels: `measured`, `modelled` or `emulated`.

use super::exposition::{Exposition, Kind};
use wattline_status::{HostStatus, Power};

/// Writes the metrics of a governor.
pub fn write_governor(to: &mut Exposition, power: &Power) {
    let source = power.source.to_string();
    energy(to, power, &source);
    if let Some(watts) = power.power_watts {
        let help =
            "Mean power of the last five seconds; for any other stretch take the rate of energy.";
        let samples = [(&source, watts)];
        to.labelled_family("wattline_power_watts", Kind::Gauge, (help, "source"), samples);
    }
    latency(to, power);
    let help = ("Frequency that the core runs at or was asked to.", "core");
    let hertz = power.frequency_hertz.iter().copied().enumerate();
    to.labelled_family("wattline_core_frequency_hertz", Kind::Gauge, help, hertz);
    knobs(to, power);
    if let Some(host) = &power.details.host {
        machine(to, host);
    }
}

/// Writes latencies in model time; only an emulated machine knows it.
fn latency(to: &mut Exposition, power: &Power) {
    let Some(histogram) = &power.latency_histogram else { return };
    let help = "Latency of forwarded packets in model time, on platform scale.";
    to.family("wattline_latency_seconds", Kind::Histogram, help);
    let buckets = histogram.buckets.iter().copied();
    to.histogram(buckets, histogram.sum_seconds, histogram.packets);
}

/// Writes the energy of the parts and of the rest, which add up to the whole.
fn energy(to: &mut Exposition, power: &Power, source: &str) {
    let Some(whole) = power.energy_joules else { return };
    let help = "Energy since the start, by component; `rest` is what no component accounts for.";
    to.family("wattline_energy_joules_total", Kind::Counter, help);
    let mut rest = whole;
    for (component, joules) in &power.energy_by_component_joules {
        rest -= joules;
        to.sample(&[("source", source), ("component", component)], *joules);
    }
    to.sample(&[("source", source), ("component", "rest")], rest.max(0.0));
    let help = "Time since the meters' first figure that no figure covers: its energy is missing.";
    let samples = [(source, power.energy_unmetered_seconds)];
    let help = (help, "source");
    to.labelled_family("wattline_energy_unmetered_seconds", Kind::Gauge, help, samples);
}

fn knobs(to: &mut Exposition, power: &Power) {
    if power.knobs.is_empty() {
        return;
    }
    to.family("wattline_knob_writes_total", Kind::Counter, "Settings by knob and result.");
    for entry in &power.knobs {
        let others = entry.altered + entry.foreign + entry.failed;
        for (result, count) in [
            ("done", entry.steps.saturating_sub(others)),
            ("altered", entry.altered),
            ("foreign", entry.foreign),
            ("failed", entry.failed),
        ] {
            to.sample(&[("knob", entry.knob.name()), ("result", result)], count as f64);
        }
    }
}

/// Writes meters of platform `host`, and settings whose driver hangs.
fn machine(to: &mut Exposition, host: &HostStatus) {
    let help = ("1 where the meter gave a figure when it was read last.", "source");
    let sensors = host.sensors.iter().map(|(source, up)| (source, f64::from(u8::from(*up))));
    to.labelled_family("wattline_sensor_up", Kind::Gauge, help, sensors);
    let help = "Packets that waited in rings whose table entries moved: may be out of order.";
    let waited = host.waited_at_moves_packets as f64;
    to.single_family("wattline_waited_at_moves_packets_total", Kind::Counter, help, waited);
    let help = "Settings that are left out because their driver does not answer.";
    to.single_family("wattline_knobs_stuck", Kind::Gauge, help, host.stuck.len() as f64);
}
