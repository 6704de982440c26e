//! The result of `wattline load packets` as a self-contained page.

use super::packets_show::{micros, nanos};
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_testbed::packets::limits::Limits;
use wattline_testbed::packets::{Latency, Outcome};

/// One direction of a load.
pub struct Direction<'a> {
    /// Names of the sending and the receiving interface.
    pub name: String,
    pub outcome: &'a Outcome,
    /// Remarks that qualify the figures.
    pub notes: &'a [String],
}

/// Returns the page of one or both directions; `conditions` are names and values.
pub fn page(
    directions: &[Direction<'_>],
    conditions: &[(&str, String)],
    limits: Option<&Limits>,
) -> FigurePage {
    let names: Vec<&str> = directions.iter().map(|direction| direction.name.as_str()).collect();
    let title = format!("Packets {}", names.join(", "));
    let mut page = FigurePage::titled(&title);
    directions.iter().for_each(|direction| page.strong(&verdict(direction)));
    let notes = |direction: &Direction<'_>| {
        let name = direction.name.clone();
        direction.notes.iter().map(move |note| format!("{name}: {note}")).collect::<Vec<_>>()
    };
    page.remarks(directions.iter().flat_map(notes));
    page.heading("Latency");
    page.plots([distribution(directions).svg()]);
    let row = |(name, latency): (&str, &Latency)| {
        let of = [
            latency.min_seconds,
            latency.mean_seconds,
            latency.p50_seconds,
            latency.p90_seconds,
            latency.p99_seconds,
            latency.p999_seconds,
            latency.max_seconds,
        ];
        let [min, mean, p50, p90, p99, p999, max] = of.map(micros);
        [name.to_owned(), min, mean, p50, p90, p99, p999, max]
    };
    let measured =
        directions.iter().map(|direction| (direction.name.as_str(), &direction.outcome.latency));
    let own = limits.map(|limits| ("the generator itself, at half its rate", &limits.latency));
    let heads = ["direction", "min", "mean", "p50", "p90", "p99", "p99.9", "max"];
    page.table(heads, measured.chain(own).map(row));
    page.text(
        "Measured, on one clock, from sending to arrival, including the generator's own part.",
    );
    page.heading("Packets");
    directions.iter().for_each(|direction| packets(&mut page, direction));
    page.heading("Conditions");
    page.values(conditions.iter().cloned().chain(limits.into_iter().flat_map(generator_limits)));
    page
}

fn verdict(direction: &Direction<'_>) -> String {
    let Outcome { sent_packets, lost_packets, .. } = direction.outcome;
    let sent = format!(
        "{}: {sent_packets} packets sent, {:.4} million a second, {:.4} Gbit/s on the wire; ",
        direction.name,
        direction.outcome.sent_rate_pps / 1e6,
        direction.outcome.sent_wire_rate_bps / 1e9
    );
    let kept = match lost_packets {
        0 => "none lost.".to_owned(),
        lost => format!("{lost} lost, {:.3e} of those sent.", direction.outcome.loss_ratio),
    };
    let sound = direction.outcome.soundness().unsound_reason();
    let unsound = sound.map(|why| format!(" The load was not as asked for: {why}."));
    format!("{sent}{kept}{}", unsound.unwrap_or_default())
}

/// Plots latency by the share of packets that took longer, which shows the tail.
fn distribution(directions: &[Direction<'_>]) -> Chart {
    let chart = Chart::new(
        "Packets that took longer than a time",
        Axis::new("latency (µs), logarithmic").logarithmic(),
        Axis::new("share of received packets (%)").logarithmic(),
    );
    directions.iter().fold(chart, |chart, direction| {
        let points = direction.outcome.latency_curve.iter();
        let points = points.map(|(share, seconds)| (seconds * 1e6, (1.0 - share) * 100.0));
        let drawn = points.filter(|(micros, share)| *micros > 0.0 && *share > 0.0);
        chart.series(direction.name.clone(), Mark::Line, drawn)
    })
}

fn packets(page: &mut FigurePage, direction: &Direction<'_>) {
    let outcome = direction.outcome;
    let rate = |pps: f64| format!("{:.4}", pps / 1e6);
    let none = String::new;
    let rows = [
        ("sent", outcome.sent_packets, rate(outcome.sent_rate_pps)),
        ("received", outcome.received_packets, rate(outcome.received_rate_pps)),
        ("lost", outcome.lost_packets, none()),
        ("duplicated", outcome.duplicated_packets, none()),
        ("reordered (RFC 4737)", outcome.reordered_packets, none()),
        ("damaged", outcome.corrupt_packets, none()),
        ("not sent in time", outcome.unsent_packets, none()),
        ("no room at the receiver", outcome.receiver_overflow_packets, none()),
        ("left from an earlier load", outcome.stale_packets, none()),
        ("foreign frames", outcome.foreign_packets, none()),
    ];
    let row =
        |(name, number, rate): (&str, u64, String)| [name.to_owned(), number.to_string(), rate];
    page.subheading(&direction.name);
    page.table(["packets", "number", "Mpps"], rows.into_iter().map(row));
    page.text(&format!(
        "Processor time of the generator: {} a packet sent, {} a packet received.",
        nanos(outcome.sender_cpu_seconds_per_packet),
        nanos(outcome.receiver_cpu_seconds_per_packet)
    ));
    if outcome.worst_flows.is_empty() {
        return;
    }
    let (shown, all) = (outcome.worst_flows.len(), outcome.affected_flows);
    page.text(&format!("{all} flows with lost, duplicated or reordered packets; {shown} of them:"));
    page.table(
        ["flow", "queue", "sent", "lost", "duplicated", "reordered"],
        outcome.worst_flows.iter().map(|flow| {
            let numbers = [
                flow.sent_packets,
                flow.lost_packets,
                flow.duplicated_packets,
                flow.reordered_packets,
            ];
            let [sent, lost, duplicated, reordered] = numbers.map(|number| number.to_string());
            [flow.flow.to_string(), flow.stream.to_string(), sent, lost, duplicated, reordered]
        }),
    );
}

/// Returns the limits of the generator.
fn generator_limits<'a>(limits: &Limits) -> [(&'a str, String); 5] {
    let mpps = |pps: f64| format!("{:.3} Mpps", pps / 1e6);
    [
        ("the generator was measured over", format!("{}, {}", limits.link, limits.ways)),
        ("it sends at full speed", mpps(limits.flat_out_rate_pps)),
        ("it sends and receives without loss", mpps(limits.lossless_rate_pps)),
        ("its processor time, a packet sent", nanos(limits.sender_cpu_seconds_per_packet)),
        ("its processor time, a packet received", nanos(limits.receiver_cpu_seconds_per_packet)),
    ]
}
