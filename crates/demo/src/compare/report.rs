//! Result of the demonstration, as data and as a table.

use super::pass::PassFigures;
use crate::remark::DISTURBED;
use crate::watch::Done;
use serde::Serialize;
use std::fmt;
use wattline_report::columns::Columns;
use wattline_testbed::cpu::CpuTime;
use wattline_testbed::forwarder::Totals;

/// Result of one forwarder with one traffic.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    /// Name of the forwarder: `kernel`, `wattline` (its workers) or `wattline xdp` (its XDP
    /// programs).
    pub forwarder: String,
    /// Name of the traffic: `mix`, or the name of a capture.
    pub traffic: String,
    /// Counts and latencies.
    #[serde(flatten)]
    pub figures: PassFigures,
    /// Packets that did not arrive.
    pub lost_packets: u64,
    /// Processor time of the whole machine from the first packet to the last.
    pub cpu: CpuTime,
    /// Processor seconds per forwarded packet; `None` if none was forwarded.
    pub cpu_seconds_per_packet: Option<f64>,
    /// Use of the machine just before the pass, in processors, without this traffic. Such use
    /// disturbs the figures.
    pub background_cpu_share: f64,
}

impl Row {
    pub(super) fn new(
        forwarder: &str,
        traffic: &str,
        figures: PassFigures,
        cpu: CpuTime,
        background_cpu_share: f64,
    ) -> Self {
        Self {
            forwarder: forwarder.to_owned(),
            traffic: traffic.to_owned(),
            figures,
            lost_packets: figures.offered_packets.saturating_sub(figures.forwarded_packets),
            cpu,
            cpu_seconds_per_packet: (figures.forwarded_packets > 0)
                .then(|| cpu.busy_seconds() / figures.forwarded_packets as f64),
            background_cpu_share,
        }
    }

    /// Returns the row as a result for the dashboard.
    pub(super) fn done(&self) -> Done {
        Done {
            stage: format!("{}: {}", self.forwarder, self.traffic),
            offered_packets: self.figures.offered_packets,
            lost_packets: self.lost_packets,
            latency_p99_seconds: Some(self.figures.latency_p99_seconds)
                .filter(|seconds| seconds.is_finite()),
            cpu_seconds_per_packet: self.cpu_seconds_per_packet,
            ..Done::default()
        }
    }
}

/// All rows, with remarks.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Rows in the order of measurement.
    pub rows: Vec<Row>,
    /// Wattline's own counters with forwarding by its workers, if it ran.
    pub wattline: Option<Totals>,
    /// Wattline's own counters with forwarding in its XDP programs.
    pub wattline_xdp: Option<Totals>,
    /// Remarks on the meaning of the figures, and on missing results.
    pub notes: Vec<String>,
}

const HEAD: [&str; 9] = [
    "forwarder",
    "traffic",
    "offered",
    "forwarded",
    "lost",
    "rate, pps",
    "p50, µs",
    "p99, µs",
    "CPU, µs/packet",
];

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Before the figures that it concerns.
        let (disturbed, notes): (Vec<_>, Vec<_>) =
            self.notes.iter().partition(|note| note.starts_with(DISTURBED));
        for note in disturbed {
            writeln!(out, "{note}\n")?;
        }
        if !self.rows.is_empty() {
            write!(out, "{}", Columns::of(HEAD, 2, self.rows.iter().map(cells)))?;
        }
        for note in notes {
            writeln!(out, "- {note}")?;
        }
        Ok(())
    }
}

fn cells(row: &Row) -> [String; 9] {
    let micros = |seconds: f64| format!("{:.1}", seconds * 1e6);
    [
        row.forwarder.clone(),
        row.traffic.clone(),
        row.figures.offered_packets.to_string(),
        row.figures.forwarded_packets.to_string(),
        row.lost_packets.to_string(),
        format!("{:.0}", row.figures.offered_rate_pps),
        micros(row.figures.latency_p50_seconds),
        micros(row.figures.latency_p99_seconds),
        row.cpu_seconds_per_packet.map_or("-".to_owned(), micros),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(received: u64) -> Row {
        let figures = PassFigures {
            offered_packets: 1000,
            forwarded_packets: received,
            offered_rate_pps: 1000.0,
            latency_p50_seconds: 12.34e-6,
            latency_p99_seconds: 99e-6,
        };
        let cpu = CpuTime { user_seconds: 0.001, system_seconds: 0.002, interrupt_seconds: 0.0015 };
        Row::new("kernel", "mix", figures, cpu, 0.0)
    }

    #[test]
    fn table_is_aligned_and_has_the_figures() {
        let report = Report {
            rows: vec![row(900), row(0)],
            wattline: None,
            wattline_xdp: None,
            notes: vec!["as measured".to_owned()],
        };
        let disturbed = Report {
            notes: vec!["as measured".to_owned(), "DISTURBED: by a test".to_owned()],
            ..report.clone()
        };
        let text = disturbed.to_string();
        assert!(text.starts_with("DISTURBED: by a test\n\nforwarder"), "{text}");
        assert!(text.ends_with("- as measured\n"), "{text}");
        let text = report.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[0].chars().count(), lines[1].chars().count());
        let words: Vec<_> = lines[1].split_whitespace().collect();
        assert_eq!(words, ["kernel", "mix", "1000", "900", "100", "1000", "12.3", "99.0", "5.0"]);
        assert!(lines[2].trim_end().ends_with('-'), "no packet, no cost of one");
    }
}
