//! The page of one simulation.

use super::{MOST, bars, begin, conclude, cores, decisions, latencies, micros, optional, steps};
use wattline_governor::decisions::Decision;
use wattline_report::FigurePage;
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_server::PartPower;
use wattline_sim::Report;

/// Setting and results of a simulation.
#[derive(Debug)]
pub struct Simulation<'a> {
    /// Name of the server model.
    pub server: &'a str,
    /// Policy with its parameters.
    pub policy: &'a str,
    /// Text of the traffic.
    pub traffic: &'a str,
    /// Application that handles each packet.
    pub application: &'a str,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Variations of the setting, such as output links or failing knobs.
    pub variations: &'a [String],
    /// Notes on substituted inputs.
    pub notes: &'a [String],
    /// Changes of the operating point, if requested.
    pub changes: &'a [Decision],
    /// Power by source, if requested.
    pub sources: &'a [PartPower],
    /// The command that reproduces the page.
    pub command: &'a str,
    /// Results.
    pub report: &'a Report,
}

impl Simulation<'_> {
    /// Makes the page.
    pub fn page(&self) -> FigurePage {
        let report = self.report;
        let title = format!("Simulation: {} under {}", self.server, self.policy);
        let power = format!("{} (accuracy: {})", report.source, report.accuracy);
        let mut page = begin(&title, &self.outcome(), &power, self.notes);
        if report.intervals.len() > 1 {
            page.heading("Over time");
            page.plots(self.over_time().iter().map(Chart::svg));
            intervals(&mut page, &report.intervals);
        }
        page.heading("The whole time");
        let parts = report.power_by_component_watts.parts();
        let parts = parts.map(|(component, watts)| (component.name().replace('-', " "), watts.0));
        let mut plots = vec![bars("Power by component", "component", "W", &parts)];
        let percentiles = [
            ("50 %", report.latency_p50_seconds),
            ("95 %", report.latency_p95_seconds),
            ("99 %", report.latency_p99_seconds),
            ("99.9 %", report.latency_p999_seconds),
        ];
        plots.extend(latencies("share of the packets", &percentiles));
        if !report.latency_curve.is_empty() {
            let points = report.latency_curve.iter().filter(|(share, _)| *share < 1.0);
            let points = points.map(|(share, seconds)| (100.0 * (1.0 - share), seconds * 1e6));
            let chart = Chart::new(
                "Distribution of the latency",
                Axis::new("share of the packets that took longer (%)").logarithmic(),
                Axis::new("latency (µs)").logarithmic(),
            );
            let mut points: Vec<(f64, f64)> = points.collect();
            points.reverse();
            plots.push(chart.series("latency", Mark::LineAndPoints, points).svg());
        }
        plots.push(self.residency());
        page.plots(plots);
        page.heading("Figures");
        page.table(["figure", "value"], self.figures());
        if !self.sources.is_empty() {
            page.heading("Power by source");
            let row = |part: &str, watts: f64, source: &str| {
                [part.to_owned(), format!("{watts:.2}"), source.to_owned()]
            };
            let rows = self.sources.iter().map(|it| row(it.part.name(), it.watts.0, &it.source));
            let all = row("all", report.power_watts, "the sum");
            page.table(["part", "modelled, W", "source"], rows.chain([all]));
        }
        decisions(&mut page, self.changes);
        let seconds = format!("{} s, from {} s on", report.duration_seconds, report.from_seconds);
        let conditions = [
            ("server", self.server),
            ("policy", self.policy),
            ("traffic", self.traffic),
            ("application", self.application),
            ("seed", &self.seed.to_string()),
            ("simulated time", &seconds),
            ("variations", &none_or(self.variations)),
        ];
        conclude(page, &conditions, self.command)
    }

    /// Describes the outcome in a sentence.
    fn outcome(&self) -> String {
        let report = self.report;
        let lost = match report.dropped_packets {
            0 => "no packet lost".to_owned(),
            lost => format!(
                "{lost} packets lost ({:.3} %)",
                100.0 * lost as f64 / report.offered_packets.max(1) as f64
            ),
        };
        let latency = match report.latency_p99_seconds {
            Some(p99) => format!(", 99 % of the packets within {:.1} µs", p99 * 1e6),
            None => String::new(),
        };
        format!(
            "{:.2} W at {:.3} of {:.3} Mpps forwarded, {lost}{latency}.",
            report.power_watts,
            report.forwarded_rate_pps / 1e6,
            report.offered_rate_pps / 1e6
        )
    }

    fn over_time(&self) -> Vec<Chart> {
        let time = || Axis::new("simulated time (s)");
        let line = |of: &dyn Fn(&Report) -> f64| -> Vec<(f64, f64)> {
            let middle = |it: &Report| it.from_seconds + it.duration_seconds / 2.0;
            self.report.intervals.iter().map(|it| (middle(it), of(it))).collect()
        };
        let chart = |title: &str, y: &str| Chart::new(title, time(), Axis::new(y).from_zero());
        let micros = |seconds: Option<f64>| seconds.map_or(f64::NAN, |seconds| seconds * 1e6);
        let latency = Chart::new("Latency", time(), Axis::new("latency (µs)").logarithmic());
        let mut charts = vec![
            chart("Packets", "rate (Mpps)")
                .series("offered", Mark::Line, line(&|it| it.offered_rate_pps / 1e6))
                .series("forwarded", Mark::Line, line(&|it| it.forwarded_rate_pps / 1e6)),
            chart("Power", "power (W)").series("server", Mark::Line, line(&|it| it.power_watts)),
            latency.series("50 %", Mark::Line, line(&|it| micros(it.latency_p50_seconds))).series(
                "99 %",
                Mark::Line,
                line(&|it| micros(it.latency_p99_seconds)),
            ),
            chart("Active cores", "active cores, mean").series(
                "active cores",
                Mark::Line,
                line(&|it| it.cores_active_mean),
            ),
            chart("Frequency of active cores", "frequency (GHz)").series(
                "mean",
                Mark::Line,
                line(&|it| it.frequency_mean_hertz / 1e9),
            ),
        ];
        if self.report.dropped_packets > 0 {
            let lost = line(&|it| it.dropped_packets as f64);
            let chart = chart("Lost packets", "lost packets per interval");
            charts.push(chart.series("lost", Mark::Line, lost));
        }
        charts
    }

    fn residency(&self) -> String {
        let residency = &self.report.residency;
        let by = |of: &dyn Fn(&wattline_sim::CoreResidency) -> f64| -> Vec<f64> {
            residency.cores.iter().map(of).collect()
        };
        let mut states = vec![
            ("with packets".to_owned(), by(&|core| core.useful)),
            ("polling".to_owned(), by(&|core| core.empty)),
        ];
        for (index, name) in residency.idle_states.iter().enumerate() {
            let share = |core: &wattline_sim::CoreResidency| core.idle.get(index).copied();
            states.push((name.clone(), by(&|core| share(core).unwrap_or(0.0))));
        }
        cores(states)
    }

    fn figures(&self) -> Vec<[String; 2]> {
        let report = self.report;
        let number = |value: u64| value.to_string();
        let mut rows = [
            ["offered, packets", &number(report.offered_packets)],
            ["forwarded, packets", &number(report.forwarded_packets)],
            ["dropped, ring full, packets", &number(report.dropped_packets)],
            ["of them at output links", &number(report.dropped_at_output_packets)],
            ["beyond the links, not offered, packets", &number(report.beyond_link_packets)],
            ["reordered, packets", &number(report.reordered_packets)],
            ["held back to keep their order, packets", &number(report.held_packets)],
            ["would have been overtaken, packets", &number(report.reordered_unless_held_packets)],
            ["held back for at most, µs", &micros(Some(report.hold_max_seconds))],
            ["latency least, µs", &micros(report.latency_min_seconds)],
            ["latency mean, µs", &micros(report.latency_mean_seconds)],
            ["latency 50 %, µs", &micros(report.latency_p50_seconds)],
            ["latency 95 %, µs", &micros(report.latency_p95_seconds)],
            ["latency 99 %, µs", &micros(report.latency_p99_seconds)],
            ["latency 99.9 %, µs", &micros(report.latency_p999_seconds)],
            ["latency longest, µs", &micros(report.latency_max_seconds)],
            ["power, W", &format!("{:.2}", report.power_watts)],
            ["energy, J", &format!("{:.4}", report.energy_joules)],
            ["energy per packet, µJ", &optional(report.energy_per_packet_joules, 1e6, 4)],
            ["active cores, mean", &format!("{:.3}", report.cores_active_mean)],
            ["frequency, mean, GHz", &format!("{:.3}", report.frequency_mean_hertz / 1e9)],
            ["changes of the operating point", &number(report.transitions)],
            ["interrupts per packet", &optional(report.interrupts_per_packet, 1.0, 4)],
            ["reaction to overload, mean, µs", &micros(report.reaction_mean_seconds)],
            ["real time of the simulation, s", &format!("{:.3}", report.wall_seconds)],
        ]
        .map(|row| row.map(str::to_owned))
        .to_vec();
        let parts = report.power_by_component_watts.parts().into_iter();
        rows.extend(parts.map(|(component, watts)| {
            [format!("power of {}, W", component.name()), format!("{:.2}", watts.0)]
        }));
        rows.extend(steps(&report.knobs));
        rows
    }
}

/// Tabulates the intervals.
fn intervals(page: &mut FigurePage, intervals: &[Report]) {
    if intervals.len() > MOST {
        page.text(&format!("The first {MOST} of {} intervals:", intervals.len()));
    }
    let heads = [
        "from, s",
        "offered, Mpps",
        "forwarded, Mpps",
        "dropped, packets",
        "99 % within, µs",
        "power, W",
        "active cores",
        "GHz",
    ];
    let row = |interval: &Report| {
        [
            format!("{:.4}", interval.from_seconds),
            format!("{:.4}", interval.offered_rate_pps / 1e6),
            format!("{:.4}", interval.forwarded_rate_pps / 1e6),
            interval.dropped_packets.to_string(),
            micros(interval.latency_p99_seconds),
            format!("{:.2}", interval.power_watts),
            format!("{:.2}", interval.cores_active_mean),
            format!("{:.3}", interval.frequency_mean_hertz / 1e9),
        ]
    };
    page.table(heads, intervals.iter().take(MOST).map(row));
}

fn none_or(texts: &[String]) -> String {
    if texts.is_empty() { "none".to_owned() } else { texts.join("; ") }
}
