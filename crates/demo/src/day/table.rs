//! Tables of the report.

use super::modern::{KERNEL, ModernDay, SERVER};
use super::report::{CORES_TOLERANCE, Day, POWER_TOLERANCE, Report, SAME_CORES_SHARE};

pub(super) const HEAD: [&str; 12] = [
    "policy",
    "energy, J",
    "mean, W",
    "saved over poll",
    "over napi",
    "lost",
    "reordered",
    "cores",
    "GHz",
    "p50, µs",
    "p99, µs",
    "step, ms",
];

pub(super) fn cells(day: &Day) -> [String; 12] {
    let whole = &day.outcome.record.whole;
    let optional = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let percent = |ratio: Option<f64>| optional(ratio.map(|r| format!("{:.1} %", r * 100.0)));
    let micros = |seconds: Option<f64>| optional(seconds.map(|s| format!("{:.1}", s * 1e6)));
    let delivery = &day.outcome.delivery;
    let settled = day.step.as_ref().and_then(|step| step.settled_seconds);
    [
        day.policy.clone(),
        optional(whole.energy_joules.map(|joules| format!("{joules:.3}"))),
        optional(whole.power_watts.map(|watts| format!("{watts:.1}"))),
        percent(day.saving_over_poll_ratio),
        percent(day.saving_over_napi_ratio),
        delivery.dropped_packets.to_string(),
        delivery.heard.reordered_packets.to_string(),
        format!("{:.2}", whole.cores_active_mean),
        format!("{:.2}", whole.frequency_mean_hertz / 1e9),
        micros(whole.latency.map(|latency| latency.latency_p50_seconds)),
        micros(whole.latency.map(|latency| latency.latency_p99_seconds)),
        optional(settled.map(|seconds| format!("{:.1}", seconds * 1e3))),
    ]
}

pub(super) const AGREEMENT_HEAD: [&str; 10] = [
    "policy",
    "scale, W",
    "sim, W",
    "difference",
    "scale, cores",
    "sim, cores",
    "difference",
    "within one core",
    "sim step, ms",
    "agree",
];

pub(super) fn agreement(day: &Day) -> [String; 10] {
    let whole = &day.outcome.record.whole;
    let settled = day.step.as_ref().and_then(|step| step.simulated_settled_seconds);
    [
        day.policy.clone(),
        whole.power_watts.map_or("-".into(), |watts| format!("{watts:.2}")),
        format!("{:.2}", day.simulated.power_watts),
        day.power_difference_ratio.map_or("-".into(), |ratio| format!("{:+.2} %", ratio * 100.0)),
        format!("{:.3}", whole.cores_active_mean),
        format!("{:.3}", day.simulated.cores_active_mean),
        format!("{:+.3}", day.cores_difference),
        format!("{:.0} %", day.same_cores_ratio * 100.0),
        settled.map_or("-".into(), |seconds| format!("{:.1}", seconds * 1e3)),
        // Figures of a disturbed run are meaningless.
        match (day.disturbed, day.agrees) {
            (true, _) => "disturbed",
            (false, true) => "yes",
            (false, false) => "no",
        }
        .to_owned(),
    ]
}

pub(super) const MODERN_HEAD: [&str; 5] =
    ["policy", "mean, W", "saved over the kernel", "p99, µs", "lost"];

/// Returns the title of the table of a newer server.
pub(super) fn modern_title() -> String {
    format!(
        "The same traffic on {SERVER} (2023), simulated over a second or more; saved over {KERNEL}, \
         the kernel's default there (watts modelled, static)"
    )
}

pub(super) fn modern(day: &ModernDay) -> [String; 5] {
    [
        day.policy.clone(),
        format!("{:.1}", day.power_watts),
        match day.policy == KERNEL {
            true => "-".to_owned(),
            false => format!("{:.1} %", day.saving_over_kernel_ratio * 100.0),
        },
        day.latency_p99_seconds.map_or("-".to_owned(), |seconds| format!("{:.1}", seconds * 1e6)),
        day.dropped_packets.to_string(),
    ]
}

/// Returns the meaning of the last column of the first table.
pub(super) fn about_step(report: &Report) -> Option<String> {
    let step = report.days.iter().find_map(|day| day.step.as_ref())?;
    Some(format!(
        "step: a separate run in which the load of the links rises from {:.0} to {:.0} % at once; \
         model time until active cores times frequency stays above nine tenths of its final value, \
         to {:.1} ms. Policies that never change anything have none.",
        step.low_load_ratio * 100.0,
        step.high_load_ratio * 100.0,
        step.resolution_seconds * 1e3
    ))
}

/// Returns the meaning of the last column of the comparison with the simulator.
pub(super) fn about_agreement() -> String {
    format!(
        "agree: mean power within {:.0} %, mean active cores within {CORES_TOLERANCE}, cores within one in \
         {:.0} % of the intervals",
        POWER_TOLERANCE * 100.0,
        SAME_CORES_SHARE * 100.0
    )
}

/// Describes the effect of core changes on frames; `None` for a policy that changes no core.
pub(super) fn moves(day: &Day) -> Option<String> {
    let (whole, holds) = (&day.outcome.record.whole, &day.outcome.holds);
    (whole.core_changes > 0).then(|| {
        format!(
            "{}: {} core changes, {} table entries moved; {} of {} frames were held back for them, \
             {:.1} µs at most; {} out of order, {} lost",
            day.policy,
            whole.core_changes,
            whole.entries_moved,
            holds.held_packets,
            day.outcome.delivery.sent_packets,
            holds.hold_max_seconds * 1e6,
            day.outcome.delivery.heard.reordered_packets,
            day.outcome.delivery.lost_packets(),
        )
    })
}
