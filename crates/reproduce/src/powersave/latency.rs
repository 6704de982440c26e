//! Figure 16: latency over the day, from the model alone and with the path of the experiment.

use super::day::{BYTES, Day, SECONDS, micros, middle, worst};
use crate::error::ReproduceError;
use crate::figure::Figure;
use crate::paper::Paper;
use crate::planned;
use crate::printed::{printed, printed_pair};
use wattline_report::plot::{Axis, Chart, Mark};
use wattline_report::{Check, Table};
use wattline_sim::Report;

/// Returns the mean latency of Click in the experiment of Figure 16, in microseconds (section 7).
pub(super) fn click_micros() -> f64 {
    printed("PS-123")
}
/// Length in bytes of the packets to which the model's base latency was fitted (section 3).
const SHORT: u16 = 64;
/// Bit rate of a link, and bytes per second of eight lanes of PCI Express 2.0.
const LINK: f64 = 10e9;
const BUS: f64 = 4e9;

/// Latency of the path in section 7's experiment that the model lacks, in microseconds. It is the
/// same for every packet and policy, and is calibrated once with Click's mean.
struct Path {
    /// Printed latency of Click minus the model's latency of Click on the same day.
    total: f64,
    /// Part of `total` by which longer packets take longer to arrive over a link; the model has
    /// only the output link and the base latency.
    link: f64,
    /// Part of `total` by which longer packets take longer to cross the cards' buses, in and out.
    buses: f64,
}

impl Path {
    fn calibrated(click: &Report) -> Self {
        let longer = f64::from(BYTES - SHORT);
        Self {
            total: click_micros() - micros(click.latency_mean_seconds),
            link: 1e6 * 8.0 * longer / LINK,
            buses: 2.0 * 1e6 * longer / BUS,
        }
    }
    fn unexplained(&self) -> f64 {
        self.total - self.link - self.buses
    }
    fn mean(&self, report: &Report) -> f64 {
        micros(report.latency_mean_seconds) + self.total
    }
    fn p99(&self, report: &Report) -> f64 {
        micros(report.latency_p99_seconds) + self.total
    }
}

/// Returns the lowest and highest value of the intervals.
fn extent(report: &Report, of: impl Fn(&Report) -> f64) -> (f64, f64) {
    let each = report.intervals.iter().map(of);
    each.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
}

pub(super) fn figure(day: &Day) -> Result<Figure, ReproduceError> {
    let (click, own) = (&day.reports[0], &day.reports[2]);
    let path = Path::calibrated(click);
    let mut table = Table::new([
        "from_seconds",
        "latency_min_us",
        "latency_mean_us",
        "latency_p99_us",
        "click_latency_mean_us",
        "core_changes",
        "calibrated_latency_mean_us",
        "calibrated_latency_p99_us",
        "calibrated_p99_over_mean",
    ]);
    for (own, click) in own.intervals.iter().zip(&click.intervals) {
        table.numbers([
            own.from_seconds,
            micros(own.latency_min_seconds),
            micros(own.latency_mean_seconds),
            micros(own.latency_p99_seconds),
            micros(click.latency_mean_seconds),
            own.core_changes as f64,
            path.mean(own),
            path.p99(own),
            path.p99(own) / path.mean(own),
        ]);
    }
    Ok(Figure {
        id: "fig16",
        title: "Figure 16: latency".into(),
        about: format!(
            "Simulated, every packet counted (the paper takes one sample per millisecond). The paper prints two \
             latencies of the same polling router: 7 µs in section 3, by which the model's base was fitted, and \
             11 µs in this experiment, where ours has {:.2}. The difference, {:.2} µs, is attributed to the path of \
             the experiment, equal for every packet under every policy: calibrated once, on Click's mean, it is \
             added to all of PowerSave's latencies, which are then predictions. In it {:.2} µs are the additional \
             time of {BYTES} bytes over {SHORT} to arrive over a 10G link, {:.2} µs to cross PCI Express 2.0 with \
             eight lanes twice (usual for such cards; the paper names neither); {:.2} µs are unexplained. The table \
             also has uncalibrated figures. For the effect of packets in trains see fig16-trains.",
            micros(click.latency_mean_seconds),
            path.total,
            path.link,
            path.buses,
            path.unexplained(),
        ),
        table,
        plots: vec![chart(click, own, &path).svg()],
        checks: checks(click, own, &path)?,
    })
}

fn chart(click: &Report, own: &Report, path: &Path) -> Chart {
    let line = |report: &Report, of: &dyn Fn(&Report) -> f64| {
        report.intervals.iter().map(|it| (middle(it), of(it))).collect::<Vec<_>>()
    };
    let mean = |report: &Report| micros(report.latency_mean_seconds);
    let (low, high) = printed_pair("PS-121");
    Chart::new(
        "Figure 16: latency under PowerSave, IPv4",
        Axis::new("time (s), a day compressed").range(0.0, SECONDS),
        Axis::new("latency (µs)").from_zero(),
    )
    .series("99th percentile, calibrated", Mark::Line, line(own, &|it| path.p99(it)))
    .series("mean, calibrated", Mark::Line, line(own, &|it| path.mean(it)))
    .series("mean, uncalibrated", Mark::Line, line(own, &mean))
    .series("least, uncalibrated", Mark::Line, line(own, &|it| micros(it.latency_min_seconds)))
    .series("Click's mean, uncalibrated", Mark::Line, line(click, &mean))
    .band("printed: mean", low, high)
}

fn checks(click: &Report, own: &Report, path: &Path) -> Result<Vec<Check>, ReproduceError> {
    let plan = planned::made_for(Paper::Powersave)?;
    let mean = micros(own.latency_mean_seconds);
    let of_click = micros(click.latency_mean_seconds);
    let (lowest, highest) = extent(own, |it| path.mean(it));
    let (least, most) = printed_pair("PS-121");
    let outside =
        own.intervals.iter().filter(|it| !(least..=most).contains(&path.mean(it))).count();
    let (p99, ratio) = worst(own);
    let calibrated_ratio = extent(own, |it| path.p99(it) / path.mean(it)).1;
    Ok(vec![
        plan.check("mean-latency", &[path.mean(own)])?
        .note(format!(
            "a prediction: only Click's mean of the same day is set to the printed 11 µs, by {:.2} µs for \
             all packets alike. Uncalibrated it is {mean:.2}, below",
            path.total
        )),
        plan.check("mean-latency-intervals", &[lowest, highest])?
        .note(format!("{outside} of {} are outside the printed range", own.intervals.len())),
        plan.check("uncalibrated-mean-latency", &[mean])?,
        plan.check("uncalibrated-mean-latency-click", &[of_click])?.note(format!(
            "one of the named conflicts (crates/reproduce/published/conflicts.md, 3), but no contradiction: the paper's two are of \
             different experiments, and it does not print their differences. No model with section 3's 7 µs as base and \
             queues beyond gives 11 at 35 % load: polling cores hardly queue, packets in trains (fig16-trains) or \
             spikes up to the links' rate give it only with a tail far beyond the printed 55 µs. Packet length \
             explains {:.2} of the {:.2} µs that are missing. Calibrated it is 11 by construction, so that is not a check",
            path.link + path.buses,
            path.total
        )),
        plan.check("latency-powersave-adds", &[mean - of_click])?,
        plan.check("tail-over-mean", &[calibrated_ratio])?,
        plan.check("tail-over-mean-uncalibrated", &[ratio])?,
        plan.check("tail", &[p99 + path.total])?
            .note(format!(
                "uncalibrated {p99:.1}. The paper's peaks at 55; 5 more are allowed. The data has the \
                 number of core changes (core_changes)"
            ))
            .fitted("c_down was chosen so that these bounds hold"),
        plan.check("overtaken", &[own.reordered_unless_held_packets as f64])?
        .note(format!(
            "of all packets of the day. Packets overtake when a core is added while another one has more work \
             queued than the 93 µs that the new one takes to leave C6 and wake up; the paper's 10 µs of \
             queueing hold for one queue per core, here each core has a queue of every port. The simulator holds {} \
             packets back at the egress port, {:.1} µs at most, so that {} leave out of order; nothing in the \
             paper holds packets back",
            own.held_packets,
            own.hold_max_seconds * 1e6,
            own.reordered_packets
        )),
    ])
}
