//! The result as a self-contained page.

use super::{Reading, Report, Step, remarks};
use crate::figure_page;
use wattline_report::FigurePage;
use wattline_report::columns::cell;
use wattline_report::plot::{Axis, Chart, Mark};

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let description = &report.description;
    let title = format!("Energy efficiency: {}", description.device);
    let mut page = FigurePage::begin(&title, &verdict(report));
    page.text(&format!("Power: {}.", description.power_from));
    page.remarks(description.notes.iter().cloned().chain(remarks::list(report)));
    let full = report
        .steps
        .iter()
        .find(|step| step.name == "100 %")
        .map_or(0.0, |step| step.reading.power_watts);
    let curve = report.steps.iter().filter(|step| step.is_on_curve());
    let chart = Chart::new(
        "Power over load",
        Axis::new("load, % of the throughput").from_zero(),
        Axis::new("W").from_zero(),
    )
    .series(
        "power",
        Mark::LineAndPoints,
        curve.filter_map(|step| Some((step.share? * 100.0, step.reading.power_watts))),
    )
    .series("in proportion", Mark::Line, [(0.0, 0.0), (100.0, full)]);
    page.plots([chart.svg()]);
    page.heading("Readings");
    readings(&mut page, &report.steps);
    page.text(
        "EER: weighted throughput over weighted power (draft-ietf-bmwg-powerbench, after ETSI ES \
         203 136). The proportionality index is 1 where power is in proportion to the load and 0 \
         where it is always the same; the dynamic range is the share of full power that is saved \
         when idle.",
    );
    let number = |value: Option<f64>| cell(value, 3);
    let how = [
        ("class", report.class.words().to_owned()),
        ("throughput without loss, Mpps", format!("{:.4}", report.throughput_pps / 1e6)),
        ("proportionality index", number(report.proportionality_index)),
        ("dynamic range", number(report.dynamic_range_ratio)),
        ("frames", description.frames.clone()),
        ("ports", description.ports.to_string()),
        ("stabilisation, s", description.stabilisation_seconds.to_string()),
        ("measurement, s", description.measurement_seconds.to_string()),
        ("time", description.time.clone()),
        ("averaging", description.averaging.clone()),
    ];
    figure_page::end(page, &how, None)
}

/// Returns the ratio in a sentence.
fn verdict(report: &Report) -> String {
    let weights: Vec<_> = report
        .loads
        .iter()
        .map(|load| format!("{} at {:.0} %", load.weight, load.share * 100.0))
        .collect();
    match (report.eer_bps_per_watt, &report.void) {
        (Some(ratio), _) => format!(
            "EER {:.3} Mbit/s per W ({}: {})",
            ratio / 1e6,
            report.class.words(),
            weights.join(", ")
        ),
        (None, Some(why)) => format!("EER void: {why}"),
        (None, None) => "EER: no power was read".to_owned(),
    }
}

fn readings(page: &mut FigurePage, steps: &[Step]) {
    if steps.iter().any(|step| step.reading.processor.is_some()) {
        processor_section(page, steps);
    } else {
        cores_section(page, steps);
    }
    let disturbed = steps.iter().filter_map(|step| {
        Some(format!("{}: {}", step.name, step.reading.disturbed_because.as_ref()?))
    });
    let disturbed: Vec<String> = disturbed.collect();
    if !disturbed.is_empty() {
        page.text("Disturbed:");
        page.remarks(disturbed);
    }
}

fn is_disturbed(reading: &Reading) -> String {
    if reading.disturbed_because.is_some() { "yes" } else { "no" }.to_owned()
}

/// Adds the readings of a device whose processor time was measured.
fn processor_section(page: &mut FigurePage, steps: &[Step]) {
    let heads = [
        "load",
        "offered, Mpps",
        "forwarded, Mpps",
        "Gbit/s",
        "lost",
        "processor busy, %",
        "ns a packet",
        "power, W",
        "source",
        "accuracy",
        "disturbed",
    ];
    let row = |step: &Step| {
        let reading = &step.reading;
        let processor = reading.processor;
        let per_packet = processor.and_then(|processor| processor.seconds_per_packet);
        [
            step.name.clone(),
            format!("{:.4}", reading.offered_rate_pps / 1e6),
            format!("{:.4}", reading.forwarded_rate_pps / 1e6),
            format!("{:.4}", reading.forwarded_rate_bps / 1e9),
            reading.lost_packets.to_string(),
            cell(processor.map(|processor| processor.busy_ratio * 100.0), 1),
            cell(per_packet.map(|seconds| seconds * 1e9), 0),
            format!("{:.2}", reading.power_watts),
            reading.source.clone(),
            reading.accuracy.clone(),
            is_disturbed(reading),
        ]
    };
    page.table(heads, steps.iter().map(row));
    page.text(
        "Processor busy, and nanoseconds a packet: the time for which the device's threads had a \
         processor of this machine, measured. Power: a model's for this time.",
    );
}

/// Adds the readings of a device whose cores and queues are known.
fn cores_section(page: &mut FigurePage, steps: &[Step]) {
    let heads = [
        "load",
        "offered, Mpps",
        "forwarded, Mpps",
        "Gbit/s",
        "lost",
        "queued",
        "power, W",
        "active cores",
        "their GHz",
        "awake, %",
        "naps a packet",
        "changes",
        "source",
        "accuracy",
        "disturbed",
    ];
    let row = |step: &Step| {
        let reading = &step.reading;
        let state = reading.state;
        [
            step.name.clone(),
            format!("{:.4}", reading.offered_rate_pps / 1e6),
            format!("{:.4}", reading.forwarded_rate_pps / 1e6),
            format!("{:.4}", reading.forwarded_rate_bps / 1e9),
            reading.lost_packets.to_string(),
            reading.queued_packets.to_string(),
            format!("{:.2}", reading.power_watts),
            cell(state.map(|state| state.cores_active_mean), 1),
            cell(state.map(|state| state.frequency_mean_hertz / 1e9), 2),
            cell(state.map(|state| state.awake_ratio * 100.0), 1),
            cell(state.and_then(|state| state.sleeps_per_packet), 3),
            cell(state.map(|state| state.transitions as f64), 0),
            reading.source.clone(),
            reading.accuracy.clone(),
            is_disturbed(reading),
        ]
    };
    page.table(heads, steps.iter().map(row));
    page.text(
        "Queued: packets by which queues grew under a load that the device cannot forward; a longer \
         load would lose packets. Awake: share of the time of all cores. Changes: of the operating \
         point during the measurement; 0 if the policy has settled. If both loads were held, less \
         power under more load is not an error. A policy with hysteresis keeps the state that it \
         reached, which may be slower at a higher load. If links are nearly full, a core finds more \
         packets at each poll, naps less often and spends less on waking up.",
    );
}
