//! Columns of a sweep's tables, and the table of comma-separated values.

use std::fs::File;
use wattline_league::simulated::SweepRow as Row;
use wattline_sim::Report;

/// Number of a report for a column.
type Column = fn(&Report) -> Option<f64>;

/// Columns that identify the rows and their sources.
pub const NAMES: [&str; 6] = ["server", "policy", "traffic", "application", "source", "accuracy"];

/// Columns of numbers with their units.
pub const NUMBERS: [(&str, Column); 17] = [
    ("offered_rate_pps", |report| Some(report.offered_rate_pps)),
    ("forwarded_rate_pps", |report| Some(report.forwarded_rate_pps)),
    ("beyond_link_packets", |report| Some(report.beyond_link_packets as f64)),
    ("dropped_packets", |report| Some(report.dropped_packets as f64)),
    ("dropped_at_output_packets", |report| Some(report.dropped_at_output_packets as f64)),
    ("reordered_packets", |report| Some(report.reordered_packets as f64)),
    ("held_packets", |report| Some(report.held_packets as f64)),
    ("latency_mean_seconds", |report| report.latency_mean_seconds),
    ("latency_p50_seconds", |report| report.latency_p50_seconds),
    ("latency_p99_seconds", |report| report.latency_p99_seconds),
    ("latency_p999_seconds", |report| report.latency_p999_seconds),
    ("power_watts", |report| Some(report.power_watts)),
    ("energy_per_packet_joules", |report| report.energy_per_packet_joules),
    ("cores_active_mean", |report| Some(report.cores_active_mean)),
    ("frequency_mean_hertz", |report| Some(report.frequency_mean_hertz)),
    ("transitions", |report| Some(report.transitions as f64)),
    ("interrupts_per_packet", |report| report.interrupts_per_packet),
];

/// Returns the texts of a row, in the order of [`NAMES`].
pub fn texts(row: &Row) -> [String; 6] {
    [
        row.server.clone(),
        row.policy.clone(),
        row.traffic.clone(),
        row.application.to_string(),
        row.report.source.to_string(),
        row.report.accuracy.to_string(),
    ]
}

/// Index of the column `seed`, the only whole number, in [`NAMES`].
pub const SEED: usize = 4;

/// Writes rows as comma-separated values; missing values are empty.
pub fn write_csv(file: File, rows: &[Row]) -> csv::Result<()> {
    let mut writer = csv::Writer::from_writer(file);
    let mut names = NAMES.to_vec();
    names.insert(SEED, "seed");
    names.extend(NUMBERS.iter().map(|(name, _)| *name));
    writer.write_record(names)?;
    for row in rows {
        let number = |of: Column| of(&row.report).map_or(String::new(), |value| value.to_string());
        let mut record = texts(row).to_vec();
        record.insert(SEED, row.seed.to_string());
        record.extend(NUMBERS.iter().map(|(_, of)| number(*of)));
        writer.write_record(record)?;
    }
    Ok(writer.flush()?)
}
