//! The report of `wattline load packets`.

use super::packets_page::{self, Direction};
use serde::Serialize;
use wattline_report::FigurePage;
use wattline_testbed::packets::Outcome;
use wattline_testbed::packets::limits::Limits;

/// Report of `wattline load packets`.
#[derive(Serialize)]
pub struct Report {
    pub from: String,
    pub to: String,
    pub queues: u32,
    pub zero_copy: bool,
    /// Methods of sending and receiving.
    pub ways: String,
    /// Spread of packets over time, and the end of the trial.
    pub conditions: String,
    /// `None` if not requested.
    pub limits: Option<Limits>,
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The other direction, if requested.
    pub back: Option<Outcome>,
    pub notes: Vec<String>,
}

/// Returns remarks that qualify the figures.
pub fn notes(outcome: &Outcome, limits: Option<&Limits>, reasons: &[String]) -> Vec<String> {
    let mut notes = reasons.to_vec();
    if outcome.unsent_packets > 0 {
        notes.push(format!(
            "the generator could not send {} packets in time; they are not counted",
            outcome.unsent_packets
        ));
    }
    notes.extend(none_came(outcome.received_packets, outcome.lost_packets).map(str::to_owned));
    if outcome.receiver_overflow_packets > 0 {
        notes.push(format!(
            "the receiver had no room for {} packets; they do not count as lost",
            outcome.receiver_overflow_packets
        ));
    }
    if let Some(limits) = limits
        && outcome.lost_packets > 0
        && outcome.sent_rate_pps > limits.lossless_rate_pps
    {
        notes.push(match limits.lossless_rate_pps > 0.0 {
            true => format!(
                "the generator itself loses nothing up to {:.0} packets/s (veth): above, loss may \
                 be its own",
                limits.lossless_rate_pps
            ),
            false => "the generator itself held no rate without loss (veth), so loss may be its \
                      own; is the machine busy?"
                .to_owned(),
        });
    }
    if outcome.divided_flows > 0 {
        notes.push(format!(
            "{} flows arrived at several queues: reordering across queues is not detected",
            outcome.divided_flows
        ));
    }
    notes
}

/// Suggests a wrong address if a device seems to lose everything.
fn none_came(received: u64, lost: u64) -> Option<&'static str> {
    (received == 0 && lost > 0).then_some(
        "no packet arrived: is --mac the address of the interface by which the device receives, and \
         has the device a route and a neighbour for --destination?",
    )
}

/// Returns the page.
pub fn page(report: &Report) -> FigurePage {
    let Report { from, to, limits, .. } = report;
    let limits = limits.as_ref();
    let back_notes = report.back.as_ref().map(|back| notes(back, limits, &[])).unwrap_or_default();
    let mut directions = vec![Direction {
        name: format!("{from} to {to}"),
        outcome: &report.outcome,
        notes: &report.notes,
    }];
    directions.extend(report.back.as_ref().map(|back| Direction {
        name: format!("{to} to {from}"),
        outcome: back,
        notes: &back_notes,
    }));
    let Outcome { frames, frame_mean_bytes, flows, sent_seconds, .. } = &report.outcome;
    let conditions = [
        ("load", report.conditions.clone()),
        ("frames", format!("{frames}, {frame_mean_bytes:.1} bytes on average")),
        ("flows", flows.to_string()),
        ("length", format!("{sent_seconds:.3} s")),
        ("queues", report.queues.to_string()),
        ("packets are", report.ways.clone()),
        ("zero-copy", if report.zero_copy { "yes" } else { "no" }.to_owned()),
    ];
    packets_page::page(&directions, &conditions, limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_suggests_the_address_if_no_packet_arrived() {
        assert!(none_came(0, 5).is_some_and(|note| note.contains("--mac")));
        assert_eq!([none_came(1, 5), none_came(0, 0)], [None, None]);
    }
}
